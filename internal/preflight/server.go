package preflight

import (
	"cmp"
	"strings"
	"time"
)

// checkServer reports what the server is, and how fast.
func (f *findings) checkServer(node *Facts) {
	server, version := node.server()
	if version == "" && node.Err == nil && !node.returnedError("INFO") {
		f.infof("is no Redis or Valkey that tells its version (INFO), so its role, " +
			"memory, persistence and identity could not be checked")
	}
	if n := len(node.Samples); n > 0 {
		name := cmp.Or(strings.TrimSpace(server+" "+version), "the server")
		median, longest := roundTrips(node.Samples)
		f.infof("%s answers within %v (median of %d; the slowest took %v)", name, median, n,
			longest)
	}
}

// checkRefusal reports what is missing without a command that the server answered with an error,
// and the permission for it. The server's text may name the user, and is not reported then.
func (f *findings) checkRefusal(r CommandError) {
	const polls = "waiting calls are not notified when a key is free, and ask again and again"
	lost := map[string]struct{ what, permission string }{
		"INFO": {
			"its version, role, memory, persistence and identity could not be checked",
			"+info",
		},
		"CONFIG GET": {
			"whether it writes to disk, and its repl-backlog-ttl, could not be checked",
			"+config|get (before Redis 7: +config)",
		},
		"HGETALL": {
			"the layouts that clients use could not be read",
			"+hgetall and its keys (see docs/operations.md)",
		},
		"PTTL": {
			"how long a record of the restart guard lasts could not be read",
			"+pttl and its keys (see docs/operations.md)",
		},
		"TIME": {"the rate of its clock could not be checked", "+time"},
		"CLIENT TRACKING": {
			polls + ", and the restart guard reads its key behind each trip",
			"+client|tracking +client|caching",
		},
		"CLIENT CACHING": {polls, "+client|caching"},
	}[r.Command]
	notPermitted := f.infof
	if strings.HasPrefix(r.Command, "CLIENT ") {
		notPermitted = f.warnf
	}
	switch {
	case strings.HasPrefix(r.Text, "NOPERM"):
		notPermitted("does not permit %s, so %s: give the user %s", r.Command, lost.what, lost.permission)
	case strings.HasPrefix(strings.ToLower(r.Text), "unknown "):
		f.infof("does not know %s, so %s", r.Command, lost.what)
	default:
		f.infof("answers %s with %.100q, so %s", r.Command, r.Text, lost.what)
	}
}

// checkCertificates reports certificates that end soon: then no connection can be made.
func (f *findings) checkCertificates(node *Facts) {
	const day, soon = 24 * time.Hour, 14
	for i, left := range [...]time.Duration{node.ServerCertificate, node.ClientCertificate} {
		if left != 0 && left < soon*day {
			f.warnf("%s TLS certificate ends in less than %d days: renew it, as docs/operations.md "+
				"says without a restart", [...]string{"its", "the client's"}[i], max(0, left/day)+1)
		}
	}
}

// checkRole reports why a server refuses to write.
func (f *findings) checkRole(node *Facts) {
	if master, isReplica := node.master(); isReplica {
		f.errorf("is a replica of %s and refuses locks: list a master of its own in its place", master)
	}
	if node.Info["loading"] == "1" || node.Info["async_loading"] == "1" {
		f.warnf("is loading its data and refuses locks until that is done")
	}
	if node.Info["aof_last_write_status"] == "err" ||
		node.Info["rdb_last_bgsave_status"] == "err" {
		f.warnf("could not write its data to disk and may refuse locks (MISCONF): look at its " +
			"disk and its log")
	}
	clients, most := node.number("connected_clients"), node.number("maxclients")
	if most > 0 && clients >= most*nearlyAll/percent {
		f.warnf("has %d of at most %d clients and soon refuses connections: raise maxclients",
			clients, most)
	}
}
