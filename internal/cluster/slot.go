package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Slot knows which server has one slot. It is endpoint.Masters.
type Slot struct {
	cluster *Cluster
	index   int // of the slot in Cluster.slots
	number  int

	// confirmed is until when the server that the owner of the Slot uses is the slot's owner, by
	// Cluster.now. Written under Cluster.mu.
	confirmed atomic.Int64

	// Guarded by Cluster.mu:
	using string // the server that the owner of the Slot connects to; "" before the first
	leave context.CancelCauseFunc
}

// owner returns the server of the highest epoch that a server names that was asked since then, and
// when each server was asked that names it, the latest first. Cluster.mu is held.
func (s *Slot) owner(since time.Duration) (best owner, asked []time.Duration) {
	for _, r := range s.cluster.reports {
		o := r.owners[s.index]
		stays := o.epoch == best.epoch && o.address == s.using
		if r.at >= since && o.id != "" && (o.epoch > best.epoch || best.id == "" || stays) {
			best = o
		}
	}
	for _, r := range s.cluster.reports {
		if o := r.owners[s.index]; best.id != "" && r.at >= since && o.id == best.id {
			asked = append(asked, r.at)
		}
	}
	slices.Sort(asked)
	slices.Reverse(asked)
	return best, asked
}

// update computes again what is known, and has the owner of the Slot leave a server that is not the
// slot's owner, or is not confirmed. Cluster.mu is held.
func (s *Slot) update() {
	until := time.Duration(0)
	best, asked := s.owner(0)
	if need := majority(s.cluster.size()); best.address == s.using && len(asked) >= need {
		until = asked[need-1] + ConfirmedFor
	}
	s.confirmed.Store(int64(until))
	switch {
	case s.leave == nil:
	case best.id != "" && best.address != s.using:
		s.leave(fmt.Errorf("the cluster names %s as the owner of slot %d now, in place of %s",
			best.address, s.number, s.using))
	case !s.Confirmed():
		s.leave(s.unconfirmed(0))
	}
}

// Confirmed reports whether the server in use may be asked for votes now.
func (s *Slot) Confirmed() bool { return s.cluster.now() < time.Duration(s.confirmed.Load()) }

// FindMaster asks all servers. It returns the address of the slot's owner when a majority has named
// it.
func (s *Slot) FindMaster(ctx context.Context, leave context.CancelCauseFunc) (string, error) {
	c := s.cluster
	since := c.now()
	c.mu.Lock()
	for _, server := range c.servers {
		server.Want()
	}
	c.mu.Unlock()
	late := time.NewTimer(c.timeout)
	defer late.Stop()
	for {
		c.mu.Lock()
		best, asked := s.owner(since)
		named, open, changed := len(asked) >= majority(c.size()) && best.address != "", 0, c.changed
		if named {
			s.using, s.leave = best.address, leave
			s.update()
		}
		for _, server := range c.servers {
			if server.asked < since && (!server.seed || !c.knowsMany()) {
				open++
			}
		}
		why := s.unconfirmed(since)
		c.mu.Unlock()
		if named {
			return best.address, nil
		}
		if open == 0 {
			return "", why
		}
		select {
		case <-changed:
		case <-late.C:
			return "", why
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// unconfirmed returns why there is no owner by the servers that were asked since then, and what to
// do. Cluster.mu is held.
func (s *Slot) unconfirmed(since time.Duration) error {
	c := s.cluster
	text := fmt.Sprintf("no server answered that knows the owner of slot %d", s.number)
	if best, asked := s.owner(since); best.address != "" {
		text = fmt.Sprintf("%d of the cluster's %d servers name %s as the owner of slot %d, and "+
			"more than half have to (if servers are gone for good, have the cluster forget them)",
			len(asked), c.size(), best.address, s.number)
	}
	var reasons []string
	for _, address := range slices.Sorted(maps.Keys(c.servers)) {
		if err := c.servers[address].err; err != nil && len(reasons) < 5 {
			reasons = append(reasons, err.Error())
		}
	}
	if reasons != nil {
		text += ": " + strings.Join(reasons, "; ")
	}
	return errors.New(text)
}
