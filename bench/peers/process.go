package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	// processVar is the environment variable that makes this program a process of hot-processes.
	processVar = "PEERS_PROCESS"
	// connectedFile is the file descriptor on which it says that it is connected.
	connectedFile = 3
)

// job is what a process does in a round.
type job struct {
	Contender       string
	URLs            []string
	Tracking        bool // as in nodes; NoLoop too
	NoLoop          bool
	Tag             string
	Callers         int
	Hold, Retry     time.Duration
	Warmup, Window  time.Duration
	Marked, Marking string // as in hotLoad
}

// share is what a process did in its window.
type share struct {
	Window, CPU time.Duration
	Mallocs     uint64
	// Calls has, of each call, the time from the window's begin to its begin, and how long it took.
	Calls   [][2]time.Duration
	Errors  int
	AnError string
	Failed  time.Duration // the longest call that failed
}

// processMain is one process of a round. Its steps are those of crowd.
func processMain(ctx context.Context, in io.Reader, connected, out io.Writer) error {
	var (
		messages = json.NewDecoder(in)
		j        job
		begin    time.Time
	)
	if err := messages.Decode(&j); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	entries, err := choose(j.Contender)
	if err != nil {
		return err
	}
	n := &nodes{urls: j.URLs, tracking: j.Tracking, noloop: j.NoLoop}
	client, err := openUsed(ctx, entries[0], n)
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := connected.Write([]byte{1}); err != nil {
		return err
	}
	if err := messages.Decode(&begin); err != nil {
		return fmt.Errorf("read when to begin: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in) // nothing more comes until the parent gives up
		cancel()
	}()
	s := scenario{callers: j.Callers, keys: 1, hot: &hotLoad{
		hold: j.Hold, retry: j.Retry, marked: j.Marked, marking: j.Marking,
	}}
	c := contestant{tag: j.Tag, waiters: []waiter{client.(waiter)}}
	sleep(ctx, time.Until(begin))
	callers, from, to := load(ctx, s, c, settings{window: j.Window, warmup: j.Warmup})
	if err := ctx.Err(); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(newShare(callers, from, to))
}

// newShare adds up what the callers of a process did.
func newShare(callers []caller, from, to usage) share {
	used := to.client.Since(from.client)
	all := share{Window: to.at - from.at, CPU: used.CPU, Mallocs: used.Allocs}
	for i := range callers {
		k := &callers[i]
		for _, c := range k.calls {
			all.Calls = append(all.Calls, [2]time.Duration{c.begin - from.at, c.took})
		}
		all.Errors += k.errors
		all.Failed = max(all.Failed, k.failed)
		if k.err != nil {
			all.AnError = k.err.Error()
		}
	}
	return all
}

// caller returns the share as that of one caller, whose time is zero when the window begins.
func (s share) caller(of scenario, c contestant) caller {
	k := caller{scenario: of, contestant: c, errors: s.Errors, failed: s.Failed}
	if s.AnError != "" {
		k.err = errors.New(s.AnError)
	}
	for _, c := range s.Calls {
		k.calls = append(k.calls, call{begin: c[0], took: c[1]})
	}
	return k
}
