package preflight

import (
	"fmt"

	"github.com/lockpipe/lockpipe/internal/inspection"
	"github.com/lockpipe/lockpipe/internal/restartguard"
)

// nearlyAll is the share of its connections or memory, in percent, from which on a server may soon
// refuse.
const (
	nearlyAll = 90
	percent   = 100
)

// checkMemory reports what happens to locks when the memory is full.
func (f *findings) checkMemory(node *inspection.Facts) {
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

// checkPersistence reports what a restart does to the locks.
func (f *findings) checkPersistence(node *inspection.Facts) {
	switch {
	case node.AOF && returnedError(node, "CONFIG GET"): // which is a finding already
	case node.AOF && node.Fsync == "always" && !node.Rewriting:
		f.infof("writes each lock to disk before it answers (AOF, appendfsync always): a restart " +
			"keeps them, and it may vote at once")
	case node.AOF && node.Fsync == "always":
		f.addDataLoss("writes its AOF at once, but not during rewrites: a restart may forget the "+
			"latest locks, so %s; no-appendfsync-on-rewrite no would keep them", f.afterRestart())
	case node.AOF:
		f.addDataLoss("writes its AOF late (appendfsync %s): a restart may forget the latest "+
			"locks, so %s; appendfsync always would keep them", node.Fsync, f.afterRestart())
	case node.Snapshots != "":
		f.addDataLoss("writes snapshots only: a restart forgets locks, so %s; AOF with "+
			"appendfsync always would keep them", f.afterRestart())
	default:
		f.addDataLoss("has no AOF: a restart forgets locks, so %s; AOF with appendfsync always "+
			"would keep them", f.afterRestart())
	}
}

// addDataLoss reports that a restart makes the node forget locks.
func (f *findings) addDataLoss(format string, args ...any) {
	if f.set.Guard == restartguard.Off {
		f.warnf(format, args...)
		return
	}
	f.infof(format, args...)
}

// afterRestart says what happens after the restart of a node that may have forgotten locks.
func (f *findings) afterRestart() string {
	if f.set.Guard == restartguard.Off {
		return "two callers may hold the same lock after one, because RestartGuard is off"
	}
	return fmt.Sprintf("after one it does not vote for MaxTTL (%v)", f.set.MaxTTL)
}
