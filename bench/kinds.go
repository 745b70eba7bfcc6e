package bench

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/lockpipe/lockpipe"
)

// maxKinds bounds the memory for kinds of errors, whatever servers say.
const maxKinds = 64

// kinds counts calls by what went wrong in them: a call counts once for each kind. Owned by one
// worker; the zero value is ready.
type kinds map[string]uint64

// note counts the kinds of one call's error.
func (k *kinds) note(err error) {
	var q *lockpipe.QuorumError
	if !errors.As(err, &q) {
		k.count(kind(err), 1)
		return
	}
	seen := make(map[string]bool, len(q.Nodes))
	for _, n := range q.Nodes {
		if name := kind(n.Err); !seen[name] {
			seen[name] = true
			k.count(name, 1)
		}
	}
	if len(seen) == 0 {
		k.count("split votes", 1)
	}
}

func (k *kinds) count(name string, n uint64) {
	if *k == nil {
		*k = make(kinds)
	}
	if _, known := (*k)[name]; !known && len(*k) >= maxKinds {
		name = "other"
	}
	(*k)[name] += n
}

// add adds those of another worker.
func (k *kinds) add(from kinds) {
	for name, n := range from {
		k.count(name, n)
	}
}

// kind is an error without what differs from one node or moment to another: the first word of a
// server's answer, or the innermost text up to the first number or detail.
func kind(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case broken(err):
		return "connection broken"
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	text := strings.TrimPrefix(err.Error(), "lockpipe: ")
	if word, _, _ := strings.Cut(text, " "); len(word) > 1 && word == strings.ToUpper(word) {
		return word
	}
	if i := strings.IndexAny(text, "0123456789:"); i > 0 {
		text = text[:i]
	}
	return strings.TrimSpace(text)
}

// broken tells that a connection was there and has ended.
func broken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
