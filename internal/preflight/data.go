package preflight

import (
	"fmt"

	"github.com/lockpipe/lockpipe/internal/guard"
)

// nearlyAll is the share of its connections or memory, in percent, from which on a server may soon
// refuse.
const (
	nearlyAll = 90
	percent   = 100
)

// checkMemory reports what happens to locks when the memory is full.
func (f *findings) checkMemory(node *target) {
	evicts := node.Policy != "" && node.Policy != "noeviction"
	used := uint64(float64(node.Memory) / max(1, float64(node.MaxMemory)) * percent)
	switch {
	case evicts && node.MaxMemory > 0:
		f.errorf("evicts keys when its memory is full (maxmemory-policy %s), and locks with them "+
			"while they are held: set maxmemory-policy noeviction", node.Policy)
	case evicts:
		f.warnf("would evict locks with maxmemory-policy %s as soon as it had a maxmemory: set "+
			"maxmemory-policy noeviction", node.Policy)
	case node.MaxMemory > 0 && used >= percent:
		f.errorf("refuses locks, because it uses %s, more than its maxmemory (%s): keep other "+
			"data off it, or raise maxmemory", size(node.Memory), size(node.MaxMemory))
	case node.MaxMemory > 0 && used >= nearlyAll:
		f.warnf("soon refuses locks, because it uses %s, %d %% of its maxmemory (%s): keep other "+
			"data off it, or raise maxmemory", size(node.Memory), used, size(node.MaxMemory))
	case node.MaxMemory > 0:
		f.warnf("refuses locks when it uses the %s of its maxmemory (now %s, %d %%): keep other "+
			"data off it, or raise maxmemory", size(node.MaxMemory), size(node.Memory), used)
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

// checkPersistence reports what a restart does to the locks and to the node's vote.
func (f *findings) checkPersistence(node *target) {
	durable := node.AOF && node.Fsync == "always" && !node.Rewriting
	switch {
	case node.AOF && returnedError(node, "CONFIG GET"): // which is a finding already
	case f.set.Guard != guard.Off && durable:
		f.infof("writes each lock to disk before it answers (AOF, appendfsync always), and does "+
			"not vote for MaxTTL (%v) after a restart either: appendonly no is faster",
			f.set.MaxTTL)
	case f.set.Guard != guard.Off:
		f.infof("does not vote for MaxTTL (%v) after a restart, which may forget locks",
			f.set.MaxTTL)
	case durable:
		f.infof("writes each lock to disk before it answers (AOF, appendfsync always): a restart " +
			"keeps them")
	default:
		f.warnf("may forget locks when it restarts, and then two callers may hold the same lock, " +
			"because RestartGuard is off")
	}
}

// checkBacklog reports a server that forgets too soon that it was a replica. Meanwhile it may have
// missed locks that are still held, and the restart guard can't know that any more.
func (f *findings) checkBacklog(node *target) {
	if f.set.Guard != guard.Off && node.BacklogTTL > 0 && node.BacklogTTL < f.set.MaxTTL {
		f.errorf("forgets after %v that it was a replica (repl-backlog-ttl), and then it may vote "+
			"although it has missed locks: set repl-backlog-ttl to MaxTTL (%v) or more, or to 0",
			node.BacklogTTL, f.set.MaxTTL)
	}
}
