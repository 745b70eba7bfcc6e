package preflight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/inspection"
	"github.com/lockpipe/lockpipe/internal/layout"
)

// checkLayouts reports which layouts clients use on the nodes, and which of them share no quorum
// with this client's.
func (f *findings) checkLayouts(facts []inspection.Facts) {
	own, found := layout.Text(f.set.Layouts), make(layout.Uses)
	for i := range facts {
		for _, e := range facts[i].Layouts {
			lasts := time.Duration(e.Millis-serverMillis(facts[i].Samples)) * time.Millisecond
			found.Add(e.IDs, facts[i].Node, lasts)
		}
	}
	var texts, foreign []string
	for _, ids := range slices.Sorted(maps.Keys(found)) {
		whose := ""
		if ids == own {
			whose = " (this client's)"
		} else if layout.Foreign(own, ids) {
			foreign = append(foreign, ids)
		}
		// Rounded up: after that time the entry is certainly gone.
		seconds := (found[ids].Lasts + time.Second - 1).Truncate(time.Second)
		texts = append(texts, fmt.Sprintf("%s%s until at most %v from now", ids, whose, seconds))
	}
	if len(texts) > 0 {
		f.infof("layouts in use: %s", strings.Join(texts, "; "))
	}
	for _, ids := range foreign {
		f.errorf("another client uses the layout %s (seen on %s), which shares no quorum with this "+
			"client's (%s), so the two do not exclude each other: give both the same nodes; if "+
			"the fleet moves, set Config.Next first",
			ids, strings.Join(found[ids].Nodes, ", "), cmp.Or(own, "none"))
	}
}

// serverMillis returns the last time that a server answered, in milliseconds; 0 if there is none,
// and then nothing has ended.
func serverMillis(samples []inspection.Sample) int64 {
	for _, s := range slices.Backward(samples) {
		if !s.Server.IsZero() {
			return s.Server.UnixMilli()
		}
	}
	return 0
}
