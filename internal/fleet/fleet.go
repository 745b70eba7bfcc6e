// Package fleet lets the clients of a node know of each other. Each leaves an entry on each of its
// nodes: which nodes it uses, its MaxTTL and its owner. It reads the entries of others there.
//
// The restart guard counts on them. A node that may have lost locks must not vote for the longest
// wait of all entries, those of clients that have ended too. So a client leaves its entry before a
// node's first vote, and uses the votes only while it knows that its entry outlasts its locks.
//
// People count on them too. Two clients exclude each other only if they have a layout in common, so
// the log names what is foreign. That stops nothing: no false alarm is to stop a fleet.
package fleet

import (
	"cmp"
	"log/slog"
	"sync"
	"time"
)

// sightingTime is for how long a foreign layout is seen before it is logged. Meanwhile the other
// nodes are asked, so that the log can name all that show it.
const sightingTime = time.Second

// Config says what a client leaves on its nodes.
type Config struct {
	// Layouts are the present one and, while the fleet moves, the next: see Sorted.
	Layouts [][]Group
	Owner   string // may be empty
	MaxTTL  time.Duration
	Logger  *slog.Logger
}

// Fleet is what one client knows of the others. All methods are safe for concurrent use.
type Fleet struct {
	config Config // without Layouts if they are too long, and with a Logger that names Owner

	mu      sync.Mutex // guards all below; a leaf
	nodes   []*Node    // only added to
	servers []*Server  // of the nodes
	// seen has the foreign layouts in use, by Use.Text, and since when; zero once it is logged.
	seen      map[string]time.Time
	warnedTTL time.Duration // the longest MaxTTL that was logged
}

// New returns the Fleet of a client.
func New(c Config) *Fleet {
	c.Owner = cmp.Or(c.Owner, "-")
	c.Logger = c.Logger.With(slog.String("own_owner", c.Owner))
	if len(inJSON(c.Layouts)) > maxLayouts {
		c.Layouts = nil
	}
	return &Fleet{config: c, warnedTTL: c.MaxTTL}
}

// Foreign returns how many foreign layouts are in use, as far as the client knows.
func (f *Fleet) Foreign() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.seen)
}

// look compares what all servers have shown, and returns what is to be logged. appeared: there is a
// foreign layout that was not there before. mu is held.
func (f *Fleet) look() (appeared bool, log []func()) {
	now, seen := time.Now(), make(map[string]time.Time)
	uses, own := Uses(f.config.Layouts, f.servers)
	for _, u := range uses {
		who := []any{slog.String("owner", u.Owner), slog.Any("nodes", u.Nodes)}
		if u.MaxTTL() > f.warnedTTL {
			f.warnedTTL = u.MaxTTL()
			log = append(log, func() {
				f.config.Logger.With(who...).Warn("lockpipe: another client has a longer MaxTTL, "+
					"for which nodes wait after a loss: give all clients of these nodes the same "+
					"MaxTTL", slog.Duration("max_ttl", u.MaxTTL()),
					slog.Duration("own_max_ttl", f.config.MaxTTL))
			})
		}
		if _, done := seen[u.Text]; done || !u.Foreign {
			continue
		}
		since, known := f.seen[u.Text]
		switch {
		case !known:
			since, appeared = now, true
		case !since.IsZero() && now.Sub(since) >= sightingTime:
			since = time.Time{}
			log = append(log, func() {
				f.config.Logger.With(who...).Error("lockpipe: another client uses a layout that "+
					"shares no quorum with this one's, so the two do not exclude each other: "+
					"give both the same nodes; if the fleet moves, set Config.Next first",
					slog.String("layout", u.Text), slog.String("own_layout", own))
			})
		}
		seen[u.Text] = since
	}
	for text, since := range f.seen {
		if _, still := seen[text]; !still && since.IsZero() {
			log = append(log, func() {
				f.config.Logger.Info("lockpipe: the layout that shares no quorum is not in use "+
					"any more", slog.String("layout", text))
			})
		}
	}
	f.seen = seen
	return appeared, log
}
