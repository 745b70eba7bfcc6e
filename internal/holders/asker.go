package holders

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
)

const (
	// maxKeys is the most keys of one trip, as many as AcquireAny has. Locks wait behind it.
	maxKeys = 1000
	// maxAsking is how many calls of Ask are under way at most. The others wait for them.
	maxAsking = 4
)

// Asker asks all nodes who has keys. It uses the connections that there are, and changes nothing.
// All methods are safe for concurrent use.
type Asker struct {
	links  []*link.Link
	asking chan struct{} // of capacity maxAsking: one for each call under way
}

// New returns an Asker of the nodes.
func New(links []*link.Link) *Asker {
	return &Asker{links: links, asking: make(chan struct{}, maxAsking)}
}

// Node is what a node says of all keys, or why it has said nothing.
type Node struct {
	Name    string
	State   link.State
	Answers []Answer // for each key; nil if Err is not
	Err     error    // without the node's passwords; a *TimeoutError if it has not answered in time
}

// TimeoutError is why a node has said nothing that has not answered in time.
type TimeoutError struct {
	Timeout time.Duration
	Late    time.Duration // how late this process was itself; 0: it was not
}

// Error says for how long the node was waited for.
func (e *TimeoutError) Error() string {
	text := fmt.Sprintf("no answer within %v", e.Timeout)
	if e.Late > 0 {
		late := e.Late.Round(time.Millisecond)
		text += fmt.Sprintf(" (this process itself was late by %v: it was throttled or stopped)", late)
	}
	return text
}

// Ask asks each node about keys, given with their prefix, and about the lines for them; nil: not
// about lines. It makes one round trip for each 1,000 keys. It waits for at most timeout, and no
// longer than until enough says that the nodes so far suffice; nil: for all. It waits for a node
// that is being connected, and sends nothing to one that is down or quarantined. The error is
// ctx's, if ctx ended before anything was asked.
func (a *Asker) Ask(ctx context.Context, keys, lines []string, timeout time.Duration,
	enough func(nodes []Node) bool,
) ([]Node, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	select {
	case a.asking <- struct{}{}:
		defer func() { <-a.asking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, &TimeoutError{Timeout: timeout})
	defer cancel()
	nodes, replies := make([]Node, len(a.links)), make(chan func(), len(a.links))
	for i, l := range a.links {
		nodes[i].Err = errNotAwaited
		// A write to a node that hangs may outlast ctx, until the connection is given up.
		go func() {
			answers, err := ask(ctx, l, keys, lines)
			replies <- func() { nodes[i].Answers, nodes[i].Err = answers, err }
		}()
	}
	for range nodes {
		select {
		case take := <-replies:
			take()
		case <-ctx.Done():
		}
		if ctx.Err() != nil || enough != nil && enough(nodes) {
			break
		}
	}
	for len(replies) > 0 {
		(<-replies)()
	}
	for i, l := range a.links {
		n := &nodes[i]
		if n.Name, n.State = l.Name(), l.State(); n.Err == errNotAwaited && ctx.Err() != nil {
			n.Err = context.Cause(ctx)
		}
	}
	return nodes, nil
}

// errNotAwaited is the error of a node that has not answered when the other nodes sufficed.
var errNotAwaited = errors.New("not awaited")

// ask asks one node.
func ask(ctx context.Context, l *link.Link, keys, lines []string) (all []Answer, err error) {
	if err := l.AwaitConnected(ctx); err != nil {
		return nil, err
	}
	for from := 0; from < len(keys); from += maxKeys {
		to := min(from+maxKeys, len(keys))
		conn := l.Verified()
		if conn == nil {
			return nil, link.ErrNotConnected
		}
		of := lines[min(from, len(lines)):min(to, len(lines))]
		sent := commands(l.Tag(), keys[from:to], of)
		replies, err := conn.Trips.Do(ctx, sent...)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil || !l.StillValid(conn):
			return nil, l.Hide(cmp.Or(conn.Failure(), link.ErrNotConnected))
		}
		for replies := range slices.Chunk(replies, len(sent)/(to-from)) {
			a, err := newAnswer(replies)
			if err != nil {
				return nil, l.Hide(err)
			}
			all = append(all, a)
		}
	}
	return all, nil
}
