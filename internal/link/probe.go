package link

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"

	"github.com/lockpipe/lockpipe/script"
)

// probeTTL is how many milliseconds a probe key lasts if it can't be deleted.
const probeTTL = 10_000

// Probe takes a key that is no lock, as an acquire takes one, and deletes it. refusal is the error
// with which the server answered, without the password. It is nil if the server executed the
// acquire.
func (l *Link) Probe(ctx context.Context) (refusal error, answered bool) {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	r := l.run(ctx, script.Acquire, []string{l.probeKey},
		[]string{strconv.Itoa(probeTTL), rand.Text()}, []string{"DEL", l.probeKey})
	if !r.Came {
		return nil, false
	}
	return r.Err, true
}

// uselessErrors are the first words of errors after which a connection is of no use: its server is
// no master with data now. Behind the same address another server may be the master.
var uselessErrors = [...]string{"READONLY", "MASTERDOWN", "LOADING"}

// IsUseless reports whether a server that answers this error is useless.
func IsUseless(err error) bool {
	for _, word := range uselessErrors {
		if hasWord(err, word) {
			return true
		}
	}
	return false
}

// hasWord reports whether an error that a server answered begins with a word. Before Redis 7 an
// error inside a script has the original one in its text.
func hasWord(err error, word string) bool {
	text := err.Error()
	return text == word || strings.HasPrefix(text, word+" ") ||
		strings.Contains(text, ": -"+word+" ")
}

// proveUsable returns why the server is useless, if it is. It asks only if a connection was dropped
// before: the handshake finds out whether the server is a replica, but only if the node is guarded.
func (l *Link) proveUsable(ctx context.Context) error {
	if !l.mustProve {
		return nil
	}
	refusal, answered := l.Probe(ctx)
	switch {
	case !answered:
		return errUnproven
	case refusal != nil && IsUseless(refusal):
		return refusal
	}
	return nil
}

// errUnproven is why a node is down that was dropped, and does not answer again.
var errUnproven = errors.New("no answer to a probe, after the connection was dropped for an error")
