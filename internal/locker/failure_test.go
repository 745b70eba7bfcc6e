package locker

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/holders"
	"github.com/lockpipe/lockpipe/internal/stats"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
	"github.com/stretchr/testify/require"
)

// The goal: a failure counts as what explains it best: the end of the client, then that of the
// caller, then an overload, then what the nodes say.
func TestFailure_CountsAsWhatExplainsItBest(t *testing.T) {
	none := func(whys ...error) multiplex.Outcome {
		votes := multiplex.Outcome{Result: multiplex.NoQuorum}
		for _, why := range whys {
			votes.NoVotes = append(votes.NoVotes, holders.Node{Err: fmt.Errorf("x: %w", why)})
		}
		return votes
	}
	held := multiplex.Outcome{Result: multiplex.Held}
	cut := multiplex.Outcome{Result: multiplex.Held, Ended: context.DeadlineExceeded}
	for _, c := range []struct {
		failure *Failure
		want    stats.Outcome
	}{
		{nil, stats.Granted},
		{&Failure{Votes: held}, stats.Held},
		{&Failure{Votes: held, Closing: true}, stats.Closed},
		{&Failure{Votes: cut}, stats.Canceled},
		{&Failure{Votes: cut, Closing: true}, stats.Closed},
		{&Failure{Votes: held, End: context.Canceled}, stats.Canceled},
		{&Failure{Votes: held, End: lease.ErrClosed}, stats.Closed},
		{&Failure{Votes: none(errors.New("OOM"))}, stats.NoQuorum},
		{&Failure{Votes: none(errors.New("OOM"), batch.ErrOverloaded)}, stats.Overloaded},
		{&Failure{Votes: none(batch.ErrOverloaded, context.Canceled)}, stats.Canceled},
		{&Failure{Votes: multiplex.Outcome{Result: multiplex.Won}}, stats.NoQuorum},
		{&Failure{End: context.Canceled}, stats.Canceled},
		{&Failure{End: lease.ErrClosed}, stats.Closed},
		{Overloaded(), stats.Overloaded},
	} {
		require.Equal(t, c.want, c.failure.outcome(), "%+v", c.failure)
	}
}

// The goal: the reason for which a call ended is there once, also if the votes have it already.
func TestFailure_HasTheReasonOnce(t *testing.T) {
	f := &Failure{Votes: multiplex.Outcome{Result: multiplex.Held, Ended: context.Canceled}}
	require.NoError(t, f.EndedBy(context.Canceled).End)
	require.Equal(t, lease.ErrClosed, f.EndedBy(lease.ErrClosed).End)
	f = &Failure{Votes: multiplex.Outcome{Result: multiplex.Held}, Closing: true}
	require.NoError(t, f.EndedBy(lease.ErrClosed).End)
}
