package multiplex

import (
	"context"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe/internal/restartguard"
	"github.com/lockpipe/lockpipe/script"
	"github.com/redis/rueidis"
)

const (
	// renewEvery is how often a node's generation rises, at least, while a client is connected.
	renewEvery = 2 * time.Second
	// renewTimeout is how long the connector waits for a node to answer.
	renewTimeout = 500 * time.Millisecond
)

// renewal has what the connector remembers of renewals.
type renewal struct {
	last   time.Time // when the generation was renewed last, or tried to be
	warned bool      // that it can't be renewed
}

// untilRenewal is a random time, so that the clients of a node do not come all at once.
func untilRenewal() time.Duration { return renewEvery/2 + mathrand.N(renewEvery/2) }

// renew lets the restart guard renew the node's generation. If the node has lost something, the
// connection is given up, and votes on it no longer count. After an error the next round tries
// again, and the log says so once.
func (n *node) renew(ctx context.Context) {
	c := n.active.verified()
	if c == nil || c.server.RunID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	intact, err := n.guard.Renew(ctx, c.server, guardCommands{n.client})
	n.renewal.last = time.Now()
	switch {
	case !n.active.stillValid(c):
	case err != nil:
		n.renewalFailed(err)
	case !intact:
		c.abandon()
	default:
		n.renewal.warned = false
	}
}

// guardCommands sends the restart guard's commands over the connection in use.
type guardCommands struct{ client rueidis.Client }

// Get returns the texts of keys.
func (c guardCommands) Get(ctx context.Context, keys ...string) []restartguard.Value {
	commands := make([]rueidis.Completed, len(keys))
	for i, key := range keys {
		commands[i] = c.client.B().Get().Key(key).Build()
	}
	values := make([]restartguard.Value, len(keys))
	for i, r := range c.client.DoMulti(ctx, commands...) {
		text, err := r.ToString()
		if rueidis.IsRedisNil(err) {
			text, err = "", nil
		}
		values[i] = restartguard.Value{Text: text, Err: err}
	}
	return values
}

// Run runs a script.
func (c guardCommands) Run(ctx context.Context, s *script.Script, keys, args []string) (int64,
	error,
) {
	run := func() rueidis.Completed {
		return c.client.B().Arbitrary("EVALSHA", s.SHA, strconv.Itoa(len(keys))).Keys(keys...).
			Args(args...).Build()
	}
	result, err := c.client.Do(ctx, run()).ToInt64()
	if reply, ok := rueidis.IsRedisErr(err); ok && reply.IsNoScript() {
		load := c.client.B().ScriptLoad().Script(s.Source).Build()
		result, err = c.client.DoMulti(ctx, load, run())[1].ToInt64()
	}
	return result, err
}

// renewalFailed logs an error of the server, once until a renewal succeeds.
func (n *node) renewalFailed(err error) {
	if _, isReply := rueidis.IsRedisErr(err); !isReply || n.renewal.warned {
		return
	}
	n.renewal.warned = true
	n.mux.cfg.Logger.Warn("lockpipe: node's generation can't be renewed: an older copy of its "+
		"disk would go unnoticed",
		slog.String("node", n.addr), slog.Any("error", n.hide(errors.New(err.Error()))))
}
