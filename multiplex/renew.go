package multiplex

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
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

// renew raises the node's generation, if it is durable, and has it keep those of the others. If the
// marker is not the server's any more, or the generation has fallen, the node has forgotten
// something, or another client knows of that: then the connection is given up, and votes on it
// count no longer. After an error the next round tries again; the log says so once.
func (n *node) renew(ctx context.Context) {
	l := n.active.verified()
	if l == nil || l.runID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	intact, err := n.renewOn(ctx, l)
	n.admission.renewed = time.Now()
	switch {
	case !n.active.stillValid(l):
	case err != nil:
		n.renewalFailed(err)
	case !intact:
		l.abandon()
	default:
		n.admission.warnedRenewal = false
	}
}

// renewOn is renew on a connection. It writes only if there is something to write: of many clients
// one raises the number.
func (n *node) renewOn(ctx context.Context, l *nodeConn) (intact bool, err error) {
	g := n.mux.generations
	asked := time.Now()
	own, others, intact, err := n.keeps(ctx, l)
	if err != nil || !intact {
		return intact, err
	}
	if n.needsRenewal(l, own, others) {
		result, err := n.client.Do(ctx, n.renewal(l)).ToInt64()
		if reply, ok := rueidis.IsRedisErr(err); ok && reply.IsNoScript() {
			load := n.client.B().ScriptLoad().Script(script.Renew.Source).Build()
			result, err = n.client.DoMulti(ctx, load, n.renewal(l))[1].ToInt64()
		}
		if err != nil || result != 1 {
			return false, err
		}
		if own, others, intact, err = n.keeps(ctx, l); err != nil || !intact {
			return intact, err
		}
	}
	g.confirmed(n.index, l.runID, own)
	g.heard(n.index, others, asked)
	return true, nil
}

// keeps returns what the node keeps, and whether its marker is still the server's.
func (n *node) keeps(ctx context.Context, l *nodeConn) (own generation, others map[string]int64,
	intact bool, err error,
) {
	b := n.client.B()
	replies := n.client.DoMulti(ctx, b.Get().Key(n.admission.marker).Build(),
		b.Get().Key(n.admission.generations).Build())
	marker, err := textOrNone(replies[0])
	if err != nil || marker != l.runID {
		return own, others, false, err
	}
	text, err := textOrNone(replies[1])
	own, others = readGenerations(text)
	return own, others, true, err
}

// textOrNone is a text, or empty if there is none.
func textOrNone(r rueidis.RedisResult) (string, error) {
	text, err := r.ToString()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	return text, err
}

// needsRenewal reports whether there is something to write: the node's number is to rise or has
// fallen, or it keeps less of another node than this client knows.
func (n *node) needsRenewal(l *nodeConn, own generation, others map[string]int64) bool {
	known := n.mux.generations.own(n.index)
	if l.durable && (own.id == "" || own.id == known.id && own.number <= known.number) {
		return true
	}
	for _, g := range n.mux.generations.except(n.index) {
		if kept, has := others[g.id]; g.id != own.id && (!has || kept < g.number) {
			return true
		}
	}
	return false
}

// renewal is the command that raises the generation.
func (n *node) renewal(l *nodeConn) rueidis.Completed {
	known := n.mux.generations.own(n.index)
	a, fresh := n.admission, ""
	if l.durable {
		fresh = newGenerationID()
	}
	loss := mark{prefix: lostPrefix, lasts: a.maxTTL + markOutlasts, history: l.history}
	args := []string{
		l.runID, known.id, strconv.FormatInt(known.number, 10), fresh,
		loss.text(), loss.expiry(),
	}
	for _, g := range n.mux.generations.except(n.index) {
		args = append(args, g.id, strconv.FormatInt(g.number, 10))
	}
	return n.client.B().Arbitrary("EVALSHA", script.Renew.SHA, "2").Keys(a.marker,
		a.generations).Args(args...).Build()
}

// renewalFailed logs an error of the server, once until a renewal succeeds.
func (n *node) renewalFailed(err error) {
	if _, isReply := rueidis.IsRedisErr(err); !isReply || n.admission.warnedRenewal {
		return
	}
	n.admission.warnedRenewal = true
	n.mux.cfg.Logger.Warn("lockpipe: node's generation can't be renewed: an older copy of its "+
		"disk would go unnoticed",
		slog.String("node", n.addr), slog.Any("error", n.hide(errors.New(err.Error()))))
}

// newGenerationID draws an id that no node ever had.
func newGenerationID() string { return rand.Text()[:12] }
