package locker

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/outcomes"
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
			votes.NoVotes = append(votes.NoVotes, multiplex.NoVote{Err: fmt.Errorf("x: %w", why)})
		}
		return votes
	}
	held := multiplex.Outcome{Result: multiplex.Held}
	cut := multiplex.Outcome{Result: multiplex.Held, Ended: context.DeadlineExceeded}
	for _, c := range []struct {
		failure *Failure
		want    outcomes.Outcome
	}{
		{nil, outcomes.Granted},
		{&Failure{Votes: held}, outcomes.Held},
		{&Failure{Votes: held, Closing: true}, outcomes.Closed},
		{&Failure{Votes: cut}, outcomes.Canceled},
		{&Failure{Votes: cut, Closing: true}, outcomes.Closed},
		{&Failure{Votes: held, End: context.Canceled}, outcomes.Canceled},
		{&Failure{Votes: held, End: lease.ErrClosed}, outcomes.Closed},
		{&Failure{Votes: none(errors.New("OOM"))}, outcomes.NoQuorum},
		{&Failure{Votes: none(errors.New("OOM"), batch.ErrOverloaded)}, outcomes.Overloaded},
		{&Failure{Votes: none(batch.ErrOverloaded, context.Canceled)}, outcomes.Canceled},
		{&Failure{Votes: multiplex.Outcome{Result: multiplex.Won}}, outcomes.NoQuorum},
		{&Failure{End: context.Canceled}, outcomes.Canceled},
		{&Failure{End: lease.ErrClosed}, outcomes.Closed},
		{Overloaded(), outcomes.Overloaded},
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
