package node

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/holders"
	"github.com/lockpipe/lockpipe/internal/watch"
)

func (n *Node) newWatches(name string) *watch.Registry {
	return watch.NewRegistry(watch.Node{
		Name: name,
		Down: func() bool {
			_, down := n.Link.Rejects()
			return down
		},
		Query: n.flushWatches,
	})
}

// flushWatches makes one flush to the node for watches. If the node can't be reached, the replies
// stay unknown.
func (n *Node) flushWatches(keys []string, replies []watch.Reply) {
	if n.Link.AwaitConnected(context.Background()) != nil {
		return
	}
	sent := n.Counts.FlushStarted(len(keys))
	n.QueryWatches(keys, replies)
	n.Counts.FlushEnded(time.Since(sent))
}

// sendWatches is the flush of a node over its link.
func (n *Node) sendWatches(keys []string, replies []watch.Reply) {
	conn := n.Link.Verified()
	if conn == nil {
		return
	}
	answers := holders.NewQuery(keys, nil, true).Run(context.Background(), conn.Trips)
	if now := time.Now(); n.Link.StillValid(conn) {
		for i, a := range answers {
			replies[i] = watchReply(now, a)
		}
	}
}

// watchReply returns what a watch makes of an answer that came now.
func watchReply(now time.Time, a holders.Answer) watch.Reply {
	if !a.Known {
		return watch.Reply{}
	}
	r := watch.Reply{Known: true, Notifies: a.Notifies, Until: now, Token: a.Token}
	switch left := a.Left(); {
	case left == holders.Forever:
		r.Until = time.Time{}
	case left > 0:
		r.Until = now.Add(left)
	}
	return r
}

// Invalidated takes the keys that the server reports as changed.
func (n *Node) Invalidated(keys []string) {
	if keys == nil {
		n.Watches.DropAll()
	}
	for _, key := range keys {
		n.Watches.Changed(key)
	}
}
