package fleet

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe/internal/layout"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
)

const (
	// renewEvery is how often a client renews its entry on a node, at least.
	renewEvery = 30 * time.Second
	// outlasts is how much longer than MaxTTL an entry lasts. A client may take a lock until just
	// before it would renew its entry, and that lock lasts for MaxTTL. So an entry has to last for
	// MaxTTL and renewEvery after the last renewal. The rest is for a renewal that fails, and for
	// the ten seconds within which script.Layouts renews nothing.
	outlasts = 3 * renewEvery
)

// NodeConfig is what a Fleet knows of one node.
type NodeConfig struct {
	// Name is the node's address in the log.
	Name string
	// Key is that of the layouts in use.
	Key string
	// MaxTTL is how long a lock of the client lasts at most.
	MaxTTL time.Duration
	// RenewSoon lets Renew be called soon. Abandon gives up the connection that there is: votes on
	// it count no longer. Any goroutine may call them. They must not block.
	RenewSoon, Abandon func()
}

// Node is one node of a Fleet. The goroutine that connects the node owns it. Any goroutine may call
// Refuses. A nil Node leaves and reads nothing.
type Node struct {
	fleet  *Fleet
	config NodeConfig
	warned bool // that the layouts can't be kept there

	// foreign has the foreign entries that the node showed last, and when they end. Guarded by
	// Fleet.mu; no map changes once it is here.
	foreign map[string]time.Time
}

// Node adds a node. Others may be in use already: those of another group. f may be nil, and so is
// the Node then.
func (f *Fleet) Node(c NodeConfig) *Node {
	if f == nil {
		return nil
	}
	n := &Node{fleet: f, config: c}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes = append(f.nodes, n)
	return n
}

// Key returns the key of the layouts in use; "" for a nil Node.
func (n *Node) Key() string {
	if n == nil {
		return ""
	}
	return n.config.Key
}

// Admit leaves the client's entry on a server that is about to be admitted, and reads the others.
// The error is that of the connection, or a *restartguard.Quarantine.
func (n *Node) Admit(c *resp.Conn) error {
	if n == nil {
		return nil
	}
	take := func(v resp.Value) error {
		text, isString := v.AsString()
		switch err := v.Err(); {
		case err != nil:
			n.Failed(err)
		case !isString:
			n.Failed(errNoText)
		default:
			n.take(text)
		}
		return nil
	}
	for {
		args, leaves := n.args()
		run := append([]string{"EVALSHA", script.Layouts.SHA, "1", n.config.Key}, args...)
		if err := c.Do(resp.Step{Command: run, OnReply: take}); err != nil {
			return err
		}
		// If this reply is the first without foreign entries, the client's is still to be left.
		if err := n.Refuses(); err != nil || leaves {
			return err
		}
	}
}

// errNoText is the error of a script that replied with something else.
var errNoText = errors.New("the script replied with no text")

// Renew leaves the client's entry on the admitted server for longer, and reads the others. run runs
// a script that replies with a text. If a strict client has to stay out, the connections to all
// nodes are given up. After an error nothing is known.
func (n *Node) Renew(ctx context.Context, run func(ctx context.Context, s *script.Script,
	keys, args []string) (string, error),
) error {
	if n == nil {
		return nil
	}
	args, _ := n.args()
	text, err := run(ctx, script.Layouts, []string{n.config.Key}, args)
	if err == nil {
		n.take(text)
	}
	return err
}

// args returns the arguments of script.Layouts. leaves is false if it is known already that the
// client has to stay out.
func (n *Node) args() (args []string, leaves bool) {
	lasts, yields := n.config.MaxTTL+outlasts, ""
	if n.fleet.strict {
		yields = "1"
	}
	if leaves = n.Refuses() == nil; !leaves {
		lasts = 0
	}
	return []string{n.fleet.own, strconv.FormatInt(lasts.Milliseconds(), 10), yields}, leaves
}

// take takes the reply of script.Layouts.
func (n *Node) take(text string) {
	n.warned = false
	appeared := n.fleet.record(n, layout.ParseEntries(text), time.Now())
	out := n.Refuses() != nil
	for _, other := range n.fleet.all() {
		if out {
			other.config.Abandon()
		} else if appeared && other != n {
			other.config.RenewSoon()
		}
	}
}

// Refuses returns a *restartguard.Quarantine if a strict client has to stay out; else nil. The
// client calls it again when Abandon reaches a new connection, and before votes on it count: an
// entry may have appeared on another node after Admit.
func (n *Node) Refuses() error {
	if n == nil {
		return nil
	}
	return n.fleet.quarantine()
}

// UntilRenewal returns after what time to call Renew again. It is random, so that the clients of a
// node do not come all at once.
func (n *Node) UntilRenewal() time.Duration {
	if n != nil && n.fleet.awaitsLog() {
		return sightingTime
	}
	return renewEvery/2 + rand.N(renewEvery/2)
}

// Failed logs an error that the server answered, once until it answers otherwise.
func (n *Node) Failed(err error) {
	if n.warned {
		return
	}
	n.warned = true
	n.fleet.logger.Warn("lockpipe: the layouts in use can't be kept on the node: a client that "+
		"uses other nodes may go unnoticed",
		slog.String("node", n.config.Name), slog.Any("error", err))
}
