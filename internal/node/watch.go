package node

import (
	"math"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/trip"
	"github.com/lockpipe/lockpipe/internal/watch"
)

func (n *Node) newWatches() *watch.Registry {
	return watch.NewRegistry(watch.Node{
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
	if n.Link.AwaitConnected() != nil {
		return
	}
	sent := n.metrics.flushStarted(len(keys))
	n.QueryWatches(keys, replies)
	n.metrics.flushLatency.Observe(time.Since(sent))
}

// sendWatches is the flush of a node over its link. If the server took CLIENT TRACKING in the
// handshake, it reports changes of the keys that were read behind CLIENT CACHING YES. A server
// without it answers with an error, and still returns the TTL.
func (n *Node) sendWatches(keys []string, replies []watch.Reply) {
	conn := n.Link.Verified()
	if conn == nil {
		return
	}
	q := newWatchQuery(keys)
	if conn.Trips.Enqueue(&q.trip) != nil {
		return
	}
	conn.Trips.Flush()
	end, now := <-q.ended, time.Now()
	if end != trip.Answered || !n.Link.StillValid(conn) {
		return
	}
	for i, ttl := range q.ttls {
		if ttl == noTTL {
			continue
		}
		r := watch.Reply{Known: true, Notifies: q.tracked[i], Until: now}
		switch {
		case ttl == -1, ttl > int64(watch.Forever/time.Millisecond): // as good as for ever
			r.Until = time.Time{}
		case ttl > 0:
			r.Until = now.Add(time.Duration(ttl) * time.Millisecond)
		}
		replies[i] = r
	}
}

// watchQuery asks about keys by one trip. CLIENT CACHING is for the next command only, and nothing
// comes between the commands of a trip. Between two commands of rueidis a trip may.
type watchQuery struct {
	trip    trip.Trip
	tracked []bool  // for each key
	ttls    []int64 // in milliseconds; noTTL without a reply that makes sense
	ended   chan trip.End
}

// noTTL stands for a TTL that is not known.
const noTTL = math.MinInt64

func newWatchQuery(keys []string) *watchQuery {
	q := &watchQuery{
		tracked: make([]bool, len(keys)), ttls: make([]int64, len(keys)),
		ended: make(chan trip.End, 1),
	}
	var text []byte
	for _, key := range keys {
		text = resp.AppendCommand(text, "CLIENT", "CACHING", "YES")
		text = resp.AppendCommand(text, "PTTL", key)
	}
	q.trip = trip.Trip{Parts: [][]byte{text}, Commands: 2 * len(keys), Receiver: q}
	return q
}

// OnReply takes one reply.
func (q *watchQuery) OnReply(i int, r resp.Reply) {
	if i%2 == 0 {
		q.tracked[i/2] = r.Kind == resp.KindStatus
		return
	}
	q.ttls[i/2] = noTTL
	if r.Kind == resp.KindInteger {
		q.ttls[i/2] = r.Int
	}
}

// OnEnd takes the end of the trip.
func (q *watchQuery) OnEnd(end trip.End) { q.ended <- end }

// Invalidated takes the keys that the server reports as changed.
func (n *Node) Invalidated(keys []string) {
	if keys == nil {
		n.Watches.DropAll()
	}
	for _, key := range keys {
		n.Watches.Changed(key)
	}
}
