package fleet

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
)

const (
	// renewEvery is how often a client renews its entry on a node, at least.
	renewEvery = 30 * time.Second
	// margin is how much too early a client gives a node up. script.Layouts renews nothing within
	// ten seconds, clocks differ, and the client looks at FreshUntil each half minute.
	margin = time.Minute
)

// NodeConfig is what a Fleet knows of one node.
type NodeConfig struct {
	Name      string        // in Config.Layouts
	Key       string        // of the layouts in use
	Wait      time.Duration // MaxTTL, or longer: see Entry.WaitMillis
	RenewSoon func()        // lets Renew be called soon. It is called on any goroutine.
}

// Node is one node of a Fleet. The goroutine that connects the node owns it.
type Node struct {
	fleet  *Fleet
	config NodeConfig
	field  string // the name of the client's entry
	warned bool   // that the entry is not renewed

	// The owner writes these under Fleet.mu:
	server Server // RunID is "" while the client is not connected
	heard  Heard
}

// Heard is what the client has heard last of the entries on a node. The zero value is nothing.
type Heard struct {
	RunID string    // of the server; "" if it does not show it
	At    time.Time // before the server was asked
	// MaxTTL is the longest of all clients that have entries there, and Wait is how long the node
	// has to wait for them: some seconds more, if a Sentinel names the node for one of them.
	MaxTTL, Wait time.Duration
}

// Node adds a node. Others may be in use already: those of another group.
func (f *Fleet) Node(c NodeConfig) *Node {
	n := &Node{fleet: f, config: c, server: Server{Node: c.Name}, field: inJSON(Entry{
		WaitMillis: c.Wait.Milliseconds(), MaxTTLMillis: f.config.MaxTTL.Milliseconds(),
		Layouts: f.config.Layouts,
	})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes, f.servers = append(f.nodes, n), append(f.servers, &n.server)
	return n
}

// Admit leaves the client's entry on a server before its first vote, and reads those of others.
// runID is the server's; "" if it does not show it. The error is why the server must not be used.
func (n *Node) Admit(c *resp.Conn, runID string) error {
	asked := time.Now()
	command := []string{"EVALSHA", script.Layouts.SHA, "1", n.config.Key}
	v, err := c.Ask(append(command, n.args(runID)...)...)
	if err != nil && v.Kind == 0 { // no reply came
		return err
	}
	return n.take(runID, asked, v.Texts(), err)
}

// Renew leaves the client's entry on the admitted server for longer, and reads those of others. run
// runs script.Layouts: refusal is the error that the server replied with, and err is why no reply
// came. After an error nothing is known, and Heard and FreshUntil are as before. The log has only
// what the server replied: the connector logs a connection that was lost.
func (n *Node) Renew(
	run func(key string, args []string) (texts []string, refusal, err error),
) error {
	asked := time.Now()
	texts, refusal, err := run(n.config.Key, n.args(n.server.RunID))
	if err != nil {
		return err
	}
	err = n.take(n.server.RunID, asked, texts, refusal)
	if err != nil && !n.warned {
		n.warned = true
		n.fleet.config.Logger.Warn("lockpipe: if that goes on, the node will not vote",
			slog.String("node", n.config.Name), slog.Any("error", err))
	}
	return err
}

// take takes the reply of script.Layouts, or the error that the server replied with. runID is the
// server's.
func (n *Node) take(runID string, asked time.Time, texts []string, err error) error {
	serverMillis := int64(0)
	if err == nil {
		serverMillis, err = strconv.ParseInt(append(texts, "")[0], 10, 64)
	}
	if err != nil {
		return fmt.Errorf("the layouts in use can't be kept in the key %q, which needs "+
			"+evalsha +hgetall +hset +hdel +pexpire +time: %w", n.config.Key, err)
	}
	entries := ParseEntries(texts[1:], serverMillis, asked)
	heard := Heard{runID, asked, n.fleet.config.MaxTTL, n.config.Wait}
	for i := range entries {
		heard.Wait = max(heard.Wait, entries[i].Wait())
		heard.MaxTTL = max(heard.MaxTTL, entries[i].MaxTTL())
	}
	learned := n.server.RunID != runID
	n.fleet.mu.Lock()
	if n.heard.RunID != "" && n.heard.RunID != runID {
		n.server.Since = time.Now()
	}
	n.heard, n.server.RunID, n.server.Entries = heard, runID, entries
	appeared, log := n.fleet.look()
	n.fleet.mu.Unlock()
	n.warned = false
	for _, line := range log {
		line()
	}
	if appeared || learned {
		n.renewOthers()
	}
	return nil
}

// args returns the arguments of script.Layouts. runID is that of the server.
func (n *Node) args(runID string) []string {
	f, ids := n.fleet, make(map[string]string)
	f.mu.Lock()
	for _, s := range f.servers {
		if s.RunID != "" && f.config.Layouts != nil {
			ids[s.Node] = s.RunID
		}
	}
	f.mu.Unlock()
	ids[n.config.Name] = runID
	lasts := strconv.FormatInt((n.config.Wait + outlasts).Milliseconds(), 10)
	return []string{n.field, lasts, f.config.Owner, inJSON(ids)}
}

// Left records that there is no connection, also if Admit has just seen one that nobody uses.
// Another server may have the node's name next.
func (n *Node) Left() {
	knew := n.server.RunID != ""
	n.fleet.mu.Lock()
	n.server.RunID = ""
	n.fleet.mu.Unlock()
	if knew {
		n.renewOthers()
	}
}

// renewOthers has the entries on all other nodes renewed soon.
func (n *Node) renewOthers() {
	n.fleet.mu.Lock()
	all := n.fleet.nodes // of which no element changes
	n.fleet.mu.Unlock()
	for _, other := range all {
		if other != n {
			other.RenewSoon()
		}
	}
}

// RenewSoon lets Renew be called soon. Any goroutine may call it, as Heard.
func (n *Node) RenewSoon() { n.config.RenewSoon() }

// Heard returns what was heard last.
func (n *Node) Heard() Heard {
	n.fleet.mu.Lock()
	defer n.fleet.mu.Unlock()
	return n.heard
}

// FreshUntil returns until when the node's votes count, as far as the client's entry is concerned:
// up to then it outlasts every lock that the client takes. A renewal moves it on. Any goroutine may
// call it.
func (n *Node) FreshUntil() time.Time {
	return n.Heard().At.Add(outlasts - margin)
}

// UntilRenewal returns after what time to call Renew again. It is random, so that the clients of a
// node do not come all at once.
func (n *Node) UntilRenewal() time.Duration {
	n.fleet.mu.Lock()
	defer n.fleet.mu.Unlock()
	for _, since := range n.fleet.seen {
		if !since.IsZero() { // it is to be logged
			return sightingTime
		}
	}
	return renewEvery/2 + rand.N(renewEvery/2)
}
