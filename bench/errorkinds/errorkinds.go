// Package errorkinds counts the failed calls of a caller by what was wrong in them.
package errorkinds

import (
	"errors"
	"regexp"
	"strings"
	"syscall"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/check"
)

// maxKinds bounds the memory for kinds of errors, whatever servers answer.
const maxKinds = 64

// Counts counts calls by what went wrong in them: a call counts once for each kind. It is for one
// goroutine; the zero value is empty.
type Counts map[string]uint64

// Add counts the kinds of one call's error.
func (e *Counts) Add(err error) {
	var q *lockpipe.QuorumError
	if !errors.As(err, &q) {
		e.count(kind(err), 1)
		return
	}
	seen := make(map[string]bool, len(q.Nodes))
	for _, n := range q.Nodes {
		if name := kind(n.Err); name != notNeeded && !seen[name] {
			seen[name] = true
			e.count(name, 1)
		}
	}
	if len(seen) == 0 {
		e.count("split votes", 1)
	}
}

func (e *Counts) count(name string, n uint64) {
	if *e == nil {
		*e = make(Counts)
	}
	if _, known := (*e)[name]; !known && len(*e) >= maxKinds {
		name = "other"
	}
	(*e)[name] += n
}

// Merge adds the counts of another caller.
func (e *Counts) Merge(from Counts) {
	for name, n := range from {
		e.count(name, n)
	}
}

// notNeeded is the kind of a node that nobody waited for: the votes of others had decided.
const notNeeded = "answer not needed"

// names are the kinds of errors that begin so.
var names = [...]struct{ begins, kind string }{
	{"no answer within ", "timeout"},
	{"quarantined ", "quarantined"},
	{"READONLY", "read-only"},
	{"OOM", "out of memory"},
	{"BUSY", "busy with a script"},
	{"LOADING", "loading its data"},
	{"MISCONF", "can't save to disk"},
}

// number is what differs from one moment to another.
var number = regexp.MustCompile("[0-9]+")

// kind returns what people call an error, or its innermost text up to a detail, with N for each
// number: these differ from one node or moment to another.
func kind(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case check.ConnectionBroken(err):
		return "connection broken"
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	text := strings.TrimPrefix(err.Error(), "lockpipe: ")
	for _, name := range names {
		if strings.HasPrefix(text, name.begins) {
			return name.kind
		}
	}
	if word, _, _ := strings.Cut(text, " "); len(word) > 1 && word == strings.ToUpper(word) {
		return strings.TrimSuffix(word, ":")
	}
	text, _, _ = strings.Cut(text, ": ")
	return number.ReplaceAllString(text, "N")
}
