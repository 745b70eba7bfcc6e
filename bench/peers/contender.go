package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ttl is the lease time that every contender asks for. Nothing here lives that long: it only has to
// be the same for all, and long enough that no lock runs out on a slow machine.
const ttl = 30 * time.Second

// nodeTimeout is how long a contender may wait for one node if its library lets the user choose. It
// is what redsync gives itself (5 % of the expiry), so no peer fails for lack of time on a busy
// machine. lockpipe keeps its own, much shorter default: the comparison is of what users get.
const nodeTimeout = ttl / 20

// A Contender is one lock library as its users would set it up, with warm connections. It is safe
// for concurrent use.
type Contender interface {
	// Name is the name that -contenders selects it by.
	Name() string
	// LockUnlock tries once to take key for ttl and gives it back. A nil error means that the
	// library said yes to both.
	LockUnlock(ctx context.Context, key string) error
	// LockUnlockMany holds all keys at the same time and gives them back, in the best way that the
	// library offers.
	LockUnlockMany(ctx context.Context, keys []string) error
	// Close ends its connections.
	Close()
}

// A readyAwaiter can say when all of its nodes are connected and voting. Only a readyAwaiter takes
// part in the frozen scenario, because a healthy round right after a frozen one would otherwise
// measure the recovery.
type readyAwaiter interface {
	AwaitReady(ctx context.Context) error
}

// A wireNamer stores its locks under other names than the key. WireNames returns them, of all
// nodes, so that the checks can be the other holder.
type wireNamer interface {
	WireNames(key string) []string
}

// entry is one line of the registry.
type entry struct {
	name string
	// byDefault is false for variants that a user must ask for by name.
	byDefault bool
	// where says which nodes a lock of this contender needs: the reader must not take a lock on one
	// server for a quorum.
	where string
	// waits says how it waits for a key that is held; empty if it can't.
	waits string
	open  func(n *nodes) (Contender, error)
}

const (
	onQuorum = "quorum of all nodes"
	onOne    = "ONE node by design"

	lockpipeWaits = "waits by its defaults"
	redsyncWaits  = "tries again after its default of 50 to 250 ms, without a limit of " +
		"tries, or after -retry"
	redislockWaits = "tries again every 16 ms, the least that its documentation recommends " +
		"(it has no default), or after -retry"
	rueidislockWaits = "is woken by the server"
)

// registry has the contenders in the order in which they are run and printed.
var registry = []entry{
	{lockpipeName, true, onQuorum, lockpipeWaits, openLockpipe},
	{"redsync-rueidis", true, onQuorum, redsyncWaits, openRedsyncRueidis},
	{"redsync-goredis", true, onQuorum, redsyncWaits, openRedsyncGoredis},
	{
		"pipeline", true, "quorum of all nodes; a yardstick: bare commands, no clean-up, no lease",
		"",
		openPipeline,
	},
	{"redislock", true, onOne, redislockWaits, openRedislock},
	{
		"rueidislock", true, onOne + ": as many keys there as there are nodes", rueidislockWaits,
		openRueidislock,
	},

	{
		"redsync-rueidis-failfast", false, onQuorum +
			"; returns at quorum, may leave late keys behind", redsyncWaits,
		openRedsyncFailFast,
	},
	{
		"redsync-rueidis-parallel", false, onQuorum + "; 100 mutexes at once, a goroutine each",
		redsyncWaits,
		openRedsyncParallel,
	},
	{"rueidislock-onekey", false, onOne + ": one key", rueidislockWaits, openRueidislockOneKey},
}

// lockpipeName is the contender that the hot scenarios compare with each of the others.
const lockpipeName = "lockpipe"

// baseline is the contender that the ratios are taken against.
const baseline = "redsync-rueidis"

// choose returns the registry's entries for a comma-separated list of names; "" means those of
// byDefault.
func choose(list string) ([]entry, error) {
	var chosen []entry
	if list == "" || list == "default" {
		for _, e := range registry {
			if e.byDefault {
				chosen = append(chosen, e)
			}
		}
		return chosen, nil
	}
	if list == "all" {
		return registry, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(registry,
			func(e entry) bool { return e.name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("no contender %q; there are: %s", name,
				strings.Join(names(registry), ", "))
		}
		if !slices.ContainsFunc(chosen, func(e entry) bool { return e.name == registry[i].name }) {
			chosen = append(chosen, registry[i])
		}
	}
	return chosen, nil
}

func names(entries []entry) []string {
	all := make([]string, len(entries))
	for i, e := range entries {
		all[i] = e.name
	}
	return all
}

// field is an open contender together with its line of the registry.
type field struct {
	entry
	Contender
	ownClients []Contender // clients for callers that have one each; see openOwnClients
}

// Name settles which of the two names is meant: the entry's.
func (f field) Name() string { return f.name }

// openAll opens the contenders, checks each of them, and keeps them all open: an idle client costs
// nothing, and a cold one would cost the first round.
func openAll(ctx context.Context, entries []entry, n *nodes) (fields []field, err error) {
	defer func() {
		if err != nil {
			closeAll(fields)
		}
	}()
	for _, e := range entries {
		c, err := e.open(n)
		if err != nil {
			return fields, fmt.Errorf("open %s: %w", e.name, err)
		}
		fields = append(fields, field{entry: e, Contender: c})
		if s, ok := c.(readyAwaiter); ok {
			if err := s.AwaitReady(ctx); err != nil {
				return fields, fmt.Errorf("%s: %w", e.name, err)
			}
		}
		if err := verify(ctx, c, n); err != nil {
			return fields, fmt.Errorf("%s is not a lock here: %w", e.name, err)
		}
	}
	return fields, nil
}

func closeAll(fields []field) {
	for _, f := range fields {
		f.Close()
		for _, c := range f.ownClients {
			c.Close()
		}
	}
}

// eachKey takes the keys one after another and gives back, in the same order, what it has taken:
// the only way to many keys that a library without a multi-key call offers to one caller.
func eachKey(keys []string, lock func(key string) (unlock func() error, err error)) error {
	unlocks := make([]func() error, 0, len(keys))
	var failed error
	for _, key := range keys {
		unlock, err := lock(key)
		if err != nil {
			failed = err
			break
		}
		unlocks = append(unlocks, unlock)
	}
	for _, unlock := range unlocks {
		if err := unlock(); err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}
