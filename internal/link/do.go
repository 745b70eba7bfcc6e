package link

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
)

// run runs a script on the newest connection, and loads it if the server does not have it. err is
// why no reply came.
func (l *Link) run(ctx context.Context, s *script.Script, keys, args []string) (
	reply resp.Value, err error,
) {
	c := l.Current()
	evalsha := append([]string{"EVALSHA", s.SHA, strconv.Itoa(len(keys))}, keys...)
	evalsha = append(evalsha, args...)
	replies, err := c.Trips.Do(ctx, evalsha)
	if err == nil && replies[0].Kind == '-' && hasWord(replies[0].Err(), "NOSCRIPT") {
		replies, err = c.Trips.Do(ctx, []string{"SCRIPT", "LOAD", s.Source}, evalsha)
	}
	if err != nil {
		return resp.Value{}, err
	}
	return replies[len(replies)-1], nil
}

// replied returns the error that the server replied with, without the node's passwords; or nil.
func (l *Link) replied(v resp.Value) error {
	if v.Kind != '-' {
		return nil
	}
	return l.Hide(errors.New(strings.TrimPrefix(v.Text, "ERR ")))
}
