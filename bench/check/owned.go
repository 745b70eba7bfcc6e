package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
)

// Owned is a lock that a node has for an owner.
type Owned struct {
	Key   string // with the prefix
	Owner string // as in lockpipe.KeyStatus
	// Kept: Lease.Keep has left the key, and no process holds it.
	Kept bool
	// Left is how long the node keeps the key; below 0: without an end.
	Left time.Duration

	value string
}

// FindOwned returns the locks with the prefix that name their owner, of one node, by their keys. It
// walks the whole key space with SCAN, which does not block the node, and changes nothing.
func FindOwned(ctx context.Context, node Endpoint, prefix string) (all []Owned, err error) {
	ctx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	c, err := dial(ctx, node)
	if err != nil {
		return nil, err
	}
	defer c.close()
	keys, err := c.scan(node.node.Tag + prefix)
	if err != nil {
		return nil, err
	}
	for some := range slices.Chunk(keys, script.MaxKeys) {
		if all, err = c.appendOwned(all, some); err != nil {
			return nil, err
		}
	}
	for i := range all {
		all[i].Key = strings.TrimPrefix(all[i].Key, node.node.Tag)
	}
	return all, nil
}

// appendOwned appends the locks among the keys that name their owner. It reads only the begin of
// each value: a whole one may be larger than a reply may be.
func (c *conn) appendOwned(all []Owned, keys []string) ([]Owned, error) {
	var commands []byte
	for _, key := range keys {
		commands = resp.AppendCommand(commands, "GETRANGE", key, "0", resp.LastByte)
		commands = resp.AppendCommand(commands, "PTTL", key)
	}
	if _, err := c.client.Write(commands); err != nil {
		return nil, err
	}
	for _, key := range keys {
		value, err := c.client.Receive()
		if wrong := value.Err(); wrong != nil && !strings.HasPrefix(value.Text, "WRONGTYPE") {
			err = fmt.Errorf("GETRANGE: %w", wrong)
		}
		if err != nil {
			return nil, err
		}
		left, err := c.client.Receive()
		if err != nil {
			return nil, err
		}
		milliseconds, err := strconv.ParseInt(left.Text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("PTTL: %w", cmp.Or(left.Err(), err))
		}
		token, _ := ids.SplitValue(value.Text)
		if owner := ids.OwnerOf(token); owner != "" {
			all = append(all, Owned{
				Key: key, Owner: owner, Kept: strings.HasPrefix(value.Text, ids.Marked(token)),
				Left: time.Duration(milliseconds) * time.Millisecond, value: value.Text,
			})
		}
	}
	return all, nil
}

// Free deletes those of these keys of one node that still have exactly the value that FindOwned
// read, and returns them. If it fails, it may have deleted more.
func Free(ctx context.Context, node Endpoint, owned []Owned) (freed []Owned, err error) {
	ctx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	c, err := dial(ctx, node)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if _, err := c.do("SCRIPT", "LOAD", script.Release.Source); err != nil {
		return nil, fmt.Errorf("SCRIPT LOAD: %w", err)
	}
	for some := range slices.Chunk(owned, script.MaxKeys) {
		var commands []byte
		for _, o := range some {
			commands = resp.AppendCommand(commands, "EVALSHA", script.Release.SHA, "1",
				node.node.Tag+o.Key, "1", o.value)
		}
		if _, err := c.client.Write(commands); err != nil {
			return freed, err
		}
		for _, o := range some {
			reply, err := c.client.Receive()
			if err = errors.Join(err, reply.Err()); err != nil {
				return freed, fmt.Errorf("EVALSHA: %w", err)
			}
			if reply.Kind == ':' { // else it is a list: the value is another one
				freed = append(freed, o)
			}
		}
	}
	return freed, nil
}
