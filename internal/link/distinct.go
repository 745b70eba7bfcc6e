package link

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/servers"
)

const (
	// distinctTimeout is how long the check of one server may take, at most; the others have half
	// of it.
	distinctTimeout = 500 * time.Millisecond
	// probeTTL is how many milliseconds a probe key lasts if it can't be deleted.
	probeTTL = 10_000
)

// checkDistinct makes sure that the server behind c is no other node's, if one of them does not
// show its run_id. It writes a key through this node's connection, and looks for it through the
// others. If a server forbids that, nothing can be known, and the log says so once. If another node
// does not answer in time, its connection is closed, so it hardly votes. It is checked against this
// node when it comes back.
func (l *Link) checkDistinct(ctx context.Context, c *Conn) error {
	others := l.guard.Servers().Use(c)
	if len(others) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, distinctTimeout)
	defer cancel()
	key, value := l.probeKey, rand.Text()
	written := l.Do(ctx, []string{"SET", key, value, "PX", strconv.Itoa(probeTTL)})[0]
	if !written.Came {
		return notDistinct(ctx, written.Err)
	}
	if written.Err != nil {
		l.mayBeAnother(written.Err)
		return nil
	}
	defer l.Do(ctx, []string{"DEL", key})
	// Not with ctx, which carries this node's permit to dial.
	asking, stop := context.WithTimeout(context.Background(), distinctTimeout/2)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	replies := make([]Reply, len(others))
	var all sync.WaitGroup
	for i, index := range others {
		other := l.cfg.Others(index)
		asked := other.Current()
		all.Go(func() {
			replies[i] = other.Do(asking, []string{"GET", key})[0]
			if !replies[i].Came && asking.Err() != nil {
				_ = asked.Close()
			}
		})
	}
	all.Wait()
	for i, r := range replies {
		switch {
		case r.Text == value:
			return &servers.SameServerError{Other: l.cfg.Others(others[i]).Name()}
		case r.Came && r.Err != nil:
			l.mayBeAnother(r.Err)
		}
	}
	return notDistinct(ctx, nil)
}

// notDistinct returns why the check of one server has not succeeded: it took too long, or err.
func notDistinct(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("not told apart from the other nodes within %v", distinctTimeout)
	}
	return err
}

// mayBeAnother logs, once, that the server may be another node's too.
func (l *Link) mayBeAnother(err error) {
	if l.warnedSame {
		return
	}
	l.warnedSame = true
	l.cfg.Logger.Warn("lockpipe: node can't be told apart from the others: if two names "+
		"lead to one server, it has two votes",
		slog.String("node", l.Name()), slog.Any("error", err))
}
