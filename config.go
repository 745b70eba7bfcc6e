package lockpipe

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/lockpipe/lockpipe/internal/fleet"
	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/parts"
	"github.com/lockpipe/lockpipe/internal/prefix"
	"github.com/lockpipe/lockpipe/multiplex"
)

const (
	defaultTTL         = 10 * time.Second
	defaultNodeTimeout = 50 * time.Millisecond
	// minTTL leaves some validity after the drift allowance and a round trip.
	minTTL = 10 * time.Millisecond
	// minNodeTimeout is longer than the usual pause of the client's own process.
	minNodeTimeout = time.Millisecond
	// maxMaxTTL bounds every sum with a TTL or a NodeTimeout, which is never longer than a TTL.
	// Twice MaxTTL is far from 64 bits of nanoseconds. An attempt counts up to half of its TTL in
	// milliseconds, in 32 bits. No lock needs more: a node that forgot its locks does not vote
	// for MaxTTL.
	maxMaxTTL = 90 * 24 * time.Hour
	// A waiting call retries after a random time between these two.
	defaultMinDelay = 10 * time.Millisecond
	defaultMaxDelay = 60 * time.Millisecond
	// longestDelay replaces every longer time between two attempts. Eight times as much fits into
	// 64 bits.
	longestDelay = 10 * 365 * 24 * time.Hour
)

// NoOwner as Config.Owner keeps no name with the locks: nobody can see who holds them, and tokens
// are shorter.
const NoOwner = "-"

// Config says which nodes a Client uses, and how. Only Nodes is required, or Groups: the zero value
// of each other field is a good default.
type Config struct {
	// Nodes has one URL for each independent master, in an odd number such as 3 or 5:
	// redis://user:pass@host:6379/0, rediss:// for TLS, unix:///path, or host:port. valkey:// and
	// valkeys:// mean the same as redis:// and rediss://. At most 64.
	// docs/operations.md lists what else a URL may have.
	//
	// For a master that Sentinel watches, give the addresses of its sentinels and its name:
	//
	//	redis://user:pass@sentinel1:26379/0?addr=sentinel2:26379&addr=sentinel3:26379&master_set=mymaster
	//
	// The user and password before the @ are the master's. The sentinels' own are the parameters
	// sentinel_user and sentinel_password. After a failover the new master has no vote for MaxTTL
	// and some four seconds more.
	//
	// One Redis Cluster is the only entry, as redis://host:6379?cluster=3 for three of its masters.
	Nodes []string
	// Groups are given instead of Nodes if one group of nodes is not enough: a group does each lock
	// on each of its nodes, so its limit is that of one server. A key goes to the group with the
	// highest rendezvous weight of the group's name and the key, or of the part of the key in
	// {braces}, if it has one. So keys of one basket can be kept together. A lease may have keys of
	// several groups: it needs a quorum of each, which costs no more round trips. All clients need
	// the same groups. The order does not matter. At most 64.
	Groups []Group
	// Next are the groups that the fleet is moving to: other nodes, more of them, or more groups.
	// While it is set, a key needs a quorum of its group in Groups (or of Nodes) and one of its
	// group in Next. docs/moving.md has the two deploys of a move.
	Next []Group
	// TTL is the lease time of calls without WithTTL: 10 s, or MaxTTL if that is less. It is at
	// least 10 ms, and is rounded down to whole milliseconds.
	TTL time.Duration
	// NodeTimeout is how long an attempt waits for a node's answer. The default is 50 ms, or TTL if
	// that is less. New refuses less than 1 ms and more than TTL. An attempt for more than 1,000
	// keys waits that long for each 1,000. No attempt to acquire or to extend waits longer than
	// half of its TTL.
	NodeTimeout time.Duration
	// MaxTTL is the longest TTL that any client of these nodes uses: by default TTL, and at most 90
	// days. A call with a longer TTL returns ErrInvalid. A node that may have forgotten locks does
	// not vote for the longest MaxTTL of all clients: each leaves its own on the nodes. A server
	// that restarts and a promoted replica are such nodes. All clients should use the same MaxTTL:
	// if all nodes lose their memory, clients with a shorter MaxTTL don't know of the longest.
	MaxTTL time.Duration
	// RestartGuard keeps a node from voting while locks that it may have forgotten can still be
	// valid: GuardAuto by default. All clients of the same nodes and Prefix should use the same
	// mode. The guard sets the key "lockpipe:admitted", behind the Prefix, on each node: see
	// docs/restart-guard.md.
	RestartGuard GuardMode
	// Prefix is put before every key on the nodes. Neither it nor a key may begin with "lockpipe:".
	// Such names, behind the Prefix, are the Client's own. Prefix and key together may not contain
	// a name that clients with another Prefix use for themselves: "lockpipe:admitted",
	// "lockpipe:fences", "lockpipe:layouts" or "lockpipe:none:".
	Prefix string
	// Owner says who has the locks of this Client. It is kept with each lock on the nodes, behind
	// the random part of the token. By default it is the name of the host and the id of the
	// process, such as "web-3:4711". NoOwner keeps none. It has at most 80 bytes, each a letter,
	// digit or punctuation of ASCII: it goes to every node with every lock. Everybody who may read
	// the keys can see it. It is in no metric, and in no log line but about other clients.
	Owner string
	// TLS is used for rediss:// nodes and for nodes given as host:port, and New refuses redis://
	// with it; nil means the system's roots for rediss:// and no TLS for host:port.
	TLS *tls.Config
	// Credentials returns the user and password for the next connection to a node, such as a token
	// that is valid for some minutes. If it is set, the URLs must have none. node is what
	// NodeStatus.Addr shows. The Client calls it on a goroutine, before each connect and never
	// twice at the same time for one node. After an error or a panic the node is down. ctx ends
	// after three seconds, or when Close ends the connections; if the call does not return then, it
	// is left as a call of Dial is. While a node is down or quarantined, there may be several calls
	// a second, so keep a token while it is valid. A connection outlasts its token.
	Credentials func(ctx context.Context, node string) (user, password string, err error)
	// Dial opens the connections, for tests and tunnels; nil for a net.Dialer. network is tcp or
	// unix. The Client and Inspect each call it on a goroutine of their own, for each connection.
	// ctx ends after DialTimeout, or when Close ends the connections, and Dial should return then.
	// If it does not, the node is down, NodeStatus.Err says why, and there is no further call for
	// the node until it returns. Close does not wait for it. A late connection is closed. The stack
	// of a panic is logged, once for each node. The same holds for each sentinel.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// DialTimeout bounds one connect to a node or a sentinel: the look-up of its name, the dial,
	// TLS, the login and the restart guard. The default is 5 s, the least 1 ms. A node that was not
	// connected in time is down. NodeStatus.Err says how long each step took.
	DialTimeout time.Duration
	// Logger gets a line when a node is lost, quarantined or back, and when leases are lost. While
	// calls wait and no quorum can be reached, it gets one each minute. nil is slog.Default.
	Logger *slog.Logger
	// OnLost is called once for each lease that ended with ErrLost or ErrExpired before Release or
	// Close. Its error is how the lease ended. The call may come before the acquiring call has
	// returned the lease. Up to 64 calls run at the same time, on goroutines of the Client. While
	// one blocks, other calls run; while all block, up to a million more wait. A panic is logged
	// with its stack. OnLost may use the Client, and may close it: Close does not wait for OnLost.
	OnLost func(*Lease, error)
}

// Group is a group of independent nodes. A lock on a key of the group needs a quorum of them.
type Group struct {
	// Name is what places keys: see Config.Groups. It has at most 64 bytes, and stays the same
	// when nodes are replaced.
	Name string
	// Nodes are the URLs of the nodes: see Config.Nodes.
	Nodes []string
}

// read returns cfg with its defaults, and its nodes. The error is ErrInvalid and names the field.
func (cfg Config) read() (Config, *parts.Nodes, error) {
	cfg, err := cfg.validated()
	if err != nil {
		return cfg, nil, err
	}
	nodes, err := parts.Read(parts.Config{
		Config: multiplex.Config{
			NodeTimeout: cfg.NodeTimeout, TTL: cfg.TTL, MaxTTL: cfg.MaxTTL, Prefix: cfg.Prefix,
			Dial: cfg.Dial, Credentials: cfg.Credentials, Logger: cfg.Logger,
			Guard: guard.Mode(cfg.RestartGuard),
		},
		Nodes: cfg.Nodes, TLS: cfg.TLS, DialTimeout: cfg.DialTimeout,
		Groups: fleet.Groups(cfg.Groups), Next: fleet.Groups(cfg.Next), Owner: cfg.Owner,
	})
	if err != nil {
		err = invalid("%w", err)
	}
	return cfg, nodes, err
}

// validated returns cfg with its defaults, or an error that is ErrInvalid and names the field.
// Package parts checks the nodes.
func (cfg Config) validated() (Config, error) {
	var err error
	positive := func(name string, value *time.Duration, standard time.Duration) {
		switch {
		case *value < 0:
			err = invalid("Config.%s is %v: give a positive time, or 0 for the default", name,
				*value)
		case *value == 0:
			*value = standard
		}
	}
	given := cfg
	standard := defaultTTL
	if cfg.MaxTTL > 0 {
		standard = min(standard, cfg.MaxTTL)
	}
	positive("TTL", &cfg.TTL, standard)
	positive("MaxTTL", &cfg.MaxTTL, cfg.TTL)
	// A TTL is sent in whole milliseconds.
	cfg.TTL, cfg.MaxTTL = cfg.TTL.Truncate(time.Millisecond), cfg.MaxTTL.Truncate(time.Millisecond)
	positive("NodeTimeout", &cfg.NodeTimeout, min(defaultNodeTimeout, cfg.TTL))
	positive("DialTimeout", &cfg.DialTimeout, 5*time.Second)
	switch {
	case err != nil:
		return cfg, err
	case cfg.RestartGuard < GuardAuto || cfg.RestartGuard > GuardOff:
		return cfg, invalid("Config.RestartGuard is %v: give GuardAuto, GuardStrict or GuardOff",
			cfg.RestartGuard)
	case ids.PrefixFlaw(cfg.Prefix) != "":
		return cfg, invalid("Config.Prefix is %.64q, and %s", cfg.Prefix, ids.PrefixFlaw(cfg.Prefix))
	case given.MaxTTL > maxMaxTTL:
		return cfg, invalid("Config.MaxTTL is %v: give at most %v, and hold longer with "+
			"WithAutoExtend", cfg.MaxTTL, maxMaxTTL)
	case given.MaxTTL != 0 && cfg.MaxTTL < minTTL:
		return cfg, invalid("Config.MaxTTL is %v: give at least %v%s",
			given.MaxTTL, minTTL, meant(given.MaxTTL, "Second"))
	case cfg.TTL < minTTL:
		return cfg, invalid("Config.TTL is %v: give at least %v%s",
			given.TTL, minTTL, meant(given.TTL, "Second"))
	case cfg.TTL > maxMaxTTL:
		return cfg, invalid("Config.TTL is %v: lower it to at most %v, and hold longer with "+
			"WithAutoExtend", cfg.TTL, maxMaxTTL)
	case cfg.TTL > cfg.MaxTTL:
		return cfg, invalid("Config.TTL is %v, above MaxTTL (%v): lower it, or raise MaxTTL in "+
			"every client", cfg.TTL, cfg.MaxTTL)
	case cfg.NodeTimeout < minNodeTimeout:
		return cfg, invalid("Config.NodeTimeout is %v: give at least %v%s",
			cfg.NodeTimeout, minNodeTimeout, meant(cfg.NodeTimeout, "Millisecond"))
	case cfg.NodeTimeout > cfg.TTL:
		return cfg, invalid("Config.NodeTimeout is %v, above TTL (%v): an attempt would outlive "+
			"its lease: lower it to at most TTL", cfg.NodeTimeout, cfg.TTL)
	case cfg.DialTimeout < minNodeTimeout, cfg.DialTimeout > maxMaxTTL:
		return cfg, invalid("Config.DialTimeout is %v: give at least %v and at most %v%s",
			cfg.DialTimeout, minNodeTimeout, maxMaxTTL, meant(cfg.DialTimeout, "Second"))
	case ids.OwnerFlaw(cfg.Owner) != "":
		return cfg, invalid("Config.Owner is %.96q, which %s: give at most %d letters, digits and "+
			"punctuation marks, or NoOwner", cfg.Owner, ids.OwnerFlaw(cfg.Owner), ids.MaxOwner)
	}
	switch cfg.Owner {
	case "":
		cfg.Owner = ids.ThisProcess()
	case NoOwner:
		cfg.Owner = ""
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	return cfg, nil
}

// unitless reports whether a duration looks like a number without a unit.
func unitless(d time.Duration) bool { return d > 0 && d < time.Microsecond }

// meant asks whether a duration that looks like a number was meant in this unit.
func meant(d time.Duration, unit string) string {
	if !unitless(d) {
		return ""
	}
	return fmt.Sprintf("; did you mean %d*time.%s?", d.Nanoseconds(), unit)
}

// invalid returns an error that is ErrInvalid.
func invalid(format string, args ...any) error {
	return prefix.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}
