// Package fleet lets clients notice that they use different layouts, and so do not exclude each
// other. Each client leaves an entry on each of its nodes, the IDs of its one or two layouts, and
// reads the entries of others there. An entry is foreign if it has none of the client's IDs.
//
// A strict client stays out while it knows of a foreign entry on any node. It leaves no entry
// meanwhile, because an entry says that its client may lock. Otherwise two strict clients would
// keep each other out for ever, and one with the wrong nodes would stop all with the right ones.
// Other clients only log what they see.
//
// Nothing here admits a server or ends a wait of the restart guard. What a server answers to the
// script is no reason to stay out either.
package fleet

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/layout"
	"github.com/lockpipe/lockpipe/internal/restartguard"
)

// sightingTime is for how long a foreign entry is seen before it is logged. Meanwhile the other
// nodes are asked, so that the log can name all that have it.
const sightingTime = time.Second

// foreignText says what a foreign entry means, and what to do.
const foreignText = "another client uses a layout that shares no quorum with this one's: give " +
	"both the same nodes; if the fleet moves, set Config.Next first"

// Fleet is what one client knows of the layouts that others use. All methods are safe for
// concurrent use.
type Fleet struct {
	own    string // the client's entry
	strict bool
	logger *slog.Logger

	mu    sync.Mutex           // guards all below; a leaf
	nodes []*Node              // only added to
	seen  map[string]*sighting // the foreign entries that have not ended
}

// sighting is a foreign entry that the client has seen.
type sighting struct {
	since  time.Time
	logged bool
}

// New returns the Fleet of a client that uses these layouts, one or two; nil if there are none.
// strict: the client stays out while a foreign entry is in use.
func New(layouts []string, strict bool, logger *slog.Logger) *Fleet {
	if len(layouts) == 0 {
		return nil
	}
	return &Fleet{
		own: layout.Text(layouts), strict: strict, logger: logger, seen: make(map[string]*sighting),
	}
}

// Foreign returns how many foreign entries are in use, as far as the client knows. f may be nil.
func (f *Fleet) Foreign() int {
	if f == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.inUse(time.Now()))
}

// all returns the nodes so far. One that is added later asks Refuses before it is admitted.
func (f *Fleet) all() []*Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes
}

// inUse returns the foreign entries that have not ended. mu is held.
func (f *Fleet) inUse(now time.Time) layout.Uses {
	all := make(layout.Uses)
	for _, n := range f.nodes {
		for ids, until := range n.foreign {
			all.Add(ids, n.config.Name, until.Sub(now))
		}
	}
	return all
}

// record takes the entries of others that a node has shown, with how long they last. It reports
// whether some are foreign that no node has shown before. It logs what has appeared or is gone.
func (f *Fleet) record(n *Node, entries []layout.Entry, now time.Time) (appeared bool) {
	foreign := make(map[string]time.Time)
	for _, e := range entries {
		if layout.Foreign(f.own, e.IDs) {
			foreign[e.IDs] = now.Add(time.Duration(e.Millis) * time.Millisecond)
		}
	}
	f.mu.Lock()
	n.foreign = foreign
	all := f.inUse(now)
	var shown, gone []string
	for ids := range all {
		s := f.seen[ids]
		if s == nil {
			s, appeared = &sighting{since: now}, true
			f.seen[ids] = s
		}
		if !s.logged && now.Sub(s.since) >= sightingTime {
			s.logged = true
			shown = append(shown, ids)
		}
	}
	for ids, s := range f.seen {
		if _, still := all[ids]; !still {
			delete(f.seen, ids)
			if s.logged {
				gone = append(gone, ids)
			}
		}
	}
	f.mu.Unlock()
	for _, ids := range shown {
		f.logger.Error("lockpipe: "+foreignText, slog.String("layout", ids),
			slog.String("own", f.own), slog.Any("nodes", all[ids].Nodes))
	}
	for _, ids := range gone {
		f.logger.Info("lockpipe: the layout that shares no quorum is not in use any more",
			slog.String("layout", ids), slog.String("own", f.own))
	}
	return appeared
}

// quarantine returns why no node of a strict client votes; nil if nothing foreign is in use, or the
// client is not strict.
func (f *Fleet) quarantine() error {
	if !f.strict {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	all := f.inUse(now)
	if len(all) == 0 {
		return nil
	}
	var texts []string
	var longest time.Duration
	for _, ids := range slices.Sorted(maps.Keys(all)) {
		texts = append(texts, fmt.Sprintf("%s on %s", ids, strings.Join(all[ids].Nodes, ", ")))
		longest = max(longest, all[ids].Lasts)
	}
	return &restartguard.Quarantine{
		Until: now.Add(longest), Renewed: true,
		Reason: fmt.Sprintf("%s (%s; this one's is %s)", foreignText, strings.Join(texts, "; "),
			f.own),
	}
}

// awaitsLog reports whether a foreign entry was seen and is not logged yet.
func (f *Fleet) awaitsLog() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.seen {
		if !s.logged {
			return true
		}
	}
	return false
}
