package multiplex

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/internal/watch"
	"github.com/redis/rueidis"
)

// Forever is what Watch.TTL returns for a key that never expires.
const Forever = watch.Forever

// Watch notifies its owner when one key may have become free on a node. All its methods are safe
// for concurrent use, and none blocks.
type Watch = watch.Watch

// Watch returns a watch of one key, given with its prefix. Nothing is sent before Subscribe, which
// takes the index of a node in the configuration. wake must not block and must not call methods of
// the Mux that wait: see watch.New. Close ends the watch.
func (m *Mux) Watch(key string, wake func()) *Watch { return watch.New(m.watches, key, wake) }

func (n *node) newWatches() *watch.Registry {
	return watch.NewRegistry(watch.Node{
		Down: func() bool {
			_, down := n.down()
			return down
		},
		Query: n.flushWatches,
	})
}

// flushWatches makes one flush to the node for watches. If the node can't be reached, the replies
// stay unknown.
func (n *node) flushWatches(keys []string, replies []watch.Reply) {
	if n.awaitUp() != nil {
		return
	}
	sent := n.metrics.flushStarted(len(keys))
	n.queryWatches(keys, replies)
	n.metrics.flushLatency.Observe(time.Since(sent))
}

// sendWatches is the flush of a node with a rueidis client. If the server took CLIENT TRACKING in
// the handshake, it reports changes of the keys that were read behind CLIENT CACHING YES. CLIENT
// CACHING is for the next command only, and nothing comes between the commands of one pipeline. A
// server without it answers with an error, and still returns the TTL.
func (n *node) sendWatches(keys []string, replies []watch.Reply) {
	commands := make([]rueidis.Completed, 0, 2*len(keys))
	for _, key := range keys {
		commands = append(commands, n.client.B().ClientCaching().Yes().Build(),
			n.client.B().Pttl().Key(key).Build())
	}
	conn := n.active.verified()
	results := n.client.DoMulti(context.Background(), commands...)
	now := time.Now()
	if !n.active.stillValid(conn) {
		return
	}
	for i := range keys {
		ttl, err := results[2*i+1].ToInt64()
		if err != nil {
			continue
		}
		r := watch.Reply{Known: true, Notifies: results[2*i].Error() == nil, Until: now}
		switch {
		case ttl == -1, ttl > int64(Forever/time.Millisecond): // as good as for ever
			r.Until = time.Time{}
		case ttl > 0:
			r.Until = now.Add(time.Duration(ttl) * time.Millisecond)
		}
		replies[i] = r
	}
}

// onInvalidate is rueidis' hook for the keys that the server reports as changed. nil stands for all
// keys, also when the connection is lost. It runs on the goroutine that reads from the node, so
// nothing in it may wait.
func (n *node) onInvalidate(keys []rueidis.RedisMessage) {
	if keys == nil {
		if !n.active.onDataLoss() {
			notify(n.disconnectAck)
		}
		n.watches.DropAll()
		return
	}
	for i := range keys {
		if key, err := keys[i].ToString(); err == nil {
			n.watches.Changed(key)
		}
	}
}
