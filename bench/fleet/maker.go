package fleet

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/metrics"
	"github.com/prometheus/client_golang/prometheus"
)

// abandonTimeout is how long a run that can't start waits for its Clients' releases.
const abandonTimeout = time.Second

// Maker makes the Clients of a run. It is for one goroutine.
type Maker struct {
	// New makes a Client.
	New func(Stage) (*lockpipe.Client, error)
	// Metrics, if set, has each Client that callers use registered with it, with its number as the
	// label client.
	Metrics prometheus.Registerer

	made int
}

// Connect makes so many Clients of the stage Old, and has each take and release one lock. So
// connecting is not measured, and nodes that can't be used are found at once. It makes a Client
// when the one before is connected: on a busy machine the handshakes of many Clients at once would
// time out together, again and again.
func (m *Maker) Connect(ctx context.Context, count int, key string) ([]*lockpipe.Client, error) {
	var clients []*lockpipe.Client
	fail := func(err error) ([]*lockpipe.Client, error) {
		Abandon(ctx, clients...)
		return nil, err
	}
	for range count {
		client, err := m.next(Old)
		if err != nil {
			return fail(err)
		}
		clients = append(clients, client)
		if err := lockOnce(ctx, client, key); err != nil {
			return fail(err)
		}
	}
	return clients, nil
}

// Prepare has a Client take and release a lock with the next layout alone, so that its nodes have a
// vote when the fleet moves.
func (m *Maker) Prepare(ctx context.Context, key string) error {
	client, err := m.New(New)
	if err != nil {
		return err
	}
	defer Abandon(ctx, client)
	return lockOnce(ctx, client, key)
}

// next makes the next Client that callers use.
func (m *Maker) next(stage Stage) (*lockpipe.Client, error) {
	client, err := m.New(stage)
	if err != nil || m.Metrics == nil {
		return client, err
	}
	number := strconv.Itoa(m.made)
	m.made++
	labelled := prometheus.WrapRegistererWith(prometheus.Labels{"client": number}, m.Metrics)
	if err := labelled.Register(metrics.NewCollector(client)); err != nil {
		Abandon(context.Background(), client)
		return nil, fmt.Errorf("metrics of Client %s: %w", number, err)
	}
	return client, nil
}

// Mover returns what replaces these Clients, which Connect has made.
func (m *Maker) Mover(cfg MoveConfig, clients []*lockpipe.Client) *Mover {
	members := make([]client, len(clients))
	for i, c := range clients {
		members[i] = c
	}
	return newMover(cfg, members, func(stage Stage) (client, error) {
		c, err := m.next(stage)
		if err != nil {
			return nil, err // and no client that is a nil pointer
		}
		return c, nil
	})
}

// Abandon closes Clients that hold nothing, or whose releases do not matter any more. An end of ctx
// changes nothing.
func Abandon(ctx context.Context, clients ...*lockpipe.Client) {
	_ = Close(context.WithoutCancel(ctx), clients, abandonTimeout)
}
