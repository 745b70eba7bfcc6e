package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockpipe/lockpipe/examples/orders/holder"
)

// holderPause is how long a holder is stopped: longer than a lease.
const holderPause = 10 * time.Second

var errHolderRuns = errors.New("a holder is paused already: wait until it has continued")

// setLoad changes the load of the shops.
func (b *lab) setLoad(l load) error {
	if err := l.check(); err != nil {
		return err
	}
	b.loads.set(l)
	return nil
}

// breakNode does something to one node.
func (b *lab) breakNode(i int, action string) error {
	if i < 0 || i >= b.nodes.Len() {
		return fmt.Errorf("there is no node %d: there are 1 to %d", i+1, b.nodes.Len())
	}
	do, down, text := b.nodes.Kill, "killed", "was killed"
	switch action {
	case "kill":
	case "freeze":
		do, down, text = b.nodes.Freeze, "frozen", "was frozen"
	case "thaw":
		do, down, text = b.nodes.Thaw, "", "continues"
	case "restart":
		do, down, text = b.nodes.Restart, "", "was restarted empty"
	default:
		return fmt.Errorf("%q: choose kill, freeze, thaw or restart", action)
	}
	if err := do(i); err != nil {
		return err
	}
	b.mu.Lock()
	b.down[i] = down
	b.mu.Unlock()
	b.note(fmt.Sprintf("node %d %s", i+1, text))
	return nil
}

// pauseHolder lets another process order the product on sale in each shop, and stops the process
// in its payment.
func (b *lab) pauseHolder() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, state := range b.holders {
		if state != "" {
			return errHolderRuns
		}
	}
	for i := range b.shops {
		b.holders[i] = "waits for the product"
		b.work.Go(func() { b.hold(i) })
	}
	return nil
}

// hold is the life of one holder.
func (b *lab) hold(i int) {
	ended := b.holdPaused(i)
	if b.ctx.Err() == nil {
		b.note(fmt.Sprintf("%s: the holder's order: %s", b.shops[i].way, ended))
	}
	b.setHolder(i, "")
}

// holdPaused returns how the order of a holder ended.
func (b *lab) holdPaused(i int) string {
	s := b.shops[i]
	h, err := holder.Start(b.ctx, holder.Job{
		Way: s.way, Driver: s.driver, Source: s.source, Nodes: b.nodes.URLs(), Prefix: s.prefix,
		Order: int(s.orders.Add(1)),
	})
	if err != nil {
		return err.Error()
	}
	defer h.End()
	if err := h.Pause(); err != nil {
		return err.Error()
	}
	b.setHolder(i, "is paused, and holds the product")
	b.note(s.way + ": the holder is paused in its payment")
	sleep(b.ctx, holderPause)
	if err := h.Pay(); err != nil {
		return err.Error()
	}
	b.setHolder(i, "continues")
	if answer := h.Next(); answer != holder.Placed {
		return "not placed: " + answer
	}
	return holder.Placed
}

func (b *lab) setHolder(i int, state string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holders[i] = state
}
