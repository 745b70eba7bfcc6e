// Package guard decides whether a server may vote.
//
// A lock lives in the memory of a quorum of nodes. A server that loses its memory grants the same
// lock again. So a server that may have lost locks must not vote before they have expired: W
// later. The Redlock description calls this a delayed restart. Six rules say when one is needed:
//
// a. The memory of a server has a name: its run_id. If it may have been a replica since it
// started, a dot and its master_replid follow. A server draws a run_id at each start, and a
// master_replid when it stops being a replica. An hour later (repl-backlog-ttl) it forgets that it
// was one. A replica never votes.
//
// b. One key on each server says what it is. Its value is the name of the server's memory: the
// server votes. Or it is a record: the server waits until the record is W old. Anything else is a
// loss, such as no key, or a copy of another memory's: the client writes a record, and the wait
// begins. All writes are by compare-and-set, and each record has a random number. So while the key
// stays the same, nobody has admitted or wiped the server. The age of a record follows from the
// time that it has left, so all clients share one wait, however short they live. A connection
// votes only while the server would tell it of a flush, and of a change of the key. If the server
// can't, the key is read behind all that is sent.
//
// c. Each client leaves an entry with its MaxTTL on each node, before the node votes for it. W is
// the longest MaxTTL in all entries that the client hears. It ends a wait only when it has heard,
// since it saw the record, of so many other servers that they are a quorum with this one. A lease
// that the loss endangers had a quorum of entries before the loss.
//
// d. Nodes that were never used have no key, like nodes that all lost their memory. If there is no
// key, the record is a new one, unless the client knows better: it has seen a key of the node, or
// names on other nodes for three seconds. If all nodes have new records at one moment, and the
// client has seen no name, it looks at all again a moment later. Then it writes names in the place
// of exactly these records, once on each node. A strict client does not.
//
// e. If a node has a memory again that it had for this client before another one, the client
// writes a record, whatever the key says: this memory may have missed the other one's locks.
//
// f. A node whose master others name, a Sentinel or a Redis Cluster, waits some seconds more: a
// client that hears of the new master last may still get votes of the old one. Once it had a
// server, another one is no first use.
//
// A restart is never forgiven, however durable the server is. spec/guard.pml is the model of these
// rules. It shows that no attempt may begin before a quorum is up, which package multiplex sees
// to. docs/restart-guard.md is for operators, and docs/guarantees.md says what goes unnoticed.
//
// # In this package
//
// A node hands each new connection to its Guard (guard.go). That asks the server what it is
// (server.go), reads the key (record.go), and decides: decide is a pure function (decide.go).
// Peers has what the guards of all nodes share: what they have heard (peers.go), and the first use
// (firstuse.go).
package guard
