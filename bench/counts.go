package bench

import (
	"context"
	"errors"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/errorkinds"
	"github.com/lockpipe/lockpipe/bench/series"
)

// counts are keys, if nothing else is said: a lease over 100 keys is 100 locks.
type counts struct {
	series.Tally // without Acquired and Extended
	firstError   error
	byKind       errorkinds.Counts // of calls, not refused
}

// fail counts keys that were not granted.
func (c *counts) fail(r result) {
	switch {
	case errors.Is(r.err, lockpipe.ErrHeld):
		c.Refused += uint64(r.keys)
	case errors.Is(r.err, lockpipe.ErrNoQuorum):
		c.NoQuorum += uint64(r.keys)
		c.byKind.Add(r.err)
	default:
		c.failOtherwise(r)
	}
}

// end counts keys that were granted, by how their lease ended.
func (c *counts) end(r result) {
	switch {
	case r.err == nil:
		c.Released += uint64(r.keys)
	case errors.Is(r.err, lockpipe.ErrExpired):
		c.Expired += uint64(r.keys)
	case errors.Is(r.err, lockpipe.ErrLost):
		c.Lost += uint64(r.keys)
	default:
		c.failOtherwise(r)
	}
}

func (c *counts) failOtherwise(r result) {
	c.Errors += uint64(r.keys)
	c.byKind.Add(r.err)
	if c.firstError == nil {
		c.firstError = r.err
	}
}

// merge adds the counts of another caller.
func (c *counts) merge(from counts) {
	c.Add(from.Tally)
	c.byKind.Merge(from.byKind)
	if c.firstError == nil {
		c.firstError = from.firstError
	}
}

// tally returns the counts in the form of a series; acquired is how many keys were granted.
func (c *counts) tally(acquired uint64) series.Tally {
	all := c.Tally
	all.Acquired = acquired
	return all
}

// cutOff reports whether a call failed only because the run was over.
func cutOff(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, ctx.Err())
}
