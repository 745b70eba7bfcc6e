// Package holder runs an order in another process, which can be killed or paused in its payment.
package holder

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// Timeout is how long a holder may take for a step.
const Timeout = 20 * time.Second

// How the order of a holder may end. Otherwise it ends with the text of an error.
const (
	Placed = "placed"
	Killed = "killed"
)

// Job is what a holder does: it places one order of product 0 and waits in its payment.
type Job struct {
	Way            string // the name of one of orders.Ways
	Driver, Source string // of the database: see database.Server
	Nodes          []string
	Prefix         string // of the keys of lockpipe
	Order          int    // its number
}

// Holder is another process that has an order in its payment. One goroutine at a time may call its
// methods; End may be called at any time.
type Holder struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // what it says; closed when it has ended
	end   func()
}

// Start starts this program again as a holder, and returns when the holder pays. The caller ends it
// with End, and the end of ctx kills it. Start returns an error if the order does not come to its
// payment.
func Start(ctx context.Context, j Job) (*Holder, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h := &Holder{cmd: exec.CommandContext(ctx, program), lines: make(chan string, 4)}
	h.cmd.Env = append(os.Environ(), variable+"="+string(text))
	h.cmd.Stderr, h.cmd.SysProcAttr = os.Stderr, endWithParent()
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	started := make(chan error)
	go h.run(out, started)
	if err := <-started; err != nil {
		return nil, err
	}
	h.end = sync.OnceFunc(h.kill)
	if line := h.Next(); line != saysPaying {
		h.End()
		return nil, fmt.Errorf("the holder said %q before it paid", line)
	}
	return h, nil
}

// run starts the process and reads what it says. The thread that starts a child must live as long
// as the child: see endWithParent.
func (h *Holder) run(out io.Reader, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := h.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	defer close(h.lines)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		h.lines <- lines.Text()
	}
}

// Next returns the next line of the holder: how its order ended. It returns Killed if the holder
// has ended without a line.
func (h *Holder) Next() string {
	select {
	case line, ok := <-h.lines:
		if !ok {
			return Killed
		}
		return line
	case <-time.After(Timeout):
		return "no answer"
	}
}

// Pause stops the process as SIGSTOP does, until Pay. It returns errors.ErrUnsupported where a
// process can't be stopped.
func (h *Holder) Pause() error { return pause(h.cmd.Process) }

// Pay ends the payment. A holder that is stopped continues.
func (h *Holder) Pay() error {
	if _, err := fmt.Fprintln(h.in, saysPaid); err != nil {
		return err
	}
	return resume(h.cmd.Process)
}

// End kills the holder, if it still runs, and returns when it is gone. A second End does nothing.
func (h *Holder) End() { h.end() }

func (h *Holder) kill() {
	_ = h.cmd.Process.Kill() // it may have ended
	_ = h.in.Close()
	for range h.lines { // Wait closes the pipe: everything must have been read
	}
	_ = h.cmd.Wait() // how it ended does not matter
}
