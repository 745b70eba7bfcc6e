package node

import (
	"errors"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
)

// Kind is what an operation wants of a node.
type Kind uint8

// The kinds of operations.
const (
	Acquire Kind = iota
	Extend
	Release
)

// Op is the part of an operation that is the same for all nodes. Its owner sets it before a node
// has it.
type Op struct {
	Keys *ids.Keys
	// TTL is in milliseconds. A release with one keeps the keys, or is PutBack.
	TTL string
	// Sent is when the operation began: before the first byte to any node.
	Sent time.Time
	Kind Kind
	// Directed: the owner asks some nodes alone, so what they are sent is not shared.
	Directed bool
}

// PutBack is the TTL of a release that gives back what the acquire has adopted. Each key keeps its
// end, which is later than that.
const PutBack = "1"

// Operation is one try to acquire, extend or release the keys of one claim. It has what only its
// owner knows. The parameter node is the index of the node that calls the method.
type Operation interface {
	// Op returns what is the same for all nodes.
	Op() *Op
	// Skip returns why it is of no use to send the operation to the node now. It is nil if it is of
	// use. again: it is sent once more, and what the claim asked for later may have been sent in
	// between. Node.order is held.
	Skip(node int, again bool, now time.Time) error
	// Record takes the answer to a release that the node had kept, or its expiry as a grant. The
	// owner gives the release back by Node.AddPending if it is to be kept again.
	Record(node int, r Answer)
	// Expired reports whether the keys of a release that the node could not answer have expired.
	Expired(node int, now time.Time) bool
}

// Vote is one node's answer to an operation. The zero value never grants.
type Vote uint8

const (
	// Unknown: no answer, a broken connection or an error. It counts for nothing, but the node may
	// have done it.
	Unknown Vote = iota
	// Granted: the node did it for the whole set of keys.
	Granted
	// Refused: the node did not do it, because another token holds a key (or, for an extension,
	// because the node had lost a key).
	Refused
)

// Answer is what became of an operation on one node. The zero value is an unknown vote.
type Answer struct {
	Vote Vote
	// LeftNothing: the operation left nothing on the node, for certain.
	LeftNothing bool
	// Broken: it was sent, and the connection broke before the answer.
	Broken bool
	// Replied: the node answered, if only with an error.
	Replied bool
	// NotAsked: the operation is not for the node.
	NotAsked bool
	// KeyIndex is the index of the key that another token holds, if Vote is Refused. It is negative
	// if no key is the reason.
	KeyIndex int32
	// Err says why, if Vote is Unknown.
	Err error
}

var (
	// ErrSuperseded is the vote of a node to which an operation was not sent because a newer one
	// came first.
	ErrSuperseded = errors.New("not sent: a later release or extension took its place")
	// ErrNotNeeded is the vote of a node to which a release was not sent: it can't hold the keys.
	ErrNotNeeded = errors.New("not sent: the node can't hold the keys")
	// ErrQueuedTooLong is the vote of a node whose queue was longer than the operation could wait.
	ErrQueuedTooLong = errors.New("not sent: queued too long")
	// ErrConnectionLost is the vote of a node whose connection ended before the answer, if nothing
	// else is known.
	ErrConnectionLost = errors.New("the connection was lost before the answer")
)
