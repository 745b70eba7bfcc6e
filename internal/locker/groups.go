package locker

import (
	"slices"

	"github.com/lockpipe/lockpipe/internal/outage"
	"github.com/lockpipe/lockpipe/lease"
)

// group is what a Locker has for each group of nodes, besides the nodes. Groups that share nodes
// while the fleet moves have one together.
type group struct {
	leases [kinds]*lease.Manager // of leases whose only part is here
	outage *outage.Queue         // of calls that lack a quorum here
}

// kind says whether a function runs while a lease is held. At Close, leases with a function end
// later, so they have managers of their own.
type kind int

const (
	withoutFunction kind = iota
	withFunction         // that of Do, DoAll or Elect
	kinds
)

// newGroups makes what the Locker has for each group of nodes. Leases of several parts have
// managers of their own: their extensions wait for the slowest of their groups, and must not hold
// up those of leases that do not need it.
func (k *Locker) newGroups(n int) {
	managers := func(reachable func() bool) (all [kinds]*lease.Manager) {
		for of := range kinds {
			all[of] = lease.NewManager(lease.Config{
				Extend:          k.extendBatch,
				QuorumReachable: reachable,
				OnEnd:           k.countEnd,
				OnUnexpectedEnd: k.leaseEnded,
				Suspended:       k.cfg.Suspended,
			})
			k.managers[of] = append(k.managers[of], all[of])
		}
		return all
	}
	k.groups = make([]group, n)
	for i := range k.groups {
		reachable := func() bool { return k.Mux.QuorumReachable(i) }
		canGrant := func() bool { return k.Mux.CanGrant(i) }
		k.groups[i] = group{
			managers(reachable), outage.New(canGrant, reachable, k.cfg.Logger),
		}
	}
	k.ofSeveral = managers(func() bool { return k.Mux.SeveralReachable() })
}

// QuorumReachable implements parts.Owner. It is called after each change of a node's state that
// leaves a quorum reachable. No other change can make a quorum able to vote.
func (k *Locker) QuorumReachable(group int) {
	k.groups[group].outage.StateChanged()
	k.changed.notify()
}

// NodesChanged returns a channel that is closed after the next change of a node's state that leaves
// a quorum reachable.
func (k *Locker) NodesChanged() <-chan struct{} { return k.changed.next() }

// NodeAdmitted implements parts.Owner. It is called when a node of a group votes again that had to
// wait: it may lack the keys of leases. An extension puts them there.
func (k *Locker) NodeAdmitted(group int) {
	for of := range kinds {
		k.groups[group].leases[of].ExtendAll()
		k.ofSeveral[of].ExtendAll()
	}
}

// AllExtended implements parts.Owner: it reports whether that was done.
func (k *Locker) AllExtended(group int) bool {
	for of := range kinds {
		if !k.groups[group].leases[of].AllExtended() || !k.ofSeveral[of].AllExtended() {
			return false
		}
	}
	return true
}

// hold begins the term of a lease.
func (k *Locker) hold(l *Lease, o *Options, grant lease.Grant) error {
	managers := &k.ofSeveral
	if !l.claim.HasSeveral() {
		managers = &k.groups[l.claim.Group()].leases
	}
	of := withoutFunction
	if o.HasFunction {
		of = withFunction
	}
	return managers[of].Hold(&l.term, l, grant)
}

// Outage returns the queue of a group of these keys that has no quorum that can grant. If there is
// none, lacks is false, and it is that of the first key.
func (k *Locker) Outage(keys []string) (queue *outage.Queue, lacks bool) {
	group, lacks := k.Mux.Lacking(keys)
	return k.groups[group].outage, lacks
}

// Held returns how many leases are held now.
func (k *Locker) Held() (leases int) {
	for _, m := range slices.Concat(k.managers[:]...) {
		leases += m.Held()
	}
	return leases
}
