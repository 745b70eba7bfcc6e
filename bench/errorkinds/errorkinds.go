// Package errorkinds counts the failed calls of a caller by what was wrong in them.
package errorkinds

import (
	"errors"
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
		if name := kind(n.Err); !seen[name] {
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

// kind returns an error without what differs from one node or moment to another: the first word of
// a server's answer, or the innermost text up to the first number or detail.
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
	if strings.HasPrefix(text, "no answer within ") {
		return "no answer in time"
	}
	if word, _, _ := strings.Cut(text, " "); len(word) > 1 && word == strings.ToUpper(word) {
		return word
	}
	if i := strings.IndexAny(text, "0123456789:"); i > 0 {
		text = text[:i]
	}
	return strings.TrimSpace(text)
}
