package link

import (
	"context"
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
	if err := l.layouts.Renew(ctx, l.texts); err != nil &&
		time.Now().After(l.layouts.FreshUntil()) {
		c.Drop(err)
	}
}

// texts runs a script that replies with a list of texts.
func (l *Link) texts(ctx context.Context, s *script.Script, keys, args []string) ([]string, error) {
	v, err := l.run(ctx, s, keys, args)
	if err != nil {
		return nil, err
	}
	return v.Texts(), l.replied(v)
}
