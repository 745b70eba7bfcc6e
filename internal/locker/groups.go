package locker

import (
	"slices"

	"github.com/lockpipe/lockpipe/internal/outage"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/lease"
	"github.com/lockpipe/lockpipe/multiplex"
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

// connect makes what the Locker has for each group of nodes, and begins to connect these. Leases of
// several parts have managers of their own: their extensions wait for the slowest of their groups,
// and must not hold up those of leases that do not need it.
func (k *Locker) connect(nodes *parts.Nodes) (err error) {
	k.several = k.newManagers(func() bool { return k.Mux.QuorumReachable() })
	k.Mux, err = parts.New(nodes, func(i int, of *multiplex.Config) {
		reachable := func() bool { return k.Mux.Muxes[i].QuorumReachable() }
		canGrant := func() bool { return k.Mux.Muxes[i].CanGrant() }
		g := group{k.newManagers(reachable), outage.New(canGrant, reachable, of.Logger)}
		k.groups = append(k.groups, g)
		leases := slices.Concat(g.leases[:], k.several[:])
		// Only a change that leaves a quorum reachable can make a quorum able to vote.
		of.OnQuorumReachable = func() {
			g.outage.StateChanged()
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
	return err
}

// newManagers returns managers of leases whose nodes are reachable if reachable says so.
func (k *Locker) newManagers(reachable func() bool) (all [kinds]*lease.Manager) {
	for of := range all {
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

// NodesChanged returns a channel that is closed after the next change of a node's state that leaves
// a quorum reachable.
func (k *Locker) NodesChanged() <-chan struct{} { return *k.changed.Load() }

// hold begins the term of a lease. Its call in the queue, if it has one, holds the keys.
func (k *Locker) hold(l *Lease, o *Options, grant lease.Grant) error {
	managers := &k.several
	if !l.claim.HasSeveral() {
		managers = &k.groups[l.claim.Group()].leases
	}
	of := withoutFunction
	if o.HasFunction {
		of = withFunction
	}
	err := managers[of].Hold(&l.term, l, grant)
	if err == nil && l.holder != nil {
		k.Queue.Hold(l.holder, l.Until())
	}
	return err
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
