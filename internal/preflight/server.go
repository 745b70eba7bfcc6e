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

const polls = "waiting calls are not notified when a key is free, and ask again and again"

// lost says what is missing without a command.
var lost = map[string]string{
	"INFO":            "its version, role, memory, persistence and identity could not be checked",
	"CONFIG GET":      "whether it writes to disk, and its repl-backlog-ttl, could not be checked",
	"HGETALL":         "the layouts that clients use could not be read",
	"GET":             "the record of the restart guard could not be read",
	"PTTL":            "how long a record of the restart guard lasts could not be read",
	"CLUSTER INFO":    "how many masters its cluster has could not be checked",
	"TIME":            "the rate of its clock could not be checked",
	"CLIENT TRACKING": polls + ", and the restart guard reads its key behind each trip",
	"CLIENT CACHING":  polls,
}

// checkRefusal reports what is missing without a command that the server answered with an error,
// and the permission for it. The server's text may name the user, and is not reported then.
func (f *findings) checkRefusal(r CommandError) {
	what, severity := lost[r.Command], Info
	permission := "+" + strings.ReplaceAll(strings.ToLower(r.Command), " ", "|")
	if strings.HasPrefix(r.Command, "CLIENT ") {
		severity = Warning
	}
	if r.Command == "CLIENT TRACKING" {
		permission += " +client|caching"
	}
	switch {
	case strings.HasPrefix(r.Text, "NOPERM"):
		f.addf(severity, "does not permit %s, so %s: give the user %s (see docs/operations.md)",
			r.Command, what, permission)
	case strings.HasPrefix(strings.ToLower(r.Text), "unknown "):
		f.infof("does not know %s, so %s", r.Command, what)
	default:
		f.infof("answers %s with %.100q, so %s", r.Command, r.Text, what)
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
	if node.SlotOf > 0 && node.Info["connected_slaves"] == "0" {
		f.warnf("has no replica: if it is lost, nobody has its slots until it is back")
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
