package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/fleet"
)

// checkLayouts reports which layouts clients use on the nodes, which share no quorum with this
// client's, and whether MaxTTLs differ.
func (f *findings) checkLayouts(nodes []Facts) {
	now := time.Now()
	var servers []*fleet.Server
	for _, n := range nodes {
		uptime := time.Duration(n.number("uptime_in_seconds")) * time.Second
		s := &fleet.Server{
			Node: n.LayoutName, RunID: n.RunID(), Since: now.Add(time.Second - uptime),
		}
		for _, t := range n.Samples {
			if !t.Server.IsZero() {
				s.Entries = fleet.ParseEntries(n.Layouts, t.Server.UnixMilli(), t.Received)
			}
		}
		servers = append(servers, s)
	}
	uses, own := fleet.Uses(f.cfg.Layouts, servers)
	slices.SortStableFunc(uses, func(a, b *fleet.Use) int {
		return cmp.Or(cmp.Compare(b.MaxTTL(), a.MaxTTL()), cmp.Compare(a.Text, b.Text))
	})
	var texts, maxTTLs []string
	for i, u := range uses {
		whose := ""
		if u.Text == own {
			whose = "this client's; "
		}
		seconds := func(d time.Duration) time.Duration { return max(0, d).Truncate(time.Second) }
		texts = append(texts, fmt.Sprintf("%s (%sowner %s, MaxTTL %v, renewed %v ago) until at "+
			"most %v from now", u.Text, whose, u.Owner, u.MaxTTL(), seconds(now.Sub(u.Renewed())),
			seconds(u.Until.Sub(now))+time.Second))
		if i == 0 || u.MaxTTL() != uses[i-1].MaxTTL() {
			maxTTLs = append(maxTTLs, fmt.Sprintf("%v (owner %s)", u.MaxTTL(), u.Owner))
		}
	}
	if len(texts) > 0 {
		f.infof("layouts in use: %s", strings.Join(texts, "; "))
	}
	if len(maxTTLs) > 1 || len(uses) > 0 && uses[0].MaxTTL() > f.cfg.MaxTTL {
		f.warnf("nodes have MaxTTL %s on record, and wait for the longest after a loss: give all "+
			"clients the same MaxTTL (here it is %v)", strings.Join(maxTTLs, " and "), f.cfg.MaxTTL)
	}
	for _, u := range uses {
		if u.Foreign {
			f.errorf("another client (owner %s) uses the layout %s (seen on %s), which shares no "+
				"quorum with this client's (owner %s, layout %s), so the two do not exclude each "+
				"other: give both the same nodes; if the fleet moves, set Config.Next first",
				u.Owner, u.Text, strings.Join(u.Nodes, ", "), cmp.Or(f.cfg.Owner, "-"), own)
		}
	}
}
