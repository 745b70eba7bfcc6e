package link

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/script"
)

// renewTimeout is how long the connector waits for a node to answer: as long as a slow network may
// take on a connection in use.
const renewTimeout = ProbeTimeout

// renewEntry renews the client's layout entry on the node, and hears the others. If that has not
// succeeded for too long, votes on the connection no longer count.
func (l *Link) renewEntry(ctx context.Context) {
	c := l.Verified()
	if c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	err := l.layouts.Renew(func(key string, args []string) (texts []string, refusal, err error) {
		return l.run(ctx, script.Layouts, key, args)
	})
	if err != nil && time.Now().After(l.layouts.FreshUntil()) {
		c.Drop(err)
	}
}

// run runs a script that replies with a list of texts on the newest connection, and loads it if the
// server does not have it. refusal is the error that the server replied with, without the node's
// passwords. err is why no reply came.
func (l *Link) run(ctx context.Context, s *script.Script, key string, args []string) (
	texts []string, refusal, err error,
) {
	c := l.Current()
	evalsha := append([]string{"EVALSHA", s.SHA, "1", key}, args...)
	replies, err := c.Trips.Do(ctx, evalsha)
	if err == nil && replies[0].Kind == '-' && hasWord(replies[0].Err(), "NOSCRIPT") {
		replies, err = c.Trips.Do(ctx, []string{"SCRIPT", "LOAD", s.Source}, evalsha)
	}
	if err != nil {
		return nil, nil, err
	}
	v := replies[len(replies)-1]
	if v.Kind == '-' {
		refusal = l.Hide(errors.New(strings.TrimPrefix(v.Text, "ERR ")))
	}
	return v.Texts(), refusal, nil
}
