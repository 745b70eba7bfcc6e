package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"
)

// The scenarios far and mixed are about nodes at a distance: what a lock takes if the way to the
// nodes is most of it. On one machine hundreds of callers in a closed loop measure how many locks
// its processors can do, whatever the distance. So each contender is also met by callers that think
// for 50 ms on average between two locks, about 10,000 locks a second.
const (
	farCallers = 512
	thinking   = 50 * time.Millisecond
)

var (
	allNear = []time.Duration{time.Millisecond}
	someFar = []time.Duration{
		time.Millisecond, time.Millisecond, time.Millisecond,
		5 * time.Millisecond, 5 * time.Millisecond,
	}
)

// far returns the same nodes, at a distance for clients that are opened on them.
func (n *nodes) far(delays []time.Duration) *nodes {
	away := *n
	away.delays = make(map[string]time.Duration, len(n.urls))
	for i, url := range n.urls {
		away.delays[address(url)] = delays[i%len(delays)]
	}
	return &away
}

// address is the host and port of a node's URL.
func address(url string) string {
	if _, rest, found := strings.Cut(url, "://"); found {
		url = rest
	}
	if i := strings.LastIndexByte(url, '@'); i >= 0 {
		url = url[i+1:]
	}
	host, _, _ := strings.Cut(url, "/")
	return host
}

// dialer is what a client is given to dial with; nil, for its own, if the nodes are at no
// distance.
func (n *nodes) dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	if n.delays == nil {
		return nil
	}
	return n.dial
}

func (n *nodes) dial(ctx context.Context, network, address string) (net.Conn, error) {
	delay, known := n.delays[address]
	if !known {
		return nil, fmt.Errorf("%s is none of the nodes %v", address,
			slices.Sorted(maps.Keys(n.delays)))
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	far, err := newDelayed(conn, delay)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return far, nil
}

// addFar opens a client of each contender that can take and release in two steps, on the nodes at a
// distance, and adds it twice.
func (k *lineup) addFar(ctx context.Context, fields []field) (why string, err error) {
	away := k.nodes.far(k.scenario.delays)
	for _, f := range fields {
		if _, ok := f.Contender.(locker); !ok {
			continue
		}
		c, err := k.open(ctx, f.entry, away)
		if err != nil {
			return "", err
		}
		f.Contender = c
		k.add(f, contestant{
			label: f.name + ", thinking", pace: &pace{mean: thinking},
			where: fmt.Sprintf("; each caller thinks for %v on average", thinking),
		})
		k.add(f, contestant{label: f.name + ", closed loop", pace: &pace{}})
	}
	if len(k.all) == 0 {
		return "none of the contenders can take and release in two steps", nil
	}
	return "", nil
}

// open opens one more client, closed with the lineup, and uses it once.
func (k *lineup) open(ctx context.Context, e entry, n *nodes) (Contender, error) {
	c, err := e.open(n)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", e.name, err)
	}
	k.closers = append(k.closers, c.Close)
	if s, ok := c.(readyAwaiter); ok {
		if err := s.AwaitReady(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
	}
	if err := c.LockUnlock(ctx, keyPrefix("vv")+e.name); err != nil {
		return nil, fmt.Errorf("%s: %w", e.name, err)
	}
	return c, nil
}
