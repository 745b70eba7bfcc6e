package multiplex

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/holders"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/stretchr/testify/require"
)

// What errors.Is finds in an outcome as a test's error.
var (
	ErrHeld     = errors.New("held")
	ErrNoQuorum = errors.New("no quorum")
)

// outcomeError is an outcome as an error, for tests.
type outcomeError struct{ Outcome }

// asError returns nil if a quorum granted.
func asError(o Outcome) error {
	if o.Result == Won {
		return nil
	}
	return &outcomeError{o}
}

func (e *outcomeError) Error() string {
	text := fmt.Sprintf("%q held on %q", e.Keys, e.Nodes)
	if e.Result == NoQuorum {
		text = fmt.Sprintf("no quorum: %d granted, %d refused, %d needed", e.Granted, e.Refused,
			e.Need)
	}
	for _, n := range e.NoVotes {
		text += fmt.Sprintf("; %s: %v", n.Name, n.Err)
	}
	return text
}

func (e *outcomeError) Is(target error) bool {
	return e.Result == Held && target == ErrHeld || e.Result == NoQuorum && target == ErrNoQuorum
}

func (e *outcomeError) Unwrap() []error {
	errs := []error{e.Ended}
	for _, n := range e.NoVotes {
		errs = append(errs, n.Err)
	}
	return errs
}

// The goal: an outcome says why each node has no vote: one that is down, one that hangs, and one
// that answers with an error, after which no other answer is needed.
func TestOutcome_SaysWhyNodesHaveNoVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		down := errors.New("connection refused")
		m.nodes[0].Link.SetState(link.Down, down)
		goOn := hang(m.nodes[1])
		o := m.Acquire(claim("k", "t"), time.Minute, 1).Wait(t.Context())
		require.Equal(t, Outcome{
			Result: NoQuorum, Need: 2, Granted: 1, Unknown: 2, NoVotes: []holders.Node{
				{Name: "node0", State: link.Down, Err: down},
				{
					Name: "node1", State: link.Up,
					Err: &holders.TimeoutError{Timeout: 20 * time.Millisecond},
				},
			},
		}, o)
		goOn()
		time.Sleep(time.Second)
		synctest.Wait()
	})
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		for _, n := range m.nodes {
			n.Link.SetState(link.Down, errBroken)
		}
		a := m.newAttempt(claim("k", "t"), node.Acquire, time.Minute, time.Second, time.Second)
		a.addVote(0, node.Answer{Err: errBroken})
		a.addVote(2, node.Answer{Err: errBroken}) // decides, just before node 1 misses it
		for _, n := range a.outcome(nil).NoVotes {
			require.Equal(t, holders.Node{Name: n.Name, State: link.Down, Err: errBroken}, n)
		}
	})
}
