package link

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/lockpipe/lockpipe/internal/restartguard"
	"github.com/lockpipe/lockpipe/script"
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
func untilRenewal() time.Duration { return renewEvery/2 + rand.N(renewEvery/2) }

// renew lets the restart guard renew the node's generation. If the node has lost something, the
// connection is given up, and votes on it no longer count. After an error the next round tries
// again, and the log says so once.
func (l *Link) renew(ctx context.Context) {
	c := l.Verified()
	if c == nil || c.Server.RunID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	intact, err := l.guard.Renew(ctx, c.Server, guardCommands{l})
	l.renewal.last = time.Now()
	switch {
	case !l.StillValid(c):
	case err != nil:
		l.renewalFailed(err)
	case !intact:
		c.Abandon()
	default:
		l.renewal.warned = false
	}
}

// guardCommands sends the restart guard's commands over the connection in use.
type guardCommands struct{ link *Link }

// Get returns the texts of keys.
func (c guardCommands) Get(ctx context.Context, keys ...string) []restartguard.Value {
	commands := make([][]string, len(keys))
	for i, key := range keys {
		commands[i] = []string{"GET", key}
	}
	values := make([]restartguard.Value, len(keys))
	for i, r := range c.link.Do(ctx, commands...) {
		if r.Err == nil && r.IsInt {
			r.Err = errNoString
		}
		values[i] = restartguard.Value{Text: r.Text, Err: r.Err}
	}
	return values
}

// Run runs a script.
func (c guardCommands) Run(ctx context.Context, s *script.Script, keys, args []string) (int64,
	error,
) {
	r := c.link.run(ctx, s, keys, args)
	if r.Err == nil && !r.IsInt {
		return 0, errNoInteger
	}
	return r.Int, r.Err
}

// Text runs a script that replies with a text.
func (c guardCommands) Text(ctx context.Context, s *script.Script, keys, args []string) (string,
	error,
) {
	r := c.link.run(ctx, s, keys, args)
	if r.Err == nil && r.IsInt {
		return "", errNoText
	}
	return r.Text, r.Err
}

// errNoString is the error of a GET that replied with something else.
var errNoString = errors.New("GET replied with an integer")

// The errors of scripts that replied with something else.
var (
	errNoInteger = errors.New("the script replied with no integer")
	errNoText    = errors.New("the script replied with no text")
)

// renewLayouts renews what the client leaves on the node of its layouts, and reads those of others.
// No error that the server answers keeps the node from voting.
func (l *Link) renewLayouts(ctx context.Context) {
	if l.Verified() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	var replied serverError
	if err := l.layouts.Renew(ctx, guardCommands{l}.Text); errors.As(err, &replied) {
		l.layouts.Failed(err)
	}
}

// renewalFailed logs an error of the server, once until a renewal succeeds.
func (l *Link) renewalFailed(err error) {
	var replied serverError
	if !errors.As(err, &replied) || l.renewal.warned {
		return
	}
	l.renewal.warned = true
	l.cfg.Logger.Warn("lockpipe: node's generation can't be renewed: an older copy of its "+
		"disk would go unnoticed", slog.String("node", l.Name()), slog.Any("error", err))
}
