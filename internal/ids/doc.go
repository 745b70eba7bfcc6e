// Package ids has what names a lease and its keys: which keys a claim wants, its token, its fence,
// and the names of keys that are no locks.
//
// # Fences
//
// FenceClock is a hybrid logical clock that proposes fences. A fence is a number of a lease with
// WithFencing. It is above the fences of all earlier leases on each of the lease's keys. The clock
// only proposes numbers: microseconds of the wall clock, always above what it proposed before. A
// node grants a proposal only if it is above the number that the node knows for each lock key, and
// raises that behind the lock keys: see package node. So the nodes keep the order, and the clock
// only makes the first proposal a good one. While the clients' clocks agree, that costs no round
// trip.
//
// # When clocks matter
//
// Of two leases on one key, the later one has the higher fence, because some node is in both
// quorums: see multiplex.Claim.Fence. So no clock matters while one node of both remembers its
// numbers. Usually all nodes grant a lease, and any minority may forget. If only a quorum granted
// it, one node less may forget.
//
// If each node of both quorums forgot, only the wall clocks keep the order. The restart guard
// keeps such a node from voting for MaxTTL. A client's proposals run ahead of its wall clock by a
// quarter of MaxTTL at most, and by a minute at most, except for what it saw of other clients. So
// a later proposal is higher if the wall clocks of all clients are less than three quarters of
// MaxTTL apart. Three rules keep that true:
//
//  1. The numbers are taken after the moment from which validity counts. If a process is paused in
//     between, its lease does not begin long after the time that its fence is from.
//  2. The numbers that are reserved for handoffs come out of the same bounded lead. A lease that
//     other callers of the process wait for reserves up to 1,000 of them, and the nodes know the
//     end of the range. Each lease takes a sixteenth of what is left of the lead, so there is
//     something for all. Without a number left the lease is released instead of handed off.
//  3. An extension raises the numbers again, before it refills lost lock keys. A lease may outlive
//     all nodes that granted it, for example during rolling restarts.
//
// # When a client is behind
//
// A node that knows a higher number has no vote, and is asked for its number. That becomes the
// floor of this call, and the call tries again at once, three times in a row at most. What the
// attempt left on the nodes is released ahead of that.
//
// The client's clock follows such a number if it is at most ten minutes ahead of the wall clock.
// Up to that, clocks may just not be set well, and the client pays its further round trip once
// instead of once for each key. A number beyond that comes from a wrong clock, or somebody wrote
// it by hand. It is topped for that key alone and must not spread to other keys. If the clock was
// set ahead and is correct again, the proposals follow it back.
//
// Fences are above 0 and at most 2^53-1, the largest integer that a score holds exactly.
//
// # Rejected
//
// A counter on each node, and the highest of the quorum's as the fence: counters (5,1,1) give 6
// and then, from the two others, 3. A reserved range for every lease: at some thousand leases a
// second the clock runs ahead of the wall clock.
//
// docs/fencing.md is the user's view. docs/guarantees.md lists what fences depend on.
package ids
