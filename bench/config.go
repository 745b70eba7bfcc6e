package bench

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench/faults"
	"github.com/lockpipe/lockpipe/bench/nodes"
	"github.com/prometheus/client_golang/prometheus"
)

// Scenario is what each caller does repeatedly.
type Scenario string

const (
	// Single tries to take one random key, without waiting for a holder.
	Single Scenario = "single"
	// Batch takes Config.Batch distinct random keys as one lease, and waits until none of them is
	// held.
	Batch Scenario = "batch"
	// Each tries to take Config.Batch distinct random keys in one call, each with a lease of its
	// own.
	Each Scenario = "each"
	// Hot waits for one random key out of very few, so that nearly every caller queues.
	Hot Scenario = "hot"
	// Cart waits for one hot key and Config.Others distinct random keys, as one lease: orders that
	// overlap, each with something else. Config.Cold more callers wait for one random key each.
	Cart Scenario = "cart"
	// Combine asks for the same keys as Cart, through a combine.Combiner of each Client: calls that
	// overlap are served together. A batch takes Config.Hold, and Config.Work for each item.
	Combine Scenario = "combine"
	// Hold takes Config.Leases leases of one key each, once, and keeps them all for Config.Duration
	// by automatic extension.
	Hold Scenario = "hold"
	// Move waits for one random key out of few, while the fleet of Clients moves from the first
	// half of the nodes to the second: the Clients are replaced one after the other, first by some
	// that need both halves, and then by some of the second half alone.
	Move Scenario = "move"
)

var scenarios = []Scenario{Single, Batch, Each, Hot, Cart, Combine, Hold, Move}

const (
	// maxCallers is how many calls at the same time one Client is sure to take.
	maxCallers = 16384
	// maxKeys bounds the memory for key names and their ownership: about 60 bytes a key.
	maxKeys = 10_000_000
	// maxLeases bounds the memory for leases, of which each costs more than a key.
	maxLeases = 10_000_000
	// maxDuration is far below the longest time that the ownership checker can express.
	maxDuration = 1000 * time.Hour
	// minTTL and maxTTL bound the TTL of a run.
	minTTL = 10 * time.Millisecond
	maxTTL = 60 * time.Second
)

// Config says what to run. DefaultConfig returns one to start from. Run refuses a Config that
// Validate refuses.
type Config struct {
	// Nodes is "local:N" for N redis-servers that the run starts, or nodes in this process if there
	// is no redis-server; "inprocess:N" for nodes in this process; "cluster:N" for the masters of a
	// Redis Cluster, each with a replica; or the URLs of nodes with commas between them.
	Nodes string
	// Groups is how many groups of one size the nodes are divided into, in their order: g1, g2 and
	// so on. Each key belongs to one of them. 1 is a single group, which has no name. In the
	// scenario Move each half of the nodes has so many.
	Groups int
	// Scenario is what each caller does.
	Scenario Scenario
	// Callers is how many goroutines call at the same time, in total. The scenario Hold has a
	// number of its own, and Cart has Cold callers more.
	Callers int
	// Clients is how many independent Clients share the callers, as separate processes would.
	Clients int
	// Duration is how long callers start new calls. In the scenario Hold it is how long everything
	// is kept, counted from when it is held.
	Duration time.Duration
	// Rate is 0 for a closed loop: each caller calls again as soon as its call is over. Otherwise
	// it is how many calls a second become due, whatever the nodes do. The latency of a call then
	// counts from when it was due. The scenario Hold has none, and the Cold callers of Cart are
	// always a closed loop.
	Rate float64
	// Keys is the size of the key space, in Hot the number of hot keys. In Cart the hot keys are
	// not among them. Hold does not use it.
	Keys int
	// Hot, Others and Cold are for the scenarios Cart and Combine alone. Hot is the number of hot
	// keys, of which each call asks for a random one. Others is the number of keys that it asks for
	// in addition. Cold is how many callers there are in addition that ask for one of Keys each.
	Hot, Others, Cold int
	// Batch is the number of keys a call, in the scenarios Batch and Each.
	Batch int
	// Hold is how long a caller keeps what it was granted, in the scenario Combine a batch. The
	// scenario Hold does not use it. Work is the time for each item of a batch in addition, in the
	// scenario Combine alone.
	Hold, Work time.Duration
	// Leases is how many leases the scenario Hold keeps at the same time.
	Leases int
	// AutoExtend is the longest time for which the Client extends each lease automatically, or 0
	// for no extension. The scenario Hold has a time of its own. The check for violations uses the
	// end that a lease had when it was granted, so it may miss two holders of one key after the
	// first TTL.
	AutoExtend time.Duration
	// Fencing is whether every lock is taken with fencing, and its fence compared with earlier
	// ones. Nodes that are there already then keep the fences: 6 MB at most.
	Fencing bool
	// TTL is the lease time.
	TTL time.Duration
	// Seed makes the callers' choice of keys repeatable.
	Seed uint64
	// Faults is what happens to nodes that the run starts as redis-servers: items such as
	// freeze:1@2s+3s with commas between them. Each is an action, a node from 1, a time since the
	// first call and, if the action lasts, a duration. A node has one fault at a time. After
	// Duration every fault is reverted. With faults, MaxTTL of the Clients is TTL.
	//
	// Actions with a duration are freeze (SIGSTOP), readonly, oom, busy (a script that never ends),
	// demote and failover. Actions without are kill, restart (empty), flush, scriptflush and reset
	// (all connections are cut). demote makes the node the replica of an older copy of itself, and
	// then a master again. failover gives its role to a replica, and takes it back; new connections
	// lead to the master. every:1s is a random fault at each interval, with less than a quorum of
	// each group out at the same time.
	// In a cluster there are no readonly and demote, but takeover (which asks no server), and with
	// a duration reshard (the slot is on the next node's server) and deposed (by a takeover that
	// the server, cut off from all others but not from Clients, does not notice).
	Faults string
	// FaultSeed makes the random ones repeatable.
	FaultSeed uint64
	// Prefix begins every key of the run. "" stands for one that no other run has. No other client
	// may use it meanwhile.
	Prefix string
	// Metrics, if set, has each Client registered with it during the run and afterwards, with the
	// Client's number as the label client.
	Metrics prometheus.Registerer
	// Progress, if set, is called now and then while the run lasts, by one goroutine, with the time
	// since the start and the number of locks acquired in it.
	Progress func(elapsed time.Duration, locks uint64)

	// Tests set these, because they run on busy machines and next to each other; 0: the default.
	nodeTimeout      time.Duration // of the Clients
	goroutineTimeout time.Duration
	skipBoth         bool // in Move: leave out the Clients that need both halves, which is wrong
}

// DefaultConfig returns the usual Config of a scenario, with seed 0.
func DefaultConfig(s Scenario) Config {
	cfg := Config{
		Nodes:    "local:5",
		Groups:   1,
		Scenario: s,
		Callers:  256,
		Clients:  1,
		Duration: 10 * time.Second,
		Keys:     100_000,
		Batch:    1,
		Leases:   10_000,
		TTL:      10 * time.Second,
	}
	switch s {
	case Hot:
		cfg.Keys = 1
	case Cart, Combine:
		cfg.Hot, cfg.Others = 1, 2
	case Batch:
		// With a smaller key space nearly every call would overlap with another.
		cfg.Batch, cfg.Keys = 100, 1_000_000
	case Each:
		cfg.Batch = 100
	case Move:
		cfg.Nodes, cfg.Clients, cfg.Callers, cfg.Duration = "local:6", 6, 48, time.Minute
		// So few that most calls wait.
		cfg.Keys, cfg.Hold = 16, 2*time.Millisecond
	}
	return cfg
}

// ConfigError is a Config that can't be run. Its text never holds a node's user or password.
type ConfigError struct {
	// Field is the name of the field of Config.
	Field string
	// Value is what the field holds.
	Value string
	// Remedy says what the field should hold.
	Remedy string
}

// Error names the field, its value and the remedy.
func (e *ConfigError) Error() string { return fmt.Sprintf("%s %q: %s", e.Field, e.Value, e.Remedy) }

// requirement notes that a field can't be used with this value, unless ok.
type requirement func(ok bool, field string, value any, remedy string, args ...any)

// Validate returns nil, or a *ConfigError for the first field that can't be used.
func (c Config) Validate() error {
	plan, err := c.parseNodes()
	if err != nil {
		return err
	}
	var wrong *ConfigError
	var require requirement = func(ok bool, field string, value any, remedy string, args ...any) {
		if !ok && wrong == nil {
			wrong = &ConfigError{field, fmt.Sprint(value), fmt.Sprintf(remedy, args...)}
		}
	}
	c.validateGroups(plan, require)
	require(slices.Contains(scenarios, c.Scenario), "Scenario", c.Scenario,
		"choose single, batch, each, hot, cart, combine, hold or move")
	require(c.Callers >= 1 && c.Callers <= maxCallers, "Callers", c.Callers,
		"give 1 to %d callers", maxCallers)
	require(c.Clients >= 1, "Clients", c.Clients, "give at least 1")
	require(c.Clients <= c.Callers, "Clients", c.Clients,
		"give at most one for each of the %d callers", c.Callers)
	require(c.Duration > 0 && c.Duration <= maxDuration, "Duration", c.Duration,
		"give a time above 0 such as 10s, at most 1000h")
	require(c.Rate >= 0 && c.Rate <= 1e9, "Rate", c.Rate,
		"give calls per second, or 0 for a closed loop")
	require(c.Keys >= 1 && c.Keys <= maxKeys, "Keys", c.Keys, "give 1 to %d keys", maxKeys)
	require(c.Batch >= 1, "Batch", c.Batch, "give at least 1 key a call")
	require(c.Batch <= c.Keys, "Batch", c.Batch,
		"give at most the %d keys of the key space, or a larger one", c.Keys)
	c.validateCart(require)
	c.validateMove(require)
	require(c.Hold >= 0, "Hold", c.Hold, "give 0 or a time such as 5ms")
	require(c.Work >= 0, "Work", c.Work, "give 0 or a time such as 100us")
	require(c.Work == 0 || c.Scenario == Combine, "Work", c.Work,
		"only the scenario combine has it; leave it 0")
	require(c.Leases >= 1 && c.Leases <= maxLeases, "Leases", c.Leases,
		"give 1 to %d leases", maxLeases)
	require(c.AutoExtend >= 0 && c.AutoExtend <= maxDuration, "AutoExtend", c.AutoExtend,
		"give the longest time to extend a lease, such as 1m, at most 1000h, or 0 for no "+
			"extension")
	require(c.TTL >= minTTL && c.TTL <= maxTTL, "TTL", c.TTL, "give a time from %v to %v", minTTL,
		maxTTL)
	require(c.Faults == "" || plan.StartsServers(), "Faults", c.Faults,
		"faults happen only to redis-servers that the run starts; give local:5 as the nodes")
	if wrong != nil {
		return wrong
	}
	_, err = c.parseFaults(plan)
	return err
}

// parseNodes reads Nodes. Its error is a *ConfigError.
func (c Config) parseNodes() (nodes.Plan, error) {
	plan, err := nodes.Parse(c.Nodes)
	var wrong *nodes.Error
	if errors.As(err, &wrong) {
		err = &ConfigError{Field: "Nodes", Value: wrong.Value, Remedy: wrong.Remedy}
	}
	return plan, err
}

// parseFaults reads Faults, for these nodes. Its error is a *ConfigError.
func (c Config) parseFaults(n nodes.Plan) (faults.Plan, error) {
	plan, err := faults.Parse(c.Faults, n.Size(), n.InCluster(), c.Duration)
	var wrong *faults.Error
	if errors.As(err, &wrong) {
		err = &ConfigError{Field: "Faults", Value: wrong.Item, Remedy: wrong.Remedy}
	}
	return plan, err
}

// perCall returns the number of keys that one call asks for.
func (c Config) perCall() int {
	switch c.Scenario {
	case Batch, Each, Hold:
		return c.Batch
	case Cart, Combine:
		return 1 + c.Others
	default:
		return 1
	}
}

// maxTTL returns MaxTTL of the Clients; 0 is the default. A node that lost its keys may be in
// quarantine for that long, which must fit into a run with faults.
func (c Config) maxTTL() time.Duration {
	if c.Faults == "" {
		return 0
	}
	return c.TTL
}

// options returns those of each acquiring call.
func (c Config) options() []lockpipe.Option {
	var all []lockpipe.Option
	if c.AutoExtend > 0 {
		all = append(all, lockpipe.WithAutoExtend(c.AutoExtend))
	}
	if c.Fencing {
		all = append(all, lockpipe.WithFencing())
	}
	return all
}

// names returns the names of all keys, and then those of the hot keys of Cart and Combine.
func (c Config) names(prefix string) []string {
	names := make([]string, 0, c.Keys+c.Hot)
	for i := range c.Keys {
		names = append(names, prefix+strconv.Itoa(i))
	}
	for i := range c.Hot {
		names = append(names, prefix+"hot"+strconv.Itoa(i))
	}
	return names
}
