package fleet

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

const (
	// outlasts is for how much longer than its wait an entry lasts when it is renewed.
	outlasts = 10 * time.Minute
	// maxLayouts is how long Layouts may be, so that several entries fit into a reply.
	maxLayouts = 8000
)

// Entry is what the clients of one configuration leave on a node. There it is a field of a hash:
// see script.Layouts. The field's name is in JSON.
type Entry struct {
	// WaitMillis is for how long a node must not vote that may have lost locks of these clients:
	// MaxTTLMillis, or longer on a node that sentinels name.
	WaitMillis   int64 `json:"wait_ms"`
	MaxTTLMillis int64 `json:"max_ttl_ms"`
	// Layouts are the one or two that these clients use: see Sorted. There are none if they
	// are too long.
	Layouts [][]Group `json:"layouts"`

	// Owner is that of the client that has renewed the entry last, or "-".
	Owner string `json:"-"`
	// RunIDs has the run_ids of the nodes that this client was connected to, by their names.
	RunIDs map[string]string `json:"-"`
	// Until is when the entry ends.
	Until time.Time `json:"-"`
}

// Wait returns WaitMillis as a time.
func (e *Entry) Wait() time.Duration { return time.Duration(e.WaitMillis) * time.Millisecond }

// MaxTTL returns MaxTTLMillis as a time.
func (e *Entry) MaxTTL() time.Duration { return time.Duration(e.MaxTTLMillis) * time.Millisecond }

// Renewed returns when the entry was renewed last.
func (e *Entry) Renewed() time.Time { return e.Until.Add(-e.Wait() - outlasts) }

// ParseEntries reads the fields and values of a node's hash, which take turns. serverMillis was the
// server's time at a time of this process. It leaves out what is no entry, and what has ended.
func ParseEntries(pairs []string, serverMillis int64, at time.Time) (all []Entry) {
	for i := 0; i+1 < len(pairs); i += 2 {
		e, value := Entry{}, strings.SplitN(pairs[i+1], " ", 3) // the end, Owner and RunIDs
		end, err := strconv.ParseInt(value[0], 10, 64)
		if err == nil && end > serverMillis && len(value) == 3 &&
			json.Unmarshal([]byte(pairs[i]), &e) == nil && e.MaxTTLMillis > 0 &&
			json.Unmarshal([]byte(value[2]), &e.RunIDs) == nil && e.WaitMillis >= e.MaxTTLMillis {
			e.Owner = value[1]
			e.Until = at.Add(time.Duration(end-serverMillis) * time.Millisecond)
			all = append(all, e)
		}
	}
	return all
}

// inJSON returns what JSON can encode.
func inJSON(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// describe returns layouts as people read them.
func describe(layouts [][]Group) string {
	texts := make([]string, len(layouts))
	for i, groups := range layouts {
		for _, g := range groups {
			texts[i] += "; " + strings.TrimSpace(g.Name+" "+strings.Join(g.Nodes, ","))
		}
		texts[i] = strings.TrimPrefix(texts[i], "; ")
	}
	return strings.Join(texts, " and next ")
}
