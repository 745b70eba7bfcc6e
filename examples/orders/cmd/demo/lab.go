package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/examples/orders/database"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

const (
	nodeCount = 5
	interval  = 250 * time.Millisecond // between two samples
	looks     = 25                     // at the connections, for each sample
	// closeTimeout is for giving back what is locked.
	closeTimeout = 5 * time.Second
)

// lab has the servers and the shops.
type lab struct {
	server *database.Server
	nodes  *lockpipetest.Nodes
	shops  []*shop
	loads  *dial
	begun  time.Time
	ctx    context.Context // of everything that runs
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	down    []string // what was done to each node, empty if it is well
	events  []event
	holders []string // what the holder of each shop does, empty if it has none
}

// startLab starts the servers, the shops and their callers. The caller ends it with close. The
// error is database.ErrMissing if PostgreSQL is not installed.
func startLab(l load) (started *lab, err error) {
	b := &lab{loads: newDial(l), begun: time.Now(), down: make([]string, nodeCount)}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, b.stop())
		}
	}()
	if b.server, err = database.Postgres.Start(); err != nil {
		return nil, err
	}
	if b.nodes, err = lockpipetest.Start(nodeCount); err != nil {
		return nil, err
	}
	for _, side := range []struct {
		way, schema string
		nodes       []string
	}{
		{"row locks", "rowlocks", nil},
		{"lockpipe", "lockpipe", b.nodes.URLs()},
		{"lockpipe, combined", "combined", b.nodes.URLs()},
	} {
		s, err := openShop(b.ctx, side.way, side.schema, b.server, side.nodes, b.loads.pay)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", side.way, err)
		}
		b.shops = append(b.shops, s)
	}
	b.holders = make([]string, len(b.shops))
	for _, s := range b.shops {
		place, err := s.open()
		if err != nil {
			return nil, err
		}
		b.work.Go(func() { s.run(b.ctx, place, b.loads) })
	}
	return b, nil
}

// close stops everything, writes what became of each shop, and returns when nothing is left. The
// error says if a stock is not exact.
func (b *lab) close(out io.Writer) (err error) {
	b.cancel()
	b.work.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for _, s := range b.shops {
		c, countErr := s.ledger.count(ctx)
		auditErr := errors.Join(countErr, s.ledger.audit(ctx))
		if auditErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", s.way, auditErr))
			continue
		}
		fmt.Fprintf(out, "%s: %d pieces on sale were sold, %d oversold; stock and orders agree\n",
			s.way, c.Sold, c.Oversold)
	}
	return errors.Join(err, b.stop())
}

// stop ends the shops and the servers.
func (b *lab) stop() (err error) {
	b.cancel()
	b.work.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for _, s := range b.shops {
		_ = s.close(ctx) // the nodes may be dead: their keys go with them
	}
	if b.nodes != nil {
		err = b.nodes.Close()
	}
	if b.server != nil {
		err = errors.Join(err, b.server.Close())
	}
	return err
}

// publish gives a sample to the hub every interval, until the lab is closed.
func (b *lab) publish(h *hub) {
	b.work.Go(func() {
		for {
			sums := make([]int, len(b.shops))
			for range looks {
				if !sleep(b.ctx, interval/looks) {
					return
				}
				for i, s := range b.shops {
					sums[i] += s.db.Stats().InUse
				}
			}
			next := b.sample()
			for i, sum := range sums {
				next.Shops[i].InUse = float64(sum) / looks
			}
			h.publish(next)
		}
	})
}
