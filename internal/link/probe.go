package link

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lockpipe/lockpipe/script"
)

// Probe runs each command that locks need, with a key that is not there. refusal is the error with
// which the server answered, without the password: of a command that the user may not use, or that
// an acquire would get. It is nil if the server executed all.
func (l *Link) Probe(ctx context.Context) (refusal error, answered bool) {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	failed, refusal, err := l.run(ctx, script.Probe, l.probeKey, nil)
	if err != nil {
		return nil, false
	}
	return probed(failed, refusal), true
}

// ForbiddenError is why a node is of no use whose user may not use a command that locks need.
type ForbiddenError struct{ Command, Text string }

// Error names the command.
func (e *ForbiddenError) Error() string {
	if strings.Contains(e.Text, "nknown ") {
		return fmt.Sprintf("it can't be a node, because it does not know %s: %s", e.Command, e.Text)
	}
	return fmt.Sprintf("its user may not use %s: %s", e.Command, e.Text)
}

// probed returns what a reply to script.Probe shows: see Probe. err is the error of the call, or
// failed are the commands that failed, with their errors.
func probed(failed []string, err error) error {
	if err != nil {
		failed = []string{"EVALSHA " + err.Error()}
	}
	for _, f := range failed {
		if command, text, _ := strings.Cut(f, " "); forbids(text) {
			return &ForbiddenError{command, text}
		}
	}
	for _, f := range failed {
		if text, isAcquire := strings.CutPrefix(f, "SET "); isAcquire {
			return errors.New(text)
		}
	}
	return err
}

// forbids reports whether an error says that the user may not use a command, or that the server
// does not know it. One about the key of that name need not hold for those of locks.
func forbids(text string) bool {
	return strings.HasPrefix(text, "NOPERM ") && strings.Contains(text, " command") ||
		strings.Contains(text, "can't run this command") || // in a script of Redis 7.0
		strings.Contains(text, "no permissions to run the '") || // of newer servers
		strings.Contains(text, "nknown ") && strings.Contains(text, "command")
}

// uselessErrors are the first words of errors after which a connection is of no use: its server is
// no master with data now, or not the owner of the node's slot in a cluster, or not of all of it.
// Another server may be the master, also behind the same address.
var uselessErrors = [...]string{
	"READONLY", "MASTERDOWN", "LOADING", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN",
}

// IsUseless reports whether a server that answers this error, or a probe with it, is useless.
func IsUseless(err error) bool {
	var forbidden *ForbiddenError
	if errors.As(err, &forbidden) {
		return true
	}
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
