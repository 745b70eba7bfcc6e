// Package holders asks all nodes for a person who has keys: which token is in their value, and for
// how long.
package holders

import (
	"errors"
	"strconv"
	"strings"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/resp"
)

// Answer is what a node says of one key.
type Answer struct {
	// TTL is in milliseconds: -1 for a key that never ends, -2 for one that is not there.
	TTL int64
	// Token is that of the value. Of a value of another client it is the begin, at least as much as
	// a token has. It is "" if the key is missing, is no string, or may not be read.
	Token string
	// Node is the character of the node in the value, in the order of nodes of the holder; 0 for
	// another client's value.
	Node byte
	// Waiting is how many places the key's line has, if that was asked for.
	Waiting int
}

// commands returns what asks a node about keys, given with their prefix, and about the lines for
// them; nil: not about lines. On the node, all of them are behind tag. Each key has as many.
func commands(tag string, keys, lines []string) (all [][]string) {
	for i, key := range keys {
		key = tag + key
		all = append(all, []string{"PTTL", key}, []string{"GETRANGE", key, "0", resp.LastByte})
		if len(lines) > 0 {
			all = append(all, []string{"ZCARD", tag + lines[i]})
		}
	}
	return all
}

// newAnswer returns what the replies to the commands for a key say. The error may be one with which
// the server replied, as for a user who may not ask.
func newAnswer(replies []resp.Value) (a Answer, err error) {
	ttl, value := replies[0], replies[1]
	if value.Kind == '-' && strings.HasPrefix(value.Text, "WRONGTYPE ") {
		value = resp.Value{} // a key of another type is held, by nobody known
	}
	for _, r := range []resp.Value{ttl, value} {
		if r.Kind == '-' {
			return a, errors.New(strings.TrimPrefix(r.Text, "ERR "))
		}
	}
	if ttl.Kind != ':' {
		return a, errors.New("unexpected reply")
	}
	a.TTL, _ = strconv.ParseInt(ttl.Text, 10, 64)
	a.Token, a.Node = ids.SplitValue(value.Text)
	if len(replies) > 2 { // it is 0 if the client may not ask for that
		a.Waiting, _ = strconv.Atoi(replies[2].Text)
	}
	return a, nil
}
