package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

const (
	// processesName is the scenario in which the callers are in several processes.
	processesName = "hot-processes"

	defaultProcesses      = 16
	defaultProcessCallers = 8
	defaultProcessHold    = time.Millisecond
	maxProcesses          = 256
	maxProcessCallers     = 1024

	// beginDelay is the time from the message that says when to begin until then.
	beginDelay = 100 * time.Millisecond
	// giveUpTime is how long a process may take to end after it is told to. Then it is killed.
	giveUpTime = 5 * time.Second
)

// crowd is the processes of one round. Each is this program again.
//
//  1. The parent writes a job to the process's standard input.
//  2. The process connects, and writes a byte to file descriptor 3. Then the parent starts the next
//     process, so they connect in order.
//  3. The parent writes to all when to begin.
//  4. The process writes its share to its standard output, and ends.
//
// If a process fails or ctx ends, the parent closes all standard inputs, and the processes give up.
// They also do if the parent is killed.
type crowd struct {
	fail    context.CancelCauseFunc // ends all; the first cause counts
	inputs  []*json.Encoder
	running sync.WaitGroup
	shares  []share // each is written before its process has ended
}

// measureProcesses is measure with the callers in several processes. All have ended when it
// returns. If one of them failed there is no round.
func measureProcesses(ctx context.Context, s scenario, c contestant, set settings) (r round,
	err error,
) {
	dir, err := os.MkdirTemp("", "peers-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is among temporary files
	j := job{
		Contender: c.label, URLs: c.nodes.urls, Tracking: c.nodes.tracking, NoLoop: c.nodes.noloop,
		Tag: c.tag, Callers: s.callers, Hold: s.hot.hold, Retry: s.hot.retry,
		Warmup: set.warmup, Window: set.window,
		Marked: filepath.Join(dir, "key"), Marking: filepath.Join(dir, "held"),
	}
	if err := os.WriteFile(j.Marked, nil, 0o600); err != nil {
		return r, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	k := &crowd{fail: fail, shares: make([]share, s.hot.processes)}
	defer k.running.Wait()
	defer fail(nil)
	for i := range k.shares {
		if err := k.start(ctx, i, j); err != nil {
			return r, err
		}
	}
	begin := time.Now().Add(beginDelay)
	for _, in := range k.inputs {
		_ = in.Encode(begin) // a process that has ended is noticed by its end
	}
	sleep(ctx, time.Until(begin)+set.warmup)
	before, known := c.nodes.cpu(ctx)
	sleep(ctx, set.window)
	after, still := c.nodes.cpu(ctx)
	k.running.Wait()
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	r = k.total(s, c)
	if known && still {
		r.ServerCPU = after - before
	}
	return r, nil
}

// start starts a process and returns when it is connected.
func (k *crowd) start(ctx context.Context, number int, j job) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	connected, tell, err := os.Pipe()
	if err != nil {
		return err
	}
	defer connected.Close() //nolint:errcheck // it was only read
	cmd.Env = append(os.Environ(), processVar+"=1")
	cmd.ExtraFiles = []*os.File{tell} // the first is file descriptor 3
	cmd.Cancel, cmd.WaitDelay = in.Close, giveUpTime
	k.running.Go(func() {
		if err := k.shares[number].read(cmd); err != nil {
			k.fail(fmt.Errorf("process %d of %d: %w", number+1, len(k.shares), err))
		}
		_ = tell.Close() // after fail, whose cause is what start returns then
	})
	messages := json.NewEncoder(in)
	_ = messages.Encode(j) // a process that has ended is noticed by its end
	k.inputs = append(k.inputs, messages)
	if _, err := io.ReadFull(connected, make([]byte, 1)); err != nil {
		k.fail(err)
		return context.Cause(ctx)
	}
	return nil
}

// read runs a process to its end and reads its share.
func (s *share) read(cmd *exec.Cmd) error {
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(failed.Stderr))
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(out, s)
}

// total adds the shares up to one round. A process counts as one caller. The window is the shortest
// of theirs, from each one's begin.
func (k *crowd) total(s scenario, c contestant) round {
	callers := make([]caller, len(k.shares))
	window := k.shares[0].Window
	for i, one := range k.shares {
		callers[i] = one.caller(s, c)
		window = min(window, one.Window)
	}
	r := total(callers, 0, window)
	for _, one := range k.shares {
		r.CPU += one.CPU
		r.Mallocs += one.Mallocs
	}
	return r
}
