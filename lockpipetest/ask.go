package lockpipetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// askTimeout bounds a whole Do, Flush or Keys.
const askTimeout = 10 * time.Second

// Do sends one command to node i over a new connection of its own and returns the reply: a string,
// an int64, nil, or a []any of these. An error reply of the server is returned as an error whose
// text is that reply; inside an array it is an element of type error. Do gives up after 10 seconds,
// so it returns an error on a frozen node unless that is thawed meanwhile; the node may execute the
// command later.
func (n *Nodes) Do(i int, args ...string) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("lockpipetest: no command given")
	}
	nd, err := n.node(i)
	if err != nil {
		return nil, err
	}
	reply, err := ask(nd.port.addr, askTimeout, args...)
	if err != nil {
		return nil, fmt.Errorf("lockpipetest: %s to node %d: %w", strings.ToUpper(args[0]), i, err)
	}
	return reply, nil
}

// Flush removes all keys of node i, in all databases (FLUSHALL). Scripts stay. It gives up after 10
// seconds.
func (n *Nodes) Flush(i int) error {
	_, err := n.Do(i, "FLUSHALL")
	return err
}

// Keys returns the keys of node i, database 0, that start with prefix: all of them for the empty
// prefix. The prefix is plain text, not a pattern. They come sorted, each once. It reads with SCAN,
// so a key that is set or deleted meanwhile may be there or not. It gives up after 10 seconds.
func (n *Nodes) Keys(i int, prefix string) ([]string, error) {
	nd, err := n.node(i)
	if err != nil {
		return nil, err
	}
	keys, err := nd.scan(prefix)
	if err != nil {
		return nil, fmt.Errorf("lockpipetest: keys of node %d: %w", i, err)
	}
	return keys, nil
}

// scan filters on this side: a prefix may hold characters that MATCH takes for a pattern.
func (nd *node) scan(prefix string) ([]string, error) {
	t, err := dialTalk(nd.port.addr, askTimeout)
	if err != nil {
		return nil, err
	}
	defer t.close()
	keys := []string{}
	for cursor := ""; cursor != "0"; {
		if cursor == "" {
			cursor = "0"
		}
		reply, err := t.do("SCAN", cursor, "COUNT", "1000")
		if err != nil {
			return nil, err
		}
		var page []any
		if cursor, page, err = scanPage(reply); err != nil {
			return nil, err
		}
		for _, key := range page {
			if key, ok := key.(string); ok && strings.HasPrefix(key, prefix) {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil // SCAN may tell a key twice
}

// scanPage takes a SCAN reply apart: the next cursor, "0" after the last page, and the keys.
func scanPage(reply any) (cursor string, keys []any, err error) {
	if parts, ok := reply.([]any); ok && len(parts) == 2 {
		cursor, isString := parts[0].(string)
		keys, isArray := parts[1].([]any)
		if isString && isArray && cursor != "" {
			return cursor, keys, nil
		}
	}
	return "", nil, fmt.Errorf("unexpected reply to SCAN: %v", reply)
}
