package preflight

import (
	"fmt"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe/internal/guard"
)

// nearlyAll is the share of its connections or memory, in percent, from which on a server may soon
// refuse.
const (
	nearlyAll = 90
	percent   = 100
)

// checkMemory reports what happens to locks when the memory is full.
func (f *findings) checkMemory(node *Facts) {
	policy, most, used := node.Info["maxmemory_policy"], node.number("maxmemory"),
		node.number("used_memory")
	evicts := policy != "" && policy != "noeviction"
	share := uint64(float64(used) / max(1, float64(most)) * percent)
	switch {
	case evicts && most > 0:
		f.errorf("evicts keys when its memory is full (maxmemory-policy %s), and locks with them "+
			"while they are held: set maxmemory-policy noeviction", policy)
	case evicts:
		f.warnf("would evict locks with maxmemory-policy %s as soon as it had a maxmemory: set "+
			"maxmemory-policy noeviction", policy)
	case most > 0 && share >= percent:
		f.errorf("refuses locks, because it uses %s, more than its maxmemory (%s): keep other "+
			"data off it, or raise maxmemory", size(used), size(most))
	case most > 0 && share >= nearlyAll:
		f.warnf("soon refuses locks, because it uses %s, %d %% of its maxmemory (%s): keep other "+
			"data off it, or raise maxmemory", size(used), share, size(most))
	case most > 0:
		f.warnf("refuses locks when it uses the %s of its maxmemory (now %s, %d %%): keep other "+
			"data off it, or raise maxmemory", size(most), size(used), share)
	}
}

// size shows a number of bytes for people.
func size(bytes uint64) string {
	const step = 1024
	value, unit := float64(bytes), "bytes"
	for _, larger := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < step {
			break
		}
		value, unit = value/step, larger
	}
	return fmt.Sprintf("%.4g %s", value, unit)
}

// checkPersistence reports what a restart does to the locks and to the node's vote. It also reports
// a server that forgets too soon that it was a replica. Meanwhile it may have missed locks that are
// still held, and the restart guard can't know that any more.
func (f *findings) checkPersistence(node *Facts) {
	aof, guarded := node.Info["aof_enabled"] == "1", f.cfg.Guard != guard.Off
	durable := aof && node.Settings["appendfsync"] == "always" &&
		node.Settings["no-appendfsync-on-rewrite"] != "yes"
	switch {
	case aof && node.returnedError("CONFIG GET"): // which is a finding already
	case guarded && durable:
		f.infof("writes each lock to disk before it answers (AOF, appendfsync always), and does "+
			"not vote for MaxTTL (%v) after a restart either: appendonly no is faster",
			f.cfg.MaxTTL)
	case guarded:
		f.infof("does not vote for MaxTTL (%v) after a restart, which may forget locks",
			f.cfg.MaxTTL)
	case durable:
		f.infof("writes each lock to disk before it answers (AOF, appendfsync always): a restart " +
			"keeps them")
	default:
		f.warnf("may forget locks when it restarts, and then two callers may hold the same lock, " +
			"because RestartGuard is off")
	}
	seconds, _ := strconv.ParseInt(node.Settings["repl-backlog-ttl"], 10, 32) // 0 is never
	forgets := time.Duration(seconds) * time.Second
	if guarded && forgets > 0 && forgets < f.cfg.MaxTTL {
		f.errorf("forgets after %v that it was a replica (repl-backlog-ttl), and then it may vote "+
			"although it has missed locks: set repl-backlog-ttl to MaxTTL (%v) or more, or to 0",
			forgets, f.cfg.MaxTTL)
	}
}

// checkAdmission reports what the restart guard has recorded on the node.
func (f *findings) checkAdmission(node *Facts) {
	a := node.Admission
	if a == nil || node.RunID() == "" {
		return
	}
	switch votes, waits, rest := guard.StateOf(a.Text, a.PTTL, node.Info); {
	case a.Text == "":
		f.infof("has no key of the restart guard: no client with this Prefix has used it, or " +
			"it was flushed")
	case votes:
		f.infof("was admitted by the restart guard")
	case waits:
		f.warnf("has no vote: the restart guard lets it wait for %v more", rest.Round(time.Second))
	default:
		f.warnf("has the restart guard's key of another memory: it restarted or was replaced, " +
			"and has no vote until MaxTTL after a client has connected")
	}
}
