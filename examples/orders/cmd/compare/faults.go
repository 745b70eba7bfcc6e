package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe/examples/orders"
	"github.com/lockpipe/lockpipe/examples/orders/database"
	"github.com/lockpipe/lockpipe/examples/orders/holder"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

const (
	// rivalPatience is how long the rival waits before a holder that is stopped goes on.
	rivalPatience = 10 * time.Second
	// soldOutPatience is how long the rival comes back to a product that is sold out.
	soldOutPatience = 500 * time.Millisecond
)

// The faults. The holder is a process that pays for an order of the last piece. The rival is an
// order of the same piece, in this process, which comes right after the fault.
const (
	killed    = "holder killed"
	paused    = "holder paused"
	restarted = "all Redis restarted empty"
)

// outcome is what became of the last piece.
type outcome struct {
	rival    string // how its order ended
	after    time.Duration
	waited   bool   // the rival's order ended only after the holder had gone on
	holder   string // how its order ended
	oversold int    // pieces
	unpaid   int    // orders that keep pieces
}

// breakage has what a fault needs.
type breakage struct {
	server *database.Server
	nodes  *lockpipetest.Nodes
	store  *orders.Store
}

// runFaults tries each fault on each way.
func runFaults(ctx context.Context, ways []orders.Way, server *database.Server,
	nodes *lockpipetest.Nodes,
) (section, error) {
	s := section{
		Title: "Faults while another process pays for an order of the last piece",
		Head: []string{
			"", "fault", "the next order", "after", "the holder's order", "oversold", "unpaid",
		},
	}
	b := breakage{server, nodes, open(server)}
	for _, fault := range []string{killed, paused, restarted} {
		for _, way := range ways {
			o, err := b.run(ctx, way, fault)
			if err != nil {
				return s, fmt.Errorf("%s, %s: %w", way.Name, fault, err)
			}
			after := fmt.Sprintf("%.2f s", o.after.Seconds())
			if o.waited {
				after = "when the holder went on"
			}
			s.Rows = append(s.Rows, []string{
				way.Name, fault, o.rival, after, o.holder, strconv.Itoa(o.oversold),
				strconv.Itoa(o.unpaid),
			})
		}
	}
	return s, nil
}

// run makes one fault in one way.
func (f breakage) run(ctx context.Context, way orders.Way, fault string) (o outcome, err error) {
	if err := f.store.Create(ctx, 2, 1); err != nil {
		return o, err
	}
	prefix := fault + ":" // what one fault has left does not meet the next
	b, err := orders.Connect(f.store, f.nodes.URLs(), prefix, payment(0), payment(0))
	if err != nil {
		return o, err
	}
	defer b.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the outcome is known
	shop := way.Open(b)
	elsewhere, isElsewhere := shop.(orders.Elsewhere)
	if isElsewhere {
		if err := elsewhere.Fill(ctx); err != nil {
			return o, err
		}
	}
	// The rival's clients are connected, and know the servers, before anything happens to these.
	if err := shop.Place(ctx, orders.NewOrder(100, 1)); err != nil {
		return o, err
	}
	h, err := holder.Start(ctx, holder.Job{
		Way: way.Name, Driver: f.server.Driver, Source: f.server.Source, Nodes: f.nodes.URLs(),
		Prefix: prefix, Order: 1,
	})
	if err != nil {
		return o, err
	}
	defer h.End()
	begun := time.Now()
	if err := f.inject(ctx, fault, h, shop); err != nil {
		return o, err
	}
	ended := make(chan string, 1)
	rivalCtx, cancel := context.WithTimeout(ctx, 2*holder.Timeout)
	defer cancel()
	go func() { ended <- placeRival(rivalCtx, shop) }()
	select {
	case o.rival = <-ended:
		o.after = time.Since(begun)
	case <-time.After(rivalPatience):
		o.waited = true
	}
	if o.holder = holder.Killed; fault != killed {
		if err := h.Pay(); err != nil {
			return o, err
		}
		o.holder = h.Next()
	}
	if o.waited {
		o.rival = <-ended
	}
	o.oversold, o.unpaid, err = f.store.Oversold(ctx, 1)
	if stock, ok := shop.(orders.RedisStock); ok && err == nil {
		o.unpaid, err = stock.Reserved(ctx)
	}
	return o, err
}

// inject makes a fault. After a loss of all memory inject counts the stock again, at once.
func (f breakage) inject(ctx context.Context, fault string, h *holder.Holder,
	shop orders.Shop,
) error {
	switch fault {
	case killed:
		h.End()
		return nil
	case paused:
		return h.Pause()
	}
	for i := range f.nodes.Len() {
		if err := f.nodes.Kill(i); err != nil {
			return err
		}
	}
	for i := range f.nodes.Len() {
		if err := f.nodes.Restart(i); err != nil {
			return err
		}
	}
	if stock, ok := shop.(orders.RedisStock); ok {
		return stock.Fill(ctx)
	}
	return nil
}

// placeRival returns how the rival's order ended.
func placeRival(ctx context.Context, shop orders.Shop) string {
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		err := shop.Place(ctx, orders.NewOrder(2, 0))
		switch {
		case err == nil:
			return holder.Placed
		case !errors.Is(err, orders.ErrSoldOut) || time.Since(begun) > soldOutPatience:
			return err.Error()
		}
	}
}
