package multiplex

import (
	"context"
	"crypto/rand"
	mathrand "math/rand/v2"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe/script"
	"github.com/redis/rueidis"
)

const (
	// renewEvery is how often a node's generation rises, at least, while a client is connected.
	renewEvery = 2 * time.Second
	// renewTimeout is how long the connector waits for a node to answer.
	renewTimeout = 500 * time.Millisecond
)

// untilRenewal is a random time, so that the clients of a node do not come all at once.
func untilRenewal() time.Duration { return renewEvery/2 + mathrand.N(renewEvery/2) }

// renew raises the node's generation, if it is durable, and has it keep those of the others. If the marker is not the
// server's any more, or the generation has fallen, the node has forgotten something, or another client knows of that:
// then the connection is given up, and votes on it count no longer. An error is left for the next time.
func (n *node) renew(ctx context.Context) {
	l := n.sending()
	if l == nil || l.runID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	asked := time.Now()
	replies := n.client.DoMulti(ctx, n.renewal(l), n.readGenerations())
	if reply, ok := rueidis.IsRedisErr(replies[0].Error()); ok && reply.IsNoScript() {
		replies = n.client.DoMulti(ctx, n.client.B().ScriptLoad().Script(script.Renew.Source).Build(), n.renewal(l), n.readGenerations())[1:]
	}
	result, err := replies[0].ToInt64()
	if err != nil || !n.counted(l) {
		return
	}
	if result != 1 {
		l.void()
		return
	}
	text, err := replies[1].ToString()
	if err != nil {
		return
	}
	own, others := readGenerations(text)
	n.mux.generations.confirmed(n.index, l.runID, own)
	n.mux.generations.heard(n.index, others, asked)
}

// renewal is the command that raises the generation.
func (n *node) renewal(l *line) rueidis.Completed {
	known := n.mux.generations.own(n.index)
	a, fresh := n.admission, ""
	if l.durable {
		fresh = newGenerationID()
	}
	args := []string{
		l.runID, known.id, strconv.FormatInt(known.number, 10), fresh,
		lostPrefix + rand.Text(), a.lossTTL(),
	}
	for _, g := range n.mux.generations.except(n.index) {
		args = append(args, g.id, strconv.FormatInt(g.number, 10))
	}
	return n.client.B().Arbitrary("EVALSHA", script.Renew.SHA, "2").Keys(a.marker, a.generations).Args(args...).Build()
}

func (n *node) readGenerations() rueidis.Completed {
	return n.client.B().Get().Key(n.admission.generations).Build()
}

// newGenerationID draws an id that no node ever had.
func newGenerationID() string { return rand.Text()[:12] }
