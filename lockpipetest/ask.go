package lockpipetest

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/resp/resptools"
)

// askTimeout bounds a whole Do, Flush or Keys.
const askTimeout = 10 * time.Second

// limits are above every reply that a test can ask for. A string has 512 MB at most in Redis.
var limits = resp.Limits{Line: 64 << 10, Bytes: 512 << 20, Items: 1 << 26}

// Do sends one command to node i over a new connection of its own and returns the reply: a string,
// an int64, nil, or a []any of these. An error reply of the server is returned as an error whose
// text is that reply; inside an array it is an element of type error. Do gives up after 10 seconds.
// So it returns an error if the node stays frozen; the node may execute the command later.
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
	return resptools.Any(reply), nil
}

// Flush removes all keys of node i, in all databases (FLUSHALL). Scripts stay. It gives up after 10
// seconds.
func (n *Nodes) Flush(i int) error {
	_, err := n.Do(i, "FLUSHALL")
	return err
}

// Keys returns the keys of node i, database 0, that start with prefix: all of them for the empty
// prefix. The prefix is plain text, not a pattern. The keys are sorted, each once. Keys reads with
// SCAN, so a key that is set or deleted meanwhile may be missing or present. It gives up after 10
// seconds.
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
	c, err := dial(nd.port.addr, askTimeout)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	keys := []string{}
	if err := resptools.Scan(c, func(key string) {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}, "COUNT", "1000"); err != nil {
		return nil, err
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// dial connects to addr. The connection works until timeout has passed.
func dial(addr string, timeout time.Duration) (*resp.Conn, error) {
	end := time.Now().Add(timeout)
	conn, err := (&net.Dialer{Deadline: end}).Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(end); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return resp.NewConnWithin(conn, limits), nil
}

// ask sends one command to addr and returns its reply.
func ask(addr string, timeout time.Duration, args ...string) (resp.Value, error) {
	c, err := dial(addr, timeout)
	if err != nil {
		return resp.Value{}, err
	}
	// Every command that was sent has its reply, or an error is returned already.
	defer func() { _ = c.Close() }()
	return c.Ask(args...)
}
