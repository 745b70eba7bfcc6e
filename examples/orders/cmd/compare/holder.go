package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/examples/orders"
	"github.com/lockpipe/lockpipe/examples/orders/database"
)

// holderVariable says that this process is a holder. Its value is a job.
const holderVariable = "ORDERS_HOLDER"

// job is what a holder does: place one order of product 0 and wait in its payment.
type job struct {
	Way, Driver, Source string
	Nodes               []string
}

// The lines that a holder and the process that started it say.
const (
	saysPaying = "paying"
	saysPaid   = "paid"
	saysPlaced = "placed"
)

// hold does a job, which is JSON. It says when it pays, and pays until a line comes in. It says how
// the order ended.
func hold(ctx context.Context, text string, in io.Reader, out io.Writer) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	db, err := sql.Open(j.Driver, j.Source)
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // the process ends
	lines := bufio.NewScanner(in)
	pay := func(context.Context, orders.Order) error {
		fmt.Fprintln(out, saysPaying)
		if !lines.Scan() {
			return errors.New("nobody waits for the holder any more")
		}
		return nil
	}
	b, err := orders.Connect(open(&database.Server{DB: db, Driver: j.Driver}), j.Nodes, pay,
		payment(0))
	if err != nil {
		return err
	}
	for _, way := range orders.Ways() {
		if way.Name != j.Way {
			continue
		}
		answer := saysPlaced
		if err := way.Open(b).Place(ctx, orders.NewOrder(1, 0)); err != nil {
			answer = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		fmt.Fprintln(out, answer)
		return nil
	}
	return fmt.Errorf("there is no way %q", j.Way)
}

// holder is another process that has an order in its payment.
type holder struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string // what it says; closed when it has ended
}

// startHolder starts this program again as a holder, and returns when it pays.
func startHolder(j job) (*holder, error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	h := &holder{cmd: exec.Command(program), lines: make(chan string, 4)}
	h.cmd.Env = append(os.Environ(), holderVariable+"="+string(text))
	h.cmd.Stderr = os.Stderr
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(h.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			h.lines <- lines.Text()
		}
	}()
	if line := h.next(); line != saysPaying {
		h.end()
		return nil, fmt.Errorf("the holder said %q before it paid", line)
	}
	return h, nil
}

// next returns the next line of the holder, or why there is none.
func (h *holder) next() string {
	select {
	case line, ok := <-h.lines:
		if !ok {
			return "killed"
		}
		return line
	case <-time.After(holderTimeout):
		return "no answer"
	}
}

// pay lets a holder go on, also one that is stopped.
func (h *holder) pay() error {
	if _, err := fmt.Fprintln(h.in, saysPaid); err != nil {
		return err
	}
	return resume(h.cmd.Process)
}

// end kills the holder, if it still runs.
func (h *holder) end() {
	_ = h.cmd.Process.Kill() // it may have ended
	_ = h.in.Close()
	for range h.lines { // Wait closes the pipe: everything must have been read
	}
	_ = h.cmd.Wait() // how it ended does not matter
}
