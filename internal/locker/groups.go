package locker

import (
	"slices"

	"github.com/lockpipe/lockpipe/internal/outage"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
)

// kind says whether a function runs while a lease is held. At Close, leases with a function end
// later, so they have managers of their own.
type kind int

const (
	withoutFunction kind = iota
	withFunction         // that of Do, DoAll or Elect
	kinds
)

// connect makes what the Locker has for each group of nodes, and begins to connect these. Groups
// that share nodes while the fleet moves have one together. Leases of several parts have managers
// of their own: their extensions wait for the slowest of their groups, and must not hold up those
// of leases that do not need it.
func (k *Locker) connect(nodes *parts.Nodes) (err error) {
	several := k.newManagers(func() bool {
		return slices.ContainsFunc(k.Mux.Muxes, (*multiplex.Mux).QuorumReachable)
	})
	k.Mux, err = parts.New(nodes, func(i int, of *multiplex.Config) {
		reachable := func() bool { return k.Mux.Muxes[i].QuorumReachable() }
		canGrant := func() bool { return k.Mux.Muxes[i].CanGrant() }
		queue, own := outage.New(canGrant, reachable, of.Logger), k.newManagers(reachable)
		k.outages, k.managers = append(k.outages, queue), append(k.managers, own)
		leases := slices.Concat(own[:], several[:])
		// Only a change that leaves a quorum reachable can make a quorum able to vote.
		of.OnQuorumReachable = func() {
			queue.StateChanged()
			changed := make(chan struct{})
			close(*k.changed.Swap(&changed))
		}
		// The node may lack the keys of leases. An extension puts them there.
		of.OnAdmitted = func() {
			for _, m := range leases {
				m.ExtendAll()
			}
		}
		of.AllExtended = func() bool {
			lacks := func(m *lease.Manager) bool { return !m.AllExtended() }
			return !slices.ContainsFunc(leases, lacks)
		}
	})
	k.managers = append(k.managers, several)
	return err
}

// managers are of the leases of each kind.
type managers [kinds]*lease.Manager

// newManagers returns managers of leases whose nodes are reachable if reachable says so.
func (k *Locker) newManagers(reachable func() bool) (all managers) {
	for of := range all {
		all[of] = lease.NewManager(lease.Config{
			Clock: k.clock, Extend: k.extendBatch, QuorumReachable: reachable, OnEnd: k.leaseEnded,
		})
	}
	return all
}

// NodesChanged returns a channel that is closed after the next change of a node's state that leaves
// a quorum reachable.
func (k *Locker) NodesChanged() <-chan struct{} { return *k.changed.Load() }

// hold begins the term of a lease. Its call in the queue, if it has one, holds the keys.
func (k *Locker) hold(l *Lease, o *Options, grant lease.Grant) error {
	group, of := len(k.managers)-1, withoutFunction
	if !l.claim.HasSeveral() {
		group = l.claim.Group()
	}
	if o.HasFunction {
		of = withFunction
	}
	err := k.managers[group][of].Hold(&l.term, l, grant)
	if err == nil && l.holder != nil {
		k.Queue.Hold(l.holder, l.Until())
	}
	return err
}

// Outage returns the queue of a group of these keys that has no quorum that can grant. If there is
// none, lacks is false, and it is that of the first key.
func (k *Locker) Outage(keys []string) (queue *outage.Queue, lacks bool) {
	group, lacks := k.Mux.Lacking(keys)
	return k.outages[group], lacks
}

// Held returns how many leases are held now.
func (k *Locker) Held() (leases int) {
	for _, m := range k.managers {
		leases += m[withoutFunction].Held() + m[withFunction].Held()
	}
	return leases
}
