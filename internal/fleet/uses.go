package fleet

import (
	"maps"
	"slices"
	"time"
)

// inUse is for how long after its renewal an entry is compared. Its clients renew it each half
// minute, and others read it each half minute.
const inUse = 90 * time.Second

// Server is what the server of a node shows.
type Server struct {
	Node    string    // as layouts call it
	RunID   string    // "" if it is not known
	Since   time.Time // the node has certainly had this RunID since then
	Entries []Entry
}

// Use is that clients with one MaxTTL use the same layouts.
type Use struct {
	Entry          // the one that ends last
	Text  string   // of the layouts
	Nodes []string // whose servers show it
	// Foreign: they certainly share no layout with this client, and so do not exclude it.
	Foreign bool
}

// Uses returns what the servers of a client's nodes show. own are the client's layouts, and ownText
// is their Text.
func Uses(own [][]Group, servers []*Server) (all []*Use, ownText string) {
	for _, s := range servers {
		for _, e := range s.Entries {
			u := &Use{Entry: e, Text: describe(e.Layouts)}
			same := func(v *Use) bool { return v.Text == u.Text && v.MaxTTL() == u.MaxTTL() }
			if i := slices.IndexFunc(all, same); i >= 0 {
				u = all[i]
			} else {
				all = append(all, u)
			}
			if e.Until.After(u.Until) {
				u.Entry = e
			}
			u.Nodes = append(u.Nodes, s.Node)
			u.Foreign = u.Foreign || isForeign(own, servers, &e, s.RunID)
		}
	}
	return all, describe(own)
}

// isForeign reports whether an entry that server shows has certainly none of the own layouts.
func isForeign(own [][]Group, servers []*Server, e *Entry, server string) bool {
	restarted := server != "" && !slices.Contains(slices.Collect(maps.Values(e.RunIDs)), server)
	if time.Since(e.Renewed()) > inUse || len(own) == 0 || len(e.Layouts) == 0 || restarted {
		return false
	}
	runIDs := make(map[string]string) // of own nodes, since e was renewed
	for _, s := range servers {
		if !s.Since.After(e.Renewed()) {
			runIDs[s.Node] = s.RunID
		}
	}
	return !slices.ContainsFunc(own, func(mine []Group) bool {
		return slices.ContainsFunc(e.Layouts, func(theirs []Group) bool {
			return slices.EqualFunc(mine, theirs, func(g, h Group) bool {
				return g.Name == h.Name && mayBeSame(g.Nodes, h.Nodes, runIDs, e.RunIDs)
			})
		})
	})
}

// mayBeSame reports whether two lists may have the same nodes. Two nodes are the same if they have
// one name or one run_id. They may be the same if the run_id of either is not known.
func mayBeSame(a, b []string, aIDs, bIDs map[string]string) bool {
	return len(a) == len(b) && mayHaveAll(a, b, aIDs, bIDs) && mayHaveAll(b, a, bIDs, aIDs)
}

// mayHaveAll reports whether each node of b may be one of a.
func mayHaveAll(a, b []string, aIDs, bIDs map[string]string) bool {
	return !slices.ContainsFunc(b, func(m string) bool {
		return !slices.Contains(a, m) && !slices.ContainsFunc(a, func(n string) bool {
			known := aIDs[n] != "" && bIDs[m] != ""
			return !slices.Contains(b, n) && (!known || aIDs[n] == bIDs[m])
		})
	})
}
