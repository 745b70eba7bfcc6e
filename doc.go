// Package lockpipe takes distributed locks on N independent Redis or Valkey masters with the
// Redlock algorithm. These masters are its nodes. A Client has one connection to each node, groups
// the operations of all concurrent callers into few commands, and takes many keys in one round
// trip.
//
// A caller holds a Lease on one or more keys. A quorum, which is more than half of the nodes,
// grants the lease. The lease ends by Release, or when its time runs out on the local clock. Both
// cancel its Context. Package lockpipetest starts nodes for tests.
package lockpipe
