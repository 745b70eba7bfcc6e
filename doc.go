// Package lockpipe takes distributed locks on N independent Redis or Valkey masters with the
// Redlock algorithm, at the speed of a pipeline. It has one socket to each master, groups the
// operations of all concurrent callers into few commands, and takes many keys in one round trip.
//
// A caller holds a Lease on one or more keys. A quorum of the masters, N/2+1, grants the lease. It
// ends by Release, or when its time runs out on the local clock; either cancels its Context.
// Package lockpipetest starts masters for tests.
package lockpipe
