// Package restartguard decides whether a server may vote.
//
// A lock lives in the memory of a quorum of nodes. A server that loses its memory grants the same
// lock again. If a majority of the nodes does so, two callers hold one lock. So a server that may
// have lost locks must not vote before the last of them has expired, which is MaxTTL later. The
// Redlock description calls this a delayed restart. This package finds out when one is needed, and
// for how long.
//
// # Outline
//
// A node dials and hands the connection to its Guard (guard.go), with what the client does on it
// first. The Guard asks the server what it is (serverinfo.go) and decides: decide is a pure
// function (decide.go). It lets other nodes have their say (ask_peers.go), and returns what the
// admitted server is, or why not and until when. While the connection lasts, the node lets the
// Guard renew the node's generation (renew.go). Peers has what the guards of a client share: the
// first use (firstuse.go), which server is which node's (package servers) and the generations
// (generations.go).
//
// # What the decision is made of
//
// The Guard compares what a server shows on a new connection with what the client remembers of the
// node. It does so before any lock command can use the connection. A server shows:
//
//   - its run_id, which a server draws at each start;
//   - its uptime, in whole seconds, and whether all that it answered is on its disk;
//   - whether it is a replica, or may have been one since its start (master_replid2 is set);
//   - its memory ID: run_id and master_replid together. A server draws a new master_replid when it
//     stops being a replica, and a master draws one when its first replica comes;
//   - the marker, a key on the server. Its value is the run_id of the server that was admitted
//     last, or a loss record;
//   - its generation, and the generations that it keeps of other nodes.
//
// # When did the server lose its memory?
//
// The wait counts from the latest moment at which the server may have lost locks:
//
//  1. Never, if the marker is its own run_id, it was no replica since, and nobody knows a later
//     generation of the node. A restart changes the run_id, and a wipe removes the marker.
//  2. Never, if it restarted with its durable memory and other nodes vouch for it.
//  3. At its start, if this client knew another run_id there and the server was no replica since.
//     The former server may have been there until this client saw it last, so the wait counts from
//     that moment if it is later. A younger server may have waited next to the former one, and a
//     clock that was set at the start makes a server look older.
//  4. Before a loss record was written, if that record is still there.
//  5. At any time before now in all other cases, so the wait counts from the first look.
//
// Durable alone is not enough for rule 2. A promoted replica has its master's marker and not all of
// its master's memory. An empty append-only file has no marker. A file that was switched on or
// rewritten after the start does not show what was there before. Nor is a young server enough for
// rule 3: that its start was the loss is not known if the server before it was there until later.
//
// A full synchronization brings a marker back: a demoted master gets an older copy of its keys, and
// its own marker with them. So rule 1 also compares the memory ID with that of the admission.
//
// # Loss records
//
// A missing marker alone is no witness. Another client may have admitted the server and may have
// had locks on it when the server was wiped again. So a client that does not admit a server writes
// a loss record there, at first sight, in the place of the marker. These rules make it safe:
//
//  1. Every record has another text. A record is written, replaced and turned into a marker only by
//     compare-and-set. So while it stays the same, nobody has admitted or wiped the server, and all
//     that the server lost it lost before the record was written.
//  2. The age of a record follows from the time that its key has left. A second is taken off,
//     because the server counts in its own milliseconds and may run a command some time after it
//     looked at its clock. So all clients share one wait, also if none of them lives for MaxTTL.
//  3. A record names the memory ID of the server on which it was written. A replica and an old file
//     have copies of it. A copy names another memory and does not count, and the wait begins again
//     behind a new record.
//  4. A record counts for ten minutes more than MaxTTL. A server that left its node and comes back
//     later may have missed the locks of the server in between.
//  5. A record that names the run_id of the marker before it is kept for 90 days more. Its age
//     counts no longer then. It still shows that this is not the first use, and what run a durable
//     server had.
//  6. If there is no marker and the client can't write a record, the wait begins at the next look:
//     the server could be admitted and wiped in between and show no marker again.
//
// spec/mark.pml is the model of these rules, and calls the record a mark. Each rule that is broken
// there has a counterexample.
//
// # First use
//
// Nodes that all lost their memory look like nodes that were never used. If no node has a marker,
// all of them answer at the same time, and a second look at each shows the same, the client takes
// that for the first use and admits all at once. A client does so once at most, and not after it
// has seen a marker or admitted a node. A record that begins with "new:" leaves the first use
// possible. One that begins with "lost:" rules it out for everybody. A client that knows nothing
// writes "lost:" only three seconds after it found markers elsewhere, or if it is strict: another
// client's first use may be half written.
//
// # Generations
//
// A durable server keeps its memory over a restart and votes again at once. If its disk was put
// back from a copy, it has lost what came after the copy. A generation shows that. It is an id and
// a number, and it rises about every two seconds while a client is connected to a durable node.
// Other nodes keep the highest number of each id.
//
//  1. A number that a client got from a node, or that another node keeps of it, is never above the
//     true one: the node had written it to its disk before it answered.
//  2. So a server that shows a lower number of the same id has lost something, whatever server it
//     is.
//  3. A holder of a lease is connected to a quorum, and each node of that quorum gets the others'
//     numbers every few seconds. Of any N - quorum + 1 nodes, one is in that quorum and keeps the
//     number of that time. So that many other nodes can vouch for a restarted server, if one of
//     them keeps its generation and none keeps a later one. While clients move from one set of
//     nodes to another, a holder may have a quorum of either. So that many nodes of each set that
//     the server's node is in have to vouch.
//  4. A node in quarantine can't vouch. Neither can one that restarted with its disk in the last
//     ten seconds: its disk may have been put back together with the first one. If all nodes
//     restarted together, they vouch for each other.
//  5. A single node has nobody to ask. It is admitted unless the client knows a later number. If
//     the client is strict, it has to know the generation.
//  6. A server that lost something draws a new id at its admission. So an id needs no name for its
//     node, which clients may write differently. The old id has ended: whatever shows it is a copy.
//  7. Other nodes may not know that an id has ended, if all clients that saw the loss were gone
//     soon. But a client that knew a later id on the node, and sees an earlier one after a restart
//     of an earlier run, knows that the node has lost something. It leaves a record for the others.
//
// A generation rises only on durable nodes. Elsewhere a restart costs a quarantine anyway, and the
// writes would only cause snapshots.
//
// # One server, one vote
//
// Two names may lead to one server. An acquire is safe then: the server refuses it the second time.
// An extension is not, because the key holds the caller's own token. So at any time at most one
// node has a connection to a server. If names change and a server moves to another node, that
// node's connection carries only extensions that begin later.
//
// # Masters by Sentinel
//
// A replica may have granted locks that the present server never saw. So if Sentinel watches the
// node, neither the server's own marker nor its disk nor its age is trusted after another server
// was there. The caller makes the wait four seconds longer: a client that hears of the new master
// last may still grant locks on the old one meanwhile.
//
// # What goes unnoticed, and is rare
//
// docs/guarantees.md lists what the guard can't notice. Rarer than that are:
//
//  1. A server's wall clock is set forward during a quarantine, for a client that has not admitted
//     the node before. Just after the start it goes unnoticed by a client that was not connected
//     when the former server ended.
//  2. Another client writes a loss record during what this client takes for the first use: half a
//     second at most.
//  3. A server that another client admits is demoted and promoted with an older copy, all during
//     one handshake: a second at most, or longer if the client's process is suspended.
//  4. A durable node loses its memory and is admitted again. Then its disk is restored from an
//     older copy, and a new client comes first.
//  5. "appendfsync always" is set after a restart that the client did not see.
//
// Of two servers that take turns behind one address, the first returns with its own marker. If it
// was a replica in between, or is durable and its virtual machine was set back to a snapshot, only
// a new client does not notice.
//
// # Rejected
//
//   - To count the votes of an attempt by server. Each attempt would have to remember its nodes'
//     servers, for something that happens when names change.
//   - An option that trusts replicas (WAIT) in place of the quarantine after a failover. Redis does
//     not promise what such votes would count on.
//
// docs/restart-guard.md is the operator's view.
package restartguard
