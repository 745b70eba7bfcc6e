package multiplex

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/restartguard"
	"github.com/redis/rueidis"
)

const (
	// distinctTimeout is how long the check of one server may take, at most; the others have half
	// of it.
	distinctTimeout = 500 * time.Millisecond
	// probeTTL is how many milliseconds a probe key lasts if it can't be deleted.
	probeTTL = 10_000
)

// checkDistinct makes sure that the server behind l is no other node's, if one of them does not
// show its run_id. It writes a key through this node's connection, and looks for it through the
// others. If a server forbids that, nothing can be known, and the log says so once. If another node
// does not answer in time, its connection is closed, so it hardly votes. It is checked against this
// node when it comes back.
func (n *node) checkDistinct(ctx context.Context, l *nodeConn) error {
	others := n.guard.InUse(l)
	if len(others) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, distinctTimeout)
	defer cancel()
	key, value, b := n.ownProbeKey, rand.Text(), n.client.B()
	written := n.client.Do(ctx, b.Set().Key(key).Value(value).PxMilliseconds(probeTTL).Build())
	if err := written.NonRedisError(); err != nil {
		return err
	}
	if err := written.Error(); err != nil {
		n.mayBeAnother(err)
		return nil
	}
	defer n.client.Do(ctx, b.Del().Key(key).Build())
	// Not with ctx, which carries this node's permit to dial.
	asking, stop := context.WithTimeout(context.Background(), distinctTimeout/2)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	replies := make([]rueidis.RedisResult, len(others))
	var all sync.WaitGroup
	for i, other := range others {
		asked := n.mux.nodes[other].active.conn.Load()
		all.Go(func() {
			replies[i] = n.mux.nodes[other].client.Do(asking, b.Get().Key(key).Build())
			if replies[i].NonRedisError() != nil && asking.Err() != nil {
				_ = asked.Close()
			}
		})
	}
	all.Wait()
	for i, r := range replies {
		found, err := r.ToString()
		switch {
		case found == value:
			return &restartguard.SameServerError{Other: n.mux.nodes[others[i]].addr}
		case err != nil && r.NonRedisError() == nil && !rueidis.IsRedisNil(err):
			n.mayBeAnother(err)
		}
	}
	return ctx.Err()
}

// mayBeAnother logs, once, that the server may be another node's too.
func (n *node) mayBeAnother(err error) {
	if n.warnedSame {
		return
	}
	n.warnedSame = true
	n.mux.cfg.Logger.Warn("lockpipe: node can't be told apart from the others: if two names "+
		"lead to one server, it has two votes",
		slog.String("node", n.addr), slog.Any("error", n.hide(err)))
}
