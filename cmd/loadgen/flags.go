package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/inspect"
)

// options is the command line, understood.
type options struct {
	config  bench.Config
	inspect bool           // look at the nodes, and put no load on them
	look    inspect.Config // for -inspect
	owner   string         // whose locks to list or free, and put no load on the nodes; "" for none
	free    bool           // free them
	guard   string         // as given; look has the mode
	metrics string         // the address to serve metrics on; "" for none
	json    string         // a file name, "-" for stdout, "" for none
	html    string         // a file name, "" for none
	peers   string         // a file name, "" for none
	cluster string         // how many masters of a cluster are the nodes; "" for none
	hot     int            // what -hot says; in scenario hot it is config.Keys, else config.Hot
}

// hotKeys is the field Hot, and stands for the field Keys if -hot has set that.
const hotKeys = "Hot"

// fields has the flag that sets each field of bench.Config.
var fields = map[string]string{
	"Nodes":      "nodes",
	"Groups":     "groups",
	"Scenario":   "scenario",
	"Callers":    "c",
	"Clients":    "clients",
	"Duration":   "d",
	"Rate":       "rate",
	"Keys":       "keys",
	hotKeys:      "hot",
	"Batch":      "batch",
	"Others":     "others",
	"Cold":       "cold",
	"Hold":       "hold",
	"Work":       "work",
	"TTL":        "ttl",
	"Leases":     "leases",
	"AutoExtend": "autoextend",
	"Faults":     "faults",
	"Next":       "next",
	"MaxTTL":     "max-ttl",
	"Prefix":     "prefix",
}

// guards are the values of -guard.
var guards = map[string]lockpipe.GuardMode{
	"auto": lockpipe.GuardAuto, "strict": lockpipe.GuardStrict, "off": lockpipe.GuardOff,
}

// needs has for some flags those of which they need one.
var needs = map[string][]string{
	"next": {"inspect"}, "guard": {"inspect"}, "max-ttl": {"inspect"},
	"prefix": {"inspect", "release-owner"}, "yes": {"release-owner"},
}

// flags returns the flags, which set o when they are parsed.
func flags(o *options) *flag.FlagSet {
	set := flag.NewFlagSet("loadgen", flag.ContinueOnError)
	set.SetOutput(io.Discard) // run prints errors, in its own form
	c := &o.config
	set.StringVar(&c.Nodes, "nodes", c.Nodes,
		"`URLs` of the nodes with commas between them,\nlocal:N to start N redis-servers, or "+
			"inprocess:N for nodes in the memory\nof this process, which local:N starts too if "+
			"there is no redis-server")
	set.StringVar(&o.cluster, "cluster", o.cluster, "`number` of masters of a Redis Cluster to "+
		"start, each with a replica, and to use as nodes;\n3 is usual; it is -nodes cluster:N, and "+
		"needs a redis-server")
	set.IntVar(&c.Groups, "groups", c.Groups,
		"`number` of groups of one size that the nodes are divided into, with the names g1, g2\n"+
			"and so on; a key belongs to one")
	set.StringVar((*string)(&c.Scenario), "scenario", string(c.Scenario),
		"what each caller does: the `name` of\nsingle: try one random key\nbatch: wait for "+
			"-batch keys as one lease\n"+
			"each: try -batch keys, a lease for each\nhot: wait for one of -hot keys\n"+
			"cart: wait for one of -hot keys and -others of -keys as one lease,\n      while "+
			"-cold more callers wait for one of -keys each\n"+
			"combine: the same keys, but calls that overlap are served together,\n      by "+
			"package combine; -hold is the time of a batch, -work that of each item\n"+
			"hold: take -leases keys, a lease for each, and keep all for -d\n      by automatic "+
			"extension (-c, -rate, -keys, -batch,\n"+
			"      -hold and -autoextend have no effect)\n"+
			"move: wait for one of -keys while -clients move, one after the other,\n      from "+
			"the first half of the nodes to the second, of -groups each\n")
	set.IntVar(&c.Callers, "c", c.Callers, "`number` of callers at once")
	set.DurationVar(&c.Duration, "d", c.Duration, "`time` to run")
	set.Float64Var(&c.Rate, "rate", c.Rate,
		"`calls` a second, with latency counted from when a call was due;\n0: each caller calls "+
			"again when it is done")
	set.IntVar(&c.Keys, "keys", c.Keys, "`number` of keys to choose from; unless given\nit is 1 "+
		"in scenario hot and 1000000 in batch")
	set.IntVar(&o.hot, "hot", bench.DefaultConfig(bench.Hot).Keys,
		"`number` of hot keys in scenario hot, in place of -keys,\nand in scenarios cart and "+
			"combine, in addition to -keys")
	set.IntVar(&c.Others, "others", bench.DefaultConfig(bench.Cart).Others,
		"`number` of keys a call in scenarios cart and combine, in addition to the hot one")
	set.IntVar(&c.Cold, "cold", c.Cold,
		"`number` of callers in scenarios cart and combine, in addition to -c,\nthat wait for one of -keys "+
			"each, without -rate")
	set.IntVar(&c.Batch, "batch", c.Batch,
		"`keys` a call in scenarios batch and each; 100 unless given")
	set.DurationVar(&c.Hold, "hold", c.Hold, "`time` to keep what was granted")
	set.DurationVar(&c.Work, "work", c.Work, "`time` for each item of a batch in scenario combine, "+
		"in addition to -hold")
	set.DurationVar(&c.TTL, "ttl", c.TTL, "lease `time`")
	set.IntVar(&c.Leases, "leases", c.Leases, "`number` of leases to keep at once in scenario hold")
	set.DurationVar(&c.AutoExtend, "autoextend", c.AutoExtend,
		"longest `time` for which lockpipe extends each lease automatically; 0: not at all")
	set.BoolVar(&c.Fencing, "fencing", c.Fencing,
		"take every lock with fencing, and check that no fence is below one before it\n(in "+
			"scenario hold: take it, no more); nodes given as URLs keep the\nfences, 6 MB at most")
	set.IntVar(&c.Clients, "clients", c.Clients, "`number` of independent Clients that share "+
		"the callers, as processes would")
	set.Uint64Var(&c.Seed, "seed", c.Seed, "`number` that the choice of keys starts from; "+
		"random unless given")
	faultFlags(set, c)
	inspectFlags(set, o)
	ownerFlags(set, o)
	outputFlags(set, o)
	return set
}

// faultFlags adds the flags about what happens to nodes.
func faultFlags(set *flag.FlagSet, c *bench.Config) {
	set.StringVar(&c.Faults, "faults", c.Faults,
		"`list` of what happens to nodes of local:N while the load runs, such "+
			"as\nfreeze:1@2s+3s,kill:2@4s,restart:2@6s: action:node@time[+duration], with\n"+
			"freeze, readonly, oom, busy, demote (it follows an older copy of itself),\n"+
			"failover (a replica is the master meanwhile), all with a duration;\nkill, restart "+
			"(empty), flush, scriptflush, reset (connections are cut);\n"+
			"with -cluster all but readonly and demote, and also\n"+
			"takeover (a replica is the master from then on, and has asked nobody), and\n"+
			"reshard (the server of the next node has the slot), deposed (the master is cut\n"+
			"off from the other servers, not from clients, and its replica takes over),\n"+
			"both with a duration;\n"+
			"every:1s is a random one each second, never on a majority of a group at once")
	set.Uint64Var(&c.FaultSeed, "fault-seed", c.FaultSeed, "`number` that random faults start "+
		"from; that of -seed unless given")
}

// inspectFlags adds -inspect, and the flags that need it.
func inspectFlags(set *flag.FlagSet, o *options) {
	set.BoolVar(&o.inspect, "inspect", o.inspect,
		"look at the nodes for what makes locks fail or unsafe, print the findings and "+
			"exit:\nno load, nothing is written to the nodes, and of the other flags only -nodes, "+
			"-groups,\n-ttl, -json and those that need -inspect have an effect")
	set.StringVar(&o.look.Next, "next", o.look.Next,
		"`URLs` of the nodes in Config.Next of the clients, while the fleet moves, in the form\n"+
			"of -nodes and in -groups groups; needs -inspect")
	set.StringVar(&o.look.Prefix, "prefix", o.look.Prefix,
		"`text` that is Config.Prefix of the clients; needs -inspect or -release-owner")
	set.StringVar(&o.guard, "guard", "auto",
		"`mode` that is Config.RestartGuard of the clients: auto, strict or off; needs -inspect")
	set.DurationVar(&o.look.MaxTTL, "max-ttl", o.look.MaxTTL,
		"`time` that is Config.MaxTTL of the clients; -ttl unless given; needs -inspect")
}

// ownerFlags adds -release-owner, and the flag that needs it.
func ownerFlags(set *flag.FlagSet, o *options) {
	set.StringVar(&o.owner, "release-owner", o.owner,
		"`name` that is Config.Owner of clients: list the keys that they hold on -nodes, and "+
			"exit.\nWith -yes free them, for people who know that each process with this owner is "+
			"dead:\na living one learns late that its locks are lost. Keys left by Lease.Keep stay. "+
			"The user\nof the URLs needs +scan. Of the other flags only -nodes, -prefix and -json "+
			"have an effect")
	set.BoolVar(&o.free, "yes", o.free, "free what -release-owner lists, instead of only listing it")
}

// outputFlags adds the flags about what is shown, and where.
func outputFlags(set *flag.FlagSet, o *options) {
	set.StringVar(&o.metrics, "metrics", o.metrics, "`address` to serve the Clients' metrics on "+
		"for Prometheus while it runs, such as :2112")
	set.StringVar(&o.json, "json", o.json, "`file` for the result as JSON; - prints it instead "+
		"of the table")
	set.StringVar(&o.html, "html", o.html, "`file` for the result as a page with charts, for "+
		"any browser; it needs no network")
	set.StringVar(&o.peers, "peers", o.peers, "`file` of bench/peers, such as "+
		"docs/benchmarks/results.json: -html also\nshows what other libraries did there")
}

// parse reads the command line. Its error says what is wrong, or is flag.ErrHelp.
func parse(args []string) (options, error) {
	o := options{config: bench.DefaultConfig(bench.Single)}
	set := flags(&o)
	if err := set.Parse(args); err != nil {
		return options{}, unsigned(err)
	}
	if set.NArg() > 0 {
		return options{}, unsigned(fmt.Errorf("%q: loadgen takes flags only; give each one as "+
			"-name value", set.Arg(0)))
	}
	given := make(map[string]string)
	set.Visit(func(f *flag.Flag) { given[f.Name] = f.Value.String() })
	o.config = bench.DefaultConfig(o.config.Scenario)
	for name, value := range given {
		_ = set.Set(name, value) // it was accepted before
	}
	if o.cluster != "" {
		if given["nodes"] != "" {
			return options{}, fmt.Errorf("-cluster %q: it starts the nodes; leave out -nodes", o.cluster)
		}
		o.config.Nodes = "cluster:" + o.cluster
	}
	hot := given["hot"] != "" && o.config.Scenario == bench.Hot
	cart := o.config.Scenario == bench.Cart || o.config.Scenario == bench.Combine
	switch {
	case hot:
		o.config.Keys = o.hot
	case cart:
		o.config.Hot = o.hot
	}
	if given["batch"] == "" {
		o.config.Batch = max(1, min(o.config.Batch, o.config.Keys))
	}
	if given["seed"] == "" {
		o.config.Seed = uint64(rand.Uint32())
	}
	if o.config.Faults != "" && given["fault-seed"] == "" {
		o.config.FaultSeed = o.config.Seed
	}
	if err := o.parseInspect(given); err != nil {
		return options{}, err
	}
	if err := o.config.Validate(); err != nil {
		if hot {
			err = asHot(err)
		}
		return options{}, flagError(err)
	}
	if given["hot"] != "" && !hot && !cart {
		return options{}, fmt.Errorf("-hot \"%d\": scenario %s has no hot keys; give -keys, or "+
			"-scenario hot", o.hot, o.config.Scenario)
	}
	return o, nil
}

// parseInspect reads what -inspect needs. given has the flags that were given.
func (o *options) parseInspect(given map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(needs)) {
		value, ok := given[name]
		if strings.ContainsAny(value, "@?") { // it may have a password
			value = "***"
		}
		if ok && !slices.ContainsFunc(needs[name], func(n string) bool { return given[n] != "" }) {
			all := "-" + strings.Join(needs[name], " or -")
			return fmt.Errorf("-%s %q: only %s uses it; leave it out, or give %s", name, value, all,
				all)
		}
	}
	if _, ok := given["release-owner"]; ok && (o.owner == "" || o.inspect) {
		return fmt.Errorf("-release-owner %q: give an owner, as Peek returns it, without -inspect",
			o.owner)
	}
	guard, ok := guards[o.guard]
	if !ok {
		return fmt.Errorf("-guard %q: give auto, strict or off", o.guard)
	}
	o.look.Guard = guard
	o.look.Nodes, o.look.Groups, o.look.TTL = o.config.Nodes, o.config.Groups, o.config.TTL
	return nil
}

// userinfo is what may be a user and password in a URL in the wrong place.
var userinfo = regexp.MustCompile(`(?s)(["-]).*@`)

// unsigned is an error about what was given without what may be a password in it.
func unsigned(err error) error {
	if text := err.Error(); strings.Contains(text, "@") {
		return errors.New(userinfo.ReplaceAllString(text, "$1***@"))
	}
	return err
}

// asHot lets an error about Keys be about -hot.
func asHot(err error) error {
	var wrong *bench.ConfigError
	if errors.As(err, &wrong) && wrong.Field == "Keys" {
		return &bench.ConfigError{Field: hotKeys, Value: wrong.Value, Remedy: wrong.Remedy}
	}
	return err
}

// flagError says a *bench.ConfigError in terms of flags.
func flagError(err error) error {
	var wrong *bench.ConfigError
	if !errors.As(err, &wrong) {
		return err
	}
	return fmt.Errorf("-%s %q: %s", fields[wrong.Field], wrong.Value, wrong.Remedy)
}

// usage is the text of -h.
func usage() string {
	var b strings.Builder
	b.WriteString("loadgen puts load on lockpipe and checks that no key has two holders and " +
		"nothing is left behind;\n" +
		"in scenario hold, that every lease lives on the nodes for as long as it is held.\n\n" +
		"Usage: loadgen [flags]\n\n")
	o := options{config: bench.DefaultConfig(bench.Single)}
	set := flags(&o)
	set.SetOutput(&b)
	set.PrintDefaults()
	b.WriteString("\nCtrl-C ends the run early; it still releases everything and prints.\n" +
		"Exit code: 0 without violations, fences that go back, leftover keys, and in scenario " +
		"hold lost or dead leases,\n" +
		"and with -inspect without findings that are errors; with -release-owner if all nodes answered\n" +
		"and, with -yes, freed all; 2 for wrong usage; else 1.\n")
	return b.String()
}
