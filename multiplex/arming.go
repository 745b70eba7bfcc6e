package multiplex

import (
	"context"
	"time"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/redis/rueidis"
)

const (
	// maxArms is the most watches that are armed in one flush.
	maxArms = 128
	// maxArming is the most watches that wait to be armed on one node.
	maxArming = 1 << 18
)

// newArms returns the node's pipeline for arming watches. It has one flush under way, so that it
// takes a single place of rueidis' ring.
func (n *node) newWatchPipeline() *batch.Pipeline[*arm, remains] {
	return batch.New(batch.Config[*arm, remains]{
		Flush: n.flushWatches,
		Done: func(a *arm, r remains) {
			if n.watches.answered(a, r) {
				a.watch.call()
			}
		},
		Weight:   func(*arm) int { return 1 },
		MaxFlush: maxArms, Window: 1, OverlapAt: func() int { return maxArms }, Limit: maxArming,
	})
}

// ask hands an arm to the node. An error means that it was not sent and will not be.
func (n *node) requestWatch(a *arm) error {
	if why, down := n.down(); down {
		return why
	}
	return n.watchPipeline.Enqueue(&a.call)
}

// flushArms makes one trip to the node for watches. Where it fails the answers stay unknown.
func (n *node) flushWatches(arms []*arm, answers []remains) {
	if n.awaitUp() != nil {
		return
	}
	sent := n.metrics.flushStarted(len(arms))
	n.queryWatches(arms, answers)
	n.metrics.flushLatency.Observe(time.Since(sent))
}

// watchExchange is the trip of a node with a rueidis client. The server tells of changes of the
// keys that were read behind CLIENT CACHING YES, if it took the handshake's CLIENT TRACKING. CLIENT
// CACHING is for the next command only, and nothing comes between the commands of one pipeline. A
// server without it answers with an error, and still tells the time left.
func (n *node) sendWatches(arms []*arm, answers []remains) {
	commands := make([]rueidis.Completed, 0, 2*len(arms))
	for _, a := range arms {
		commands = append(commands, n.client.B().ClientCaching().Yes().Build(),
			n.client.B().Pttl().Key(a.watch.key).Build())
	}
	line := n.active.verified()
	replies := n.client.DoMulti(context.Background(), commands...)
	now := time.Now()
	if !n.active.stillValid(line) {
		return
	}
	for i := range arms {
		left, err := replies[2*i+1].ToInt64()
		if err != nil {
			continue
		}
		r := remains{known: true, told: replies[2*i].Error() == nil, until: now}
		switch {
		case left == -1, left > int64(Forever/time.Millisecond): // as good as for ever
			r.until = time.Time{}
		case left > 0:
			r.until = now.Add(time.Duration(left) * time.Millisecond)
		}
		answers[i] = r
	}
}

// invalidated is rueidis' hook for what the server tells of keys; nil stands for all, also when the
// connection is lost. It runs on the goroutine that reads from the node, so nothing in it may wait.
func (n *node) onInvalidate(keys []rueidis.RedisMessage) {
	if keys == nil {
		if !n.active.onDataLoss() {
			notify(n.disconnectAck)
		}
		n.watches.lost(false)
		return
	}
	for i := range keys {
		if key, err := keys[i].ToString(); err == nil {
			n.watches.changed(key)
		}
	}
}
