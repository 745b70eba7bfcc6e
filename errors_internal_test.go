package lockpipe

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: the text of an error that leaves the library begins with its prefix, and the errors in
// it have none, whatever it is made of; each of them is found.
func TestTheTextOfAnErrorHasThePrefixOnce(t *testing.T) {
	held := &HeldError{Keys: []string{"k"}, Nodes: []string{"n"}}
	full := &QuorumError{Need: 1, Unknown: 1, Nodes: []*NodeError{{Node: "n", Err: ErrOverloaded}}}
	for name, c := range map[string]struct {
		err   error
		finds []error
	}{
		"held":       {held, []error{ErrHeld}},
		"no quorum":  {full, []error{ErrNoQuorum, ErrOverloaded}},
		"overloaded": {ErrOverloaded, nil},
		"invalid":    {invalid("node %w", io.EOF), []error{ErrInvalid, io.EOF}},
		"ctx":        {errorf("%w", context.Canceled), []error{context.Canceled}},
		"waited": {
			wrapWaited(time.Now(), []string{"k"}, errorf("%w: %w", ErrClosed, held)),
			[]error{ErrClosed, ErrHeld},
		},
		"closed":    {closeError([]error{held, full}, 3, nil), []error{ErrHeld, ErrNoQuorum}},
		"closed, 4": {closeError([]error{held, full, held, held}, 5, nil), []error{ErrHeld}},
		"Close cut": {closeError(nil, 0, context.Canceled), []error{context.Canceled}},
		"several": {&joined{[]error{errorf("a: %w", ErrLost), full}}, []error{
			ErrLost,
			ErrNoQuorum,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			text := c.err.Error()
			require.True(t, strings.HasPrefix(text, "lockpipe: "), text)
			require.Equal(t, 1, strings.Count(text, "lockpipe:"), text)
			for _, want := range c.finds {
				require.ErrorIs(t, c.err, want)
			}
		})
	}
}
