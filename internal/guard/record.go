package guard

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// recordLasts is how long a wait record is kept. Its age follows from the time that it has left, so
// all records last equally long.
const recordLasts = 180 * 24 * time.Hour

// maxWait is the longest W.
const maxWait = recordLasts / 2

// The kinds of records.
const (
	isNew  = "new"  // perhaps the nodes are used for the first time
	isLost = "lost" // they are not
)

// record is the key of a server that waits.
type record struct {
	kind   string
	wait   time.Duration // W
	memory string        // of the server: see server.memory
	nonce  string        // drawn when it was written; it stays when the rest changes
}

func newRecord(kind string, wait time.Duration, memory string) record {
	return record{kind, wait, memory, rand.Text()}
}

func (r record) text() string {
	return fmt.Sprintf("%s:%d:%s:%s", r.kind, r.wait.Milliseconds(), r.memory, r.nonce)
}

// parse reads a record. ok is false for anything else.
func parse(text string) (r record, ok bool) {
	words := strings.Split(text, ":")
	if len(words) != 4 || words[0] != isNew && words[0] != isLost || !plain(words[2]) {
		return record{}, false
	}
	ms, err := strconv.ParseInt(words[1], 10, 64)
	wait := time.Duration(ms) * time.Millisecond
	if err != nil || ms <= 0 || wait <= 0 || wait > maxWait {
		return record{}, false
	}
	return record{words[0], wait, words[2], words[3]}, true
}

// StateOf returns what a key says that has so much time left, of a server that shows this in INFO:
// it votes, or it waits. It does neither if it has lost its memory and no client has seen that yet.
func StateOf(text string, left time.Duration, info map[string]string) (
	votes, waits bool, rest time.Duration,
) {
	shown := sight{text: text, left: left}
	shown.server = server{runID: info["run_id"], memory: memoryOf(info["run_id"], info)}
	d := decide(&shown, &known{seenFor: recordLasts})
	return d.action == vote, d.action == wait, d.left
}

// age returns for how long the server certainly has the record. A second is left: the server counts
// in its own milliseconds, and may run a command some time after it has looked at its clock.
func age(left time.Duration) time.Duration { return recordLasts - left - time.Second }

// mostLeft returns what a record has left at most when it is this old.
func mostLeft(wait time.Duration) time.Duration { return recordLasts - wait - time.Second }
