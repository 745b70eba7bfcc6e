package lockpipe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/holders"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/prefix"
	"github.com/lockpipe/lockpipe/multiplex"
	"github.com/stretchr/testify/require"
)

// The goal: the text of an error that leaves the library begins with its prefix, and the errors in
// it have none, whatever it is made of; each of them is found.
func TestErrors_HaveThePrefixOnce(t *testing.T) {
	held := &HeldError{Keys: []string{"k"}, Nodes: []string{"n"}}
	full := &QuorumError{Need: 1, Unknown: 1, Nodes: []*NodeError{{Node: "n", Err: ErrOverloaded}}}
	votes := multiplex.Outcome{
		Result: multiplex.Held, Keys: []string{"k"}, Nodes: []string{"n"}, Ended: context.Canceled,
	}
	for name, c := range map[string]struct {
		err   error
		finds []error
	}{
		"held":       {held, []error{ErrHeld}},
		"no quorum":  {full, []error{ErrNoQuorum, ErrOverloaded}},
		"overloaded": {ErrOverloaded, nil},
		"invalid":    {invalid("node %w", io.EOF), []error{ErrInvalid, io.EOF}},
		"ctx":        {prefix.Errorf("%w", context.Canceled), []error{context.Canceled}},
		"waited": {
			waitedFor("k", locker.Failure{Votes: votes, Closing: true}),
			[]error{ErrClosed, ErrHeld, context.Canceled},
		},
		"ended": {
			waitedFor("k", locker.Failure{Votes: votes, End: ErrClosed}),
			[]error{ErrClosed, ErrHeld, context.Canceled},
		},
		"not begun": {failureError(&locker.Failure{End: context.Canceled}), []error{
			context.Canceled,
		}},
		"late": {
			failureError(&locker.Failure{
				Votes: multiplex.Outcome{Result: multiplex.Won}, Passed: 9, TTL: 10,
			}),
			[]error{ErrNoQuorum},
		},
		"closed":    {closeError([]error{held, full}, 3, nil), []error{ErrHeld, ErrNoQuorum}},
		"closed, 4": {closeError([]error{held, full, held, held}, 5, nil), []error{ErrHeld}},
		"Close cut": {closeError(nil, 0, context.Canceled), []error{context.Canceled}},
		"several": {prefix.Join([]error{prefix.Errorf("a: %w", ErrLost), full}), []error{
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

// The goal: the text about held keys says on which nodes, a bounded number of them, and counts them
// in good grammar.
func TestErrors_AHeldErrorNamesTheNodes(t *testing.T) {
	text := func(keys, nodes int) string {
		e := &HeldError{}
		for i := range keys {
			e.Keys = append(e.Keys, fmt.Sprint("k", i))
		}
		for i := range nodes {
			e.Nodes = append(e.Nodes, fmt.Sprint("n", i))
		}
		return e.Error()
	}
	require.Equal(t, `lockpipe: "k0" is held by another caller of this Client`, text(1, 0))
	require.Equal(t, `lockpipe: "k0" held by another caller, seen on 1 node (n0)`, text(1, 1))
	require.Equal(t, `lockpipe: "k0" "k1" "k2" held by another caller, seen on 2 nodes (n0, n1)`, text(4, 2))
	require.Equal(t, `lockpipe: "k0" held by another caller, seen on 6 nodes (n0, n1, n2, n3, n4, ...)`,
		text(1, 6))
	owned := &HeldError{Keys: []string{"k"}, Nodes: []string{"n"}, Owner: "web-3:4711"}
	require.EqualError(t, owned, `lockpipe: "k" held by another caller (web-3:4711), seen on 1 node (n)`)
}

// The goal: the text about a missing quorum begins with what a reader wants to know first: how many
// nodes granted, how many are needed, and what the others did.
func TestErrors_AQuorumErrorCountsFirst(t *testing.T) {
	err := votesError(multiplex.Outcome{
		Result: multiplex.NoQuorum, Need: 4, Granted: 1, Refused: 1, Unknown: 6,
		NoVotes: []holders.Node{
			{Name: "a", State: link.Down, Err: errors.New("refused")},
			{Name: "b", Err: &holders.TimeoutError{Timeout: 50 * time.Millisecond}},
			{Name: "c", State: link.Quarantined, Err: errors.New("quarantined")},
			{Name: "d", Err: errors.New("OOM")},
			{Name: "e", State: link.Down, Err: errors.New("refused")},
			{Name: "f", Err: multiplex.NotAwaited("not needed")},
		},
	})
	require.EqualError(t, err, "lockpipe: no quorum: 1 of 8 nodes granted, 4 needed; 1 refused, "+
		"1 quarantined, 2 down, 1 timed out, 1 not waited for, 1 failed: a: refused; "+
		"b: no answer within 50ms; c: quarantined; d: OOM; e: refused; "+
		"f: not needed")
	e := &QuorumError{Need: 1, Unknown: 1, Nodes: []*NodeError{{Node: "a", Err: errors.New("OOM")}}}
	require.EqualError(t, e, "lockpipe: no quorum: 0 of 1 node granted, 1 needed; 1 failed: a: OOM")
}

// The goal: whatever an attempt came to, errors.As finds the public type in its error, errors.Is
// finds the reasons, and the text has the prefix once.
func TestErrors_OfAttemptsArePublic(t *testing.T) {
	require.NoError(t, votesError(multiplex.Outcome{Result: multiplex.Won}))
	held := multiplex.Outcome{
		Result: multiplex.Held, Keys: []string{"k"}, Nodes: []string{"a", "b"},
	}
	none := multiplex.Outcome{
		Result: multiplex.NoQuorum, Need: 2, Granted: 1, Unknown: 2, NoVotes: []holders.Node{
			{Name: "a", Err: io.EOF}, {Name: "b", State: link.Down, Err: ErrOverloaded},
		},
	}
	for _, ended := range []error{nil, context.Canceled} {
		held.Ended, none.Ended = ended, ended
		for name, errorOf := range map[string]func(multiplex.Outcome) error{
			"bare": votesError,
			"waited": func(votes multiplex.Outcome) error {
				return waitedFor("k", locker.Failure{Votes: votes})
			},
			"closed": func(votes multiplex.Outcome) error {
				return closeError([]error{votesError(votes), votesError(votes)}, 2, nil)
			},
			"joined": func(votes multiplex.Outcome) error {
				return errors.Join(io.ErrUnexpectedEOF, votesError(votes))
			},
		} {
			t.Run(fmt.Sprint(name, " ", ended), func(t *testing.T) {
				err := errorOf(held)
				var h *HeldError
				require.ErrorAs(t, err, &h)
				require.Equal(t, &HeldError{Keys: held.Keys, Nodes: held.Nodes}, h)
				require.ErrorIs(t, err, ErrHeld)
				require.Equal(t, 1, strings.Count(err.Error(), "lockpipe:"), err)

				lacking := errorOf(none)
				var q *QuorumError
				require.ErrorAs(t, lacking, &q)
				require.Equal(t, []int{2, 1, 0, 2}, []int{q.Need, q.Granted, q.Refused, q.Unknown})
				var n *NodeError
				require.ErrorAs(t, lacking, &n)
				require.Equal(t, &NodeError{Node: "a", Err: io.EOF}, n)
				for _, want := range []error{ErrNoQuorum, io.EOF, ErrOverloaded} {
					require.ErrorIs(t, lacking, want)
				}
				require.Equal(t, 1, strings.Count(lacking.Error(), "lockpipe:"), lacking)
				if ended != nil {
					require.ErrorIs(t, err, ended)
					require.ErrorIs(t, lacking, ended)
				}
			})
		}
	}
}

// The goal: what the locker decides by, and the error that the user gets of the same failure,
// agree: whether a further attempt may help, and whether the end of ctx is the reason.
func TestErrors_AgreeWithTheFailuresOfTheLocker(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	ends := []error{nil, context.Canceled, context.DeadlineExceeded, ErrClosed}
	var all []locker.Failure
	for _, closing := range []bool{false, true} {
		for _, ended := range ends[:2] {
			for _, result := range []multiplex.Result{multiplex.Won, multiplex.Held} {
				all = append(all, locker.Failure{Closing: closing, Votes: multiplex.Outcome{
					Result: result, Ended: ended,
				}})
			}
			for _, why := range []error{io.EOF, ErrOverloaded, context.Canceled} {
				all = append(all, locker.Failure{Closing: closing, Votes: multiplex.Outcome{
					Result: multiplex.NoQuorum, Ended: ended, Unknown: 1,
					NoVotes: []holders.Node{{Name: "a", Err: why}},
				}})
			}
		}
	}
	for _, end := range append(ends[1:], ErrOverloaded) {
		all = append(all, locker.Failure{End: end})
	}
	for _, f := range all {
		if f.Votes.Result == multiplex.Won && (f.Closing || f.Votes.Ended != nil) {
			continue // too late: these say nothing
		}
		for _, end := range ends {
			f := f
			if end != nil && f.Votes.Result != 0 {
				f.EndedBy(end)
			}
			err := failureError(&f)
			held, none := errors.Is(err, ErrHeld), errors.Is(err, ErrNoQuorum)
			require.Equal(t, held, f.IsHeld(), err)
			require.Equal(t, none, f.IsNoQuorum(), err)
			require.Equal(t, (held || none) && !errors.Is(err, ErrOverloaded), f.Retryable(), err)
			require.Equal(t, errors.Is(err, context.Canceled), f.CutShort(over), err)
			require.Equal(t, 1, strings.Count(err.Error(), "lockpipe:"), err)
			if end != nil && f.Votes.Result != 0 {
				require.ErrorIs(t, err, end)
			}
		}
	}
}

// waitedFor returns the error of a call that waited for a key, and failed with f.
func waitedFor(key string, f locker.Failure) error {
	return failureError(f.AfterWaiting([]string{key}, time.Now()))
}
