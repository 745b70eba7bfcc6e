package bench

import (
	"fmt"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/prometheus/client_golang/prometheus"
)

// Scenario is what each caller does again and again.
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
	// Hold takes Config.Leases leases of one key each, once, and keeps them all for Config.Duration
	// by automatic extension.
	Hold Scenario = "hold"
)

const (
	// maxCallers is as many calls as one Client is sure to take at once.
	maxCallers = 16384
	// maxKeys bounds the memory for key names and holders: about 60 bytes a key.
	maxKeys = 10_000_000
	// maxLeases bounds the memory for leases, of which each costs more than a key.
	maxLeases = 10_000_000
	// maxDuration is far inside what a holder's time can express.
	maxDuration = 1000 * time.Hour
	// minTTL and maxTTL bound the TTL of a run.
	minTTL = 10 * time.Millisecond
	maxTTL = 60 * time.Second
)

// Config says what to run. Default gives one to start from; Run refuses a Config that Validate
// refuses.
type Config struct {
	// Nodes is "local:N" (N redis-servers are started for the run, or nodes in this process where
	// there is no redis-server), "inprocess:N" (nodes in this process), or the comma-separated URLs
	// of nodes that are there already.
	Nodes string
	// Scenario is what each caller does.
	Scenario Scenario
	// Callers is how many goroutines call at once, in total. The scenario Hold has a number of its
	// own.
	Callers int
	// Clients is how many independent Clients share the callers, as separate processes would.
	Clients int
	// Duration is how long to start new calls, and in the scenario Hold how long to keep
	// everything, counted from when it is held.
	Duration time.Duration
	// Rate is 0 for a closed loop: each caller calls again as soon as it is done. Otherwise it is
	// how many calls a second become due, whatever the nodes do; the latency of a call then counts
	// from when it was due. The scenario Hold has none.
	Rate float64
	// Keys is the size of the key space, except in the scenario Hold: in Hot it is the number of
	// hot keys.
	Keys int
	// Batch is the number of keys a call, in the scenarios Batch and Each.
	Batch int
	// Hold is how long a caller keeps what it was granted, except in the scenario Hold.
	Hold time.Duration
	// Leases is how many leases the scenario Hold keeps at once.
	Leases int
	// AutoExtend is for how long, at most, the Client extends each lease by itself; 0 is not at
	// all. The scenario Hold has a time of its own. The search for violations goes by the end that
	// a lease had when it was granted, so two holders of one key may go unseen after its first TTL.
	AutoExtend time.Duration
	// Fencing is whether every lock is taken with fencing, and its fence compared with those before
	// it. Nodes that are there already keep a companion of each key for a day then.
	Fencing bool
	// TTL is the lease time.
	TTL time.Duration
	// Seed makes the callers' choice of keys repeatable.
	Seed uint64
	// Faults is what happens to nodes that the run starts as redis-servers: items such as
	// freeze:1@2s+3s with commas between them, each an action, a node from 1, a time since the
	// first call and, where it lasts, a duration. The actions are freeze (SIGSTOP), readonly, oom,
	// busy (a script that never ends), demote and failover, with a duration; kill, restart (empty),
	// flush, scriptflush and reset (all connections are cut) without. demote makes the node the
	// replica of an older copy of itself, and then a master again. failover gives its role to a
	// replica, and takes it back; new connections lead to the master. A node has one fault at a
	// time. every:1s is a random fault at each interval, with less than a quorum of the nodes out
	// at the same time. All is mended when Duration is over. MaxTTL of the Clients is TTL then.
	Faults string
	// FaultSeed makes the random ones repeatable.
	FaultSeed uint64
	// Prefix starts every key of the run; "" stands for one that no other run has. No other client
	// may use it meanwhile.
	Prefix string
	// Metrics, where set, has each Client registered with it for the time of the run and
	// afterwards, with its number as the label client.
	Metrics prometheus.Registerer
	// Progress, where set, is called now and then while the run lasts, by one goroutine, with the
	// time since the start and the number of locks acquired in it.
	Progress func(elapsed time.Duration, locks uint64)
}

// Default returns the usual Config of a scenario, with seed 0.
func Default(s Scenario) Config {
	cfg := Config{
		Nodes:    "local:5",
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
	case Batch:
		// With a smaller key space nearly every call would overlap with another.
		cfg.Batch, cfg.Keys = 100, 1_000_000
	case Each:
		cfg.Batch = 100
	}
	return cfg
}

// ConfigError is a Config that cannot be run. Its text never holds a node's user or password.
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

// Validate returns nil or a *ConfigError for the first field that cannot be used.
func (c Config) Validate() error {
	plan, err := parseNodes(c.Nodes)
	if err != nil {
		return err
	}
	for _, check := range []struct {
		ok            bool
		field, remedy string
		value         any
	}{
		{
			c.Scenario.known(), "Scenario", "choose single, batch, each, hot or hold",
			string(c.Scenario),
		},
		{c.Callers >= 1 && c.Callers <= maxCallers, "Callers", fmt.Sprintf("give 1 to %d callers",
			maxCallers), c.Callers},
		{c.Clients >= 1, "Clients", "give at least 1", c.Clients},
		{c.Clients <= c.Callers, "Clients", fmt.Sprintf("give at most one for each of the %d "+
			"callers", c.Callers), c.Clients},
		{
			c.Duration > 0 && c.Duration <= maxDuration, "Duration",
			"give a time above 0 such as 10s, at most 1000h", c.Duration,
		},
		{
			c.Rate >= 0 && c.Rate <= 1e9, "Rate", "give calls per second, or 0 for a closed loop",
			c.Rate,
		},
		{
			c.Keys >= 1 && c.Keys <= maxKeys, "Keys", fmt.Sprintf("give 1 to %d keys", maxKeys),
			c.Keys,
		},
		{c.Batch >= 1, "Batch", "give at least 1 key a call", c.Batch},
		{c.Batch <= c.Keys, "Batch", fmt.Sprintf("give at most the %d keys of the key space, or "+
			"a larger one", c.Keys), c.Batch},
		{c.Hold >= 0, "Hold", "give 0 or a time such as 5ms", c.Hold},
		{c.Leases >= 1 && c.Leases <= maxLeases, "Leases", fmt.Sprintf("give 1 to %d leases",
			maxLeases), c.Leases},
		{
			c.AutoExtend >= 0 && c.AutoExtend <= maxDuration, "AutoExtend",
			"give the longest time to extend a lease, such as 1m, at most 1000h, or 0 for no " +
				"extension", c.AutoExtend,
		},
		{c.TTL >= minTTL && c.TTL <= maxTTL, "TTL", fmt.Sprintf("give a time from %v to %v", minTTL,
			maxTTL), c.TTL},
	} {
		if !check.ok {
			return &ConfigError{
				Field: check.field, Value: fmt.Sprint(check.value),
				Remedy: check.remedy,
			}
		}
	}
	if c.Faults != "" && (plan.start == 0 || plan.inProcess) {
		remedy := "faults happen only to redis-servers that the run starts; give local:5 as the " +
			"nodes"
		return &ConfigError{Field: "Faults", Value: c.Faults, Remedy: remedy}
	}
	_, err = parseFaults(c.Faults, plan.size(), c.Duration)
	return err
}

func (s Scenario) known() bool {
	switch s {
	case Single, Batch, Each, Hot, Hold:
		return true
	}
	return false
}

// perCall is the number of keys that one call asks for.
func (c Config) perCall() int {
	if c.Scenario == Batch || c.Scenario == Each || c.Scenario == Hold {
		return c.Batch
	}
	return 1
}

// longestTTL is what the Clients are told as the longest that any of them uses; 0 is the default.
// Nodes that lost their keys may be mistrusted for so long, which must fit into a run.
func (c Config) longestTTL() time.Duration {
	if c.Faults == "" {
		return 0
	}
	return c.TTL
}

// options are those of each acquiring call.
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

// names returns the names of all keys.
func (c Config) names(prefix string) []string {
	names := make([]string, c.Keys)
	for i := range names {
		names[i] = prefix + strconv.Itoa(i)
	}
	return names
}
