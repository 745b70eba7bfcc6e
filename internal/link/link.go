// Package link keeps one connection to one master, and says whether what comes over it counts. It
// is the only package that imports rueidis.
//
// A Link has a connector, the goroutine in Run. Only the connector dials, and only the restart
// guard admits a connection. Over the connection go trips (Conn.Trips): those of the owner, and
// rare ones of the connector. The owner hears of each change of the state.
//
// The newest connection is Current. What is sent while the connector makes a new one may use the
// new one already. So the owner asks for Verified before it sends, and for StillValid when it has
// the answers: nothing in between has made them worthless.
package link

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockpipe/lockpipe/internal/cluster"
	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/fleet"
	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/sentinel"
	"github.com/redis/rueidis"
)

// Config says which master a Link leads to. Everything but Credentials and Dial is required.
type Config struct {
	Endpoint *endpoint.Endpoint
	// Index is that of the node among Peers.
	Index int
	// Peers is what the restart guards of all nodes share.
	Peers *guard.Peers
	// Fleet is what the client leaves on nodes, and knows of others.
	Fleet *fleet.Fleet
	// Guard is what the restart guard does.
	Guard guard.Mode
	// Prefix is put before the names of the keys that the guard sets, behind the endpoint's Tag.
	Prefix string
	// Clusters are those of the nodes. It is required for nodes in a Redis Cluster.
	Clusters *cluster.Clusters
	// MaxTTL is the longest TTL of a lock.
	MaxTTL time.Duration

	Credentials endpoint.CredentialsFunc
	Dial        endpoint.DialFunc
	Logger      *slog.Logger
	Owner       Owner
}

// Owner hears what happens to a Link. Run calls all methods but Invalidated.
type Owner interface {
	// StateChanged takes a change of the state. It must not block.
	StateChanged(before, after State)
	// Connected is called when answers on a new connection count, before the state is Up. So it is
	// the first to send.
	Connected()
	// NotConnected is called after each try to connect that failed.
	NotConnected()
	// Work does what is due on a connection in use, and returns after what time to call it again:
	// 0 for at once. Wake has it called sooner.
	Work(ctx context.Context) time.Duration
	// Invalidated takes keys that have changed; nil stands for all keys. It is called while a
	// connection is read or closed, and must not block.
	Invalidated(keys []string)
}

// Link leads to one master. All methods are safe for concurrent use, unless they say otherwise.
type Link struct {
	cfg      Config
	logins   *endpoint.Logins // with passwords, which no error may show
	masters  endpoint.Masters // nil if the endpoint is the master's own
	client   rueidis.Client
	probeKey string // a key that this node alone sets

	current      atomic.Pointer[Conn]
	disconnected chan struct{} // of capacity 1: the connection was closed
	woken        chan struct{} // of capacity 1: the owner has work
	renewSoon    chan struct{} // of capacity 1: the layout entry is to be renewed

	// Owned by the connector:
	guard   *guard.Guard
	layouts *fleet.Node
	dialer  *endpoint.Dialer
	policy  string // of the servers' memory, as the log has it

	state atomic.Int32 // a State; written under mu

	mu          sync.Mutex    // guards all below; a leaf
	err         error         // why it is down, quarantined or failing, or its connection was lost
	connectDone chan struct{} // open while connecting
	master      string        // that masters have named last; "" before the first
	causes      causes
}

// New returns a Link without a connection, in state Connecting. Run connects it.
func New(cfg Config) (*Link, error) {
	e := cfg.Endpoint
	cfg.Prefix = e.Tag + cfg.Prefix
	l := &Link{
		cfg: cfg, connectDone: make(chan struct{}), disconnected: make(chan struct{}, 1),
		woken: make(chan struct{}, 1), renewSoon: make(chan struct{}, 1),
		probeKey: cfg.Prefix + ids.ProbeKey + rand.Text(),
		logins:   endpoint.NewLogins(e, cfg.Credentials, cfg.Logger),
		dialer:   endpoint.NewDialer(e, cfg.Dial, cfg.Logger),
	}
	deposedFor := time.Duration(0)
	switch {
	case e.Cluster > 0:
		l.masters = cfg.Clusters.Slot(l.logins, cfg.Dial, cfg.Logger)
		deposedFor = cluster.DeposedFor
	case e.MasterSet != "":
		l.masters = sentinel.New(e, cfg.MaxTTL, cfg.Dial, cfg.Logger)
		deposedFor = sentinel.DeposedFor
	}
	l.newGuard(deposedFor)
	option := clientOption(e)
	option.DialCtxFn = l.dial
	var err error
	if l.client, err = rueidis.NewClient(option); l.client != nil {
		err = nil // it is ErrNotConnected: nothing may dial yet
	}
	return l, err
}

// newGuard makes the restart guard of the node, and what the client leaves and reads of layouts.
// extra is for how long a client may use an old master after another client has seen the new one: a
// quarantine lasts that much longer.
func (l *Link) newGuard(extra time.Duration) {
	cfg := &l.cfg
	l.layouts = cfg.Fleet.Node(fleet.NodeConfig{
		Name: cfg.Endpoint.LayoutName(), Key: cfg.Prefix + ids.LayoutsKey,
		Wait: cfg.MaxTTL + extra, RenewSoon: l.RenewSoon,
	})
	l.guard = cfg.Peers.Guard(guard.Config{
		Node: cfg.Index, Name: l.Name(), Key: l.guardKey(), Strict: cfg.Guard == guard.Strict,
		Extra: extra, InCluster: cfg.Endpoint.Cluster > 0, Layouts: l.layouts, Logger: cfg.Logger,
	})
}

// guardKey returns the restart guard's key; "" if the guard is off.
func (l *Link) guardKey() string {
	if l.cfg.Guard == guard.Off {
		return ""
	}
	return l.cfg.Prefix + ids.AdmittedKey
}

// Logins returns what the client authenticates with at the node, for further connections.
func (l *Link) Logins() *endpoint.Logins { return l.logins }

// Name returns what errors and logs call the node.
func (l *Link) Name() string { return l.cfg.Endpoint.Name }

// Addr returns the name, and behind it the server that has the node's slot, if it is in a cluster.
func (l *Link) Addr() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cfg.Endpoint.Cluster > 0 && l.master != "" {
		return l.cfg.Endpoint.MasterSet + "@" + l.master
	}
	return l.Name()
}

// Tag returns what each key on the node begins with; "" unless it is in a cluster.
func (l *Link) Tag() string { return l.cfg.Endpoint.Tag }

// Close closes the connection, when what is under way was answered or after a second. Run has
// returned before: rueidis comes to life again when a dial ends after its Close.
func (l *Link) Close() { l.client.Close() }

// Wake has Owner.Work called soon, if the node is connected.
func (l *Link) Wake() { Notify(l.woken) }

// RenewSoon has the layout entry renewed soon, if the node is connected.
func (l *Link) RenewSoon() { Notify(l.renewSoon) }

// Current returns the newest connection, which may be closed; nil before the first.
func (l *Link) Current() *Conn { return l.current.Load() }

// Verified returns the current connection if it is verified, for StillValid after the answers; else
// nil. It returns nil too if too few servers of a cluster have named the owner lately. That is
// decided before something is sent: a lease is valid from then, whenever the server executes it.
func (l *Link) Verified() *Conn {
	if l.masters != nil && !l.masters.Confirmed() {
		return nil
	}
	if c := l.current.Load(); c.Verified() {
		return c
	}
	return nil
}

// StillValid reports whether an answer counts: nothing has happened to the connection since
// Verified returned it.
func (l *Link) StillValid(sent *Conn) bool { return sent.Verified() && l.current.Load() == sent }

// Hide returns the error without the node's passwords. A quarantine is in the client's own words,
// and stays one.
func (l *Link) Hide(err error) error {
	var own *guard.Quarantine
	if errors.As(err, &own) {
		return err
	}
	return l.logins.Hide(err)
}

// onPush takes what the server of a connection reports: keys that have changed. Null stands for all
// keys. It runs on the goroutine that reads from the node.
func (l *Link) onPush(c *Conn, push resp.Value) {
	if len(push.Items) != 2 || push.Items[0].Text != "invalidate" {
		return
	}
	if push.Items[1].Null {
		l.onDataLoss(c)
		l.cfg.Owner.Invalidated(nil)
		return
	}
	keys := push.Items[1].Texts()
	for _, key := range keys {
		if key != "" && key == l.guardKey() {
			l.onDataLoss(c)
		}
	}
	if len(keys) > 0 {
		l.cfg.Owner.Invalidated(keys)
	}
}

// onDataLoss gives a connection up, because the server reported that it was flushed, or that the
// guard's key has changed.
func (l *Link) onDataLoss(c *Conn) {
	if c.Server.Memory != "" {
		c.Abandon()
	} else { // nothing guards the node; but its layout entry is gone
		l.RenewSoon()
	}
}

// onClose runs when a connection was closed: its server reports no changes any more.
func (l *Link) onClose() {
	l.cfg.Owner.Invalidated(nil)
	Notify(l.disconnected)
}

// Notify sends on a channel of capacity 1, if that is empty.
func Notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
