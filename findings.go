package lockpipe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/multiplex"
)

const (
	// The oldest Redis that has what the scripts and commands need.
	oldestMajor, oldestMinor = 6, 2
	// nearlyAll is the share of a server's connections or memory from which on it may soon refuse,
	// in percent.
	nearlyAll = 90
	percent   = 100
)

// judged says what the facts mean for locks. It asks nobody.
func (cfg Config) judged(facts []multiplex.Facts) Inspection {
	var all Inspection
	for i := range facts {
		f := &findings{cfg: cfg, node: facts[i].Node}
		f.judgeState(&facts[i], facts)
		f.judge(&facts[i])
		all = append(all, f.all...)
	}
	f := &findings{cfg: cfg}
	f.judgePairs(facts)
	f.judgeNumber(len(facts))
	return append(all, f.all...)
}

// findings gathers those about one node, or about all.
type findings struct {
	cfg  Config
	node string
	all  Inspection
}

func (f *findings) add(s Severity, format string, args ...any) {
	f.all = append(f.all, Finding{Node: f.node, Severity: s, Text: fmt.Sprintf(format, args...)})
}

// judgeState is about a node that has no vote, or can't be asked. all are the facts of all nodes.
func (f *findings) judgeState(node *multiplex.Facts, all []multiplex.Facts) {
	why, state := node.StateErr, node.State
	switch {
	case node.Err != nil && votes(node) && !strings.HasPrefix(node.Err.Error(), "no answer "):
		f.add(SeverityError, "takes no new connection (%v), so it has no vote when it loses "+
			"the present one: %s", node.Err, remedy(node.Err))
	case node.Err != nil:
		f.add(SeverityError, "can't be used and has no vote (%v): %s", node.Err, remedy(node.Err))
	case state == NodeQuarantined:
		f.add(SeverityError, "has no vote: %v", why)
	case state == NodeFailing:
		f.add(SeverityError, "is failing, and grants no locks (%v): %s", why, remedy(why))
	case state == NodeConnecting:
		f.add(SeverityWarning, "answers, but has no vote before the client is connected")
	case state == NodeDown && !explained(node, all):
		f.add(SeverityError, "answers, but can't be used and has no vote (%v): %s", why,
			remedy(why))
	}
}

// votes reports whether the client has a connection to the node over which it votes.
func votes(node *multiplex.Facts) bool { return node.State == NodeUp }

// explained reports whether other findings say why the node is down.
func explained(node *multiplex.Facts, all []multiplex.Facts) bool {
	return node.Cluster || node.Sentinel || !recent(node.RedisVersion) ||
		slices.ContainsFunc(all, func(other multiplex.Facts) bool {
			return other.Node != node.Node && same(node, &other)
		})
}

// same reports whether two nodes are the same server.
func same(a, b *multiplex.Facts) bool { return a.RunID != "" && a.RunID == b.RunID }

// judge is about one node. What it did not tell gives no finding but that it did not.
func (f *findings) judge(node *multiplex.Facts) {
	f.judgeServer(node)
	if node.Sentinel { // which has no locks, and knows few commands
		f.add(SeverityError, "is a Redis Sentinel, which holds no data: "+
			"list the masters themselves, or add ?master_set=NAME with the master's name there")
		return
	}
	for _, r := range node.CommandErrors {
		if r.Command == "CLIENT CACHING" && refuses(node, "CLIENT TRACKING") {
			continue // the other finding names both
		}
		f.judgeRefusal(r)
	}
	if node.Version != "" {
		f.judgeRole(node)
		f.judgeMemory(node)
		f.judgePersistence(node)
	}
	f.judgeLatency(node.Samples)
	f.judgeClock(node.Samples)
}

// remedies are what to do about a node that can't be used, by what its error says. The first
// counts.
var remedies = [...]struct{ says, do string }{
	{"no sentinel names the master:", "do what is said for each sentinel, or correct its URL"},
	{"Config.Credentials", "correct Config.Credentials"},
	{"WRONGPASS ", "correct the user or password in its URL or of Config.Credentials, " +
		"or on the server (ACL SETUSER)"},
	{"NOAUTH ", "the server wants a password: put user and password into its URL, " +
		"or set Config.Credentials"},
	{"NOPERM ", "give its user the permissions that docs/operations.md lists (ACL SETUSER)"},
	{"DENIED ", "set a password on the server, and put it into its URL"},
	{"OOM ", "raise its maxmemory, or keep other data off it"},
	{"MISCONF ", "look at its disk and its log"},
	{"max number of clients", "raise its maxclients, or close other clients"},
	{"lookup ", "correct the host name in its URL, or the name service (DNS) of this machine"},
	{"connection refused", "start it, or correct its URL: nothing listens at that address"},
	{"came without TLS", "if the server wants TLS, use rediss:// in its URL"},
	{"no answer to TLS", "if the server speaks no TLS, use redis:// in its URL"},
	{"x509: ", "correct Config.TLS or the server's certificate: see docs/operations.md"},
	{"tls: ", "correct Config.TLS or the server's certificate: see docs/operations.md"},
	{"Config.Dial", "correct Config.Dial"},
	{"not connected within", hangs},
	{"no answer ", hangs},
	{"timeout", hangs},
	{"unreachable", route},
	{"no route to host", route},
}

// What to do about a node that says nothing, or where there is no way to it.
const (
	hangs = "find out whether the server hangs, or a firewall drops what is sent to it"
	route = "correct its URL, or the route and the firewalls in between"
)

// remedy is what to do about a node that can't be used.
func remedy(err error) string {
	text := fmt.Sprint(err)
	for _, r := range remedies {
		if strings.Contains(text, r.says) {
			return r.do
		}
	}
	return "start it, or correct its URL or what is wrong with it"
}

// judgeServer says what it is, and how fast.
func (f *findings) judgeServer(node *multiplex.Facts) {
	if node.Version == "" && node.Err == nil && !refuses(node, "INFO") {
		f.add(SeverityInfo, "is no Redis or Valkey that tells its version (INFO), so its role, "+
			"memory, persistence and identity could not be checked")
	}
	if n := len(node.Samples); n > 0 {
		name := strings.TrimSpace(node.Server + " " + node.Version)
		if name == "" {
			name = "the server"
		}
		median, longest := roundTrips(node.Samples)
		f.add(SeverityInfo, "%s answers within %v (median of %d; the slowest took %v)", name,
			median, n, longest)
	}
	if !recent(node.RedisVersion) {
		f.add(SeverityError, "runs %s %s like Redis %s, which lacks what lockpipe needs: "+
			"upgrade it to Redis %d.%d or later, or to Valkey",
			node.Server, node.Version, node.RedisVersion, oldestMajor, oldestMinor)
	}
}

// refuses reports whether the node answered a command with an error.
func refuses(node *multiplex.Facts, command string) bool {
	return slices.ContainsFunc(node.CommandErrors,
		func(r multiplex.CommandError) bool { return r.Command == command })
}

// recent reports whether a version of Redis is new enough, also where it is no version.
func recent(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return true
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return true
	}
	minor, err := strconv.Atoi(parts[1])
	return err != nil || major > oldestMajor || major == oldestMajor && minor >= oldestMinor
}

// judgeRefusal says what a command that is refused costs, and what permission it needs. The
// server's text may name the user.
func (f *findings) judgeRefusal(r multiplex.CommandError) {
	const polls = "waiting calls are not notified when a key is free, and ask again and again"
	lost := map[string]struct{ what, permission string }{
		"INFO": {
			"its version, role, memory, persistence and identity could not be checked",
			"+info",
		},
		"CONFIG GET": {
			"whether its locks outlast a restart could not be checked",
			"+config|get (before Redis 7: +config)",
		},
		"TIME": {"the rate of its clock could not be checked", "+time"},
		"CLIENT TRACKING": {
			polls + ", and a flush may go unnoticed",
			"+client|tracking +client|caching",
		},
		"CLIENT CACHING": {polls, "+client|caching"},
	}[r.Command]
	severity := SeverityInfo
	if strings.HasPrefix(r.Command, "CLIENT ") {
		severity = SeverityWarning
	}
	switch {
	case strings.HasPrefix(r.Text, "NOPERM"):
		f.add(severity, "does not permit %s, so %s: give the user %s",
			r.Command, lost.what, lost.permission)
	case strings.HasPrefix(strings.ToLower(r.Text), "unknown "):
		f.add(SeverityInfo, "does not know %s, so %s", r.Command, lost.what)
	default:
		f.add(SeverityInfo, "answers %s with %.100q, so %s", r.Command, r.Text, lost.what)
	}
}

// judgeRole is about servers that refuse to write.
func (f *findings) judgeRole(node *multiplex.Facts) {
	if node.Replica {
		f.add(SeverityError, "is a replica of %s and refuses locks: list a master of its own in "+
			"its place", node.Master)
	}
	if node.Cluster {
		f.add(SeverityError, "runs in cluster mode, which refuses calls whose keys lie in "+
			"different slots: use a server with cluster-enabled no")
	}
	if node.Loading {
		f.add(SeverityWarning, "is loading its data and refuses locks until that is done")
	}
	if node.LastSaveFailed {
		f.add(SeverityWarning, "could not write its data to disk and may refuse locks "+
			"(MISCONF): look at its disk and its log")
	}
	if node.MaxClients > 0 && node.Clients >= node.MaxClients*nearlyAll/percent {
		f.add(SeverityWarning, "has %d of at most %d clients and soon refuses connections: "+
			"raise maxclients", node.Clients, node.MaxClients)
	}
}

// judgeMemory is about what happens to locks when memory is full.
func (f *findings) judgeMemory(node *multiplex.Facts) {
	evicts := node.Policy != "" && node.Policy != "noeviction"
	used := uint64(float64(node.Memory) / max(1, float64(node.MaxMemory)) * percent)
	switch {
	case evicts && node.MaxMemory > 0:
		f.add(SeverityError, "evicts keys when its memory is full (maxmemory-policy %s), and "+
			"locks with them while they are held: set maxmemory-policy noeviction",
			node.Policy)
	case evicts:
		f.add(SeverityWarning, "would evict locks with maxmemory-policy %s as soon as it had a "+
			"maxmemory: set maxmemory-policy noeviction", node.Policy)
	case node.MaxMemory > 0 && used >= percent:
		f.add(SeverityError, "refuses locks, because it uses %s, more than its maxmemory (%s): "+
			"keep other data off it, or raise maxmemory", size(node.Memory), size(node.MaxMemory))
	case node.MaxMemory > 0 && used >= nearlyAll:
		f.add(SeverityWarning, "soon refuses locks, because it uses %s, %d %% of its maxmemory "+
			"(%s): "+
			"keep other data off it, or raise maxmemory", size(node.Memory), used,
			size(node.MaxMemory))
	case node.MaxMemory > 0:
		f.add(SeverityWarning, "refuses locks when it uses the %s of its maxmemory (now %s, %d "+
			"%%): keep other data off it, or raise maxmemory",
			size(node.MaxMemory), size(node.Memory), used)
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

// judgePersistence says what a restart does to the locks.
func (f *findings) judgePersistence(node *multiplex.Facts) {
	switch {
	case node.AOF && refuses(node, "CONFIG GET"): // which is a finding already
	case node.AOF && node.Fsync == "always" && !node.Rewriting:
		f.add(SeverityInfo, "writes each lock to disk before it answers (AOF, appendfsync "+
			"always): a restart keeps them, and it may vote at once")
	case node.AOF && node.Fsync == "always":
		f.forgets("writes its AOF at once, but not during rewrites: a restart may forget the "+
			"latest locks, so %s; no-appendfsync-on-rewrite no would keep them",
			f.afterRestart())
	case node.AOF:
		f.forgets("writes its AOF late (appendfsync %s): a restart may forget the latest locks, "+
			"so %s; appendfsync always would keep them",
			node.Fsync, f.afterRestart())
	case node.Snapshots != "":
		f.forgets("writes snapshots only: a restart forgets locks, so %s; AOF with appendfsync "+
			"always would keep them", f.afterRestart())
	default:
		f.forgets("has no AOF: a restart forgets locks, so %s; AOF with appendfsync always "+
			"would keep them", f.afterRestart())
	}
}

// forgets adds what a restart does to the locks of a node that forgets them.
func (f *findings) forgets(format string, args ...any) {
	severity := SeverityInfo
	if f.cfg.RestartGuard == GuardOff {
		severity = SeverityWarning
	}
	f.add(severity, format, args...)
}

// afterRestart is what becomes of a node that may have forgotten locks.
func (f *findings) afterRestart() string {
	if f.cfg.RestartGuard == GuardOff {
		return "two callers may hold the same lock after one, because RestartGuard is off"
	}
	return fmt.Sprintf("after one it does not vote for MaxTTL (%v)", f.cfg.MaxTTL)
}

// judgeLatency compares with the time that an attempt waits.
func (f *findings) judgeLatency(samples []multiplex.Sample) {
	if len(samples) == 0 {
		return
	}
	if _, longest := roundTrips(samples); longest > f.cfg.NodeTimeout/2 {
		f.add(SeverityWarning, "took %v for one of %d answers, more than half of NodeTimeout "+
			"(%v), so votes may come too late: raise NodeTimeout, or find what delays it",
			longest, len(samples), f.cfg.NodeTimeout)
	}
}

// roundTrips returns the median and the longest, of at least one.
func roundTrips(samples []multiplex.Sample) (median, longest time.Duration) {
	all := make([]time.Duration, len(samples))
	for i, s := range samples {
		all[i] = s.RoundTrip().Round(10 * time.Microsecond)
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)-1]
}

// judgePairs is about nodes that are not independent: their votes are one. Each node is held
// against those before it, once.
func (f *findings) judgePairs(facts []multiplex.Facts) {
	for j := range facts {
		for i := range j {
			if f.judgePair(&facts[i], &facts[j]) {
				break
			}
		}
	}
}

// judgePair reports whether it has found something. Two servers know each other's addresses in the
// network where they are, which may not be ours, so the identity of their data tells as well.
func (f *findings) judgePair(a, b *multiplex.Facts) bool {
	const advice = "their votes are not independent; list masters only"
	switch {
	case same(a, b):
		if votes(b) && !votes(a) { // it is about the node that is down for it
			a, b = b, a
		}
		f.node = b.Node
		f.add(SeverityError, "is the same server as %s (run_id %s), which is listed as well and "+
			"would vote twice: list it once", a.Node, a.RunID)
	case b.Replica && b.Master == a.Node:
		f.node = b.Node
		f.add(SeverityError, "is a replica of %s, which is listed as well: %s", a.Node, advice)
	case a.Replica && a.Master == b.Node:
		f.node = a.Node
		f.add(SeverityError, "is a replica of %s, which is listed as well: %s", b.Node, advice)
	case a.ReplicationID != "" && a.ReplicationID == b.ReplicationID:
		f.node = b.Node
		f.add(SeverityError, "has the same data as %s (master_replid), so one is a replica of "+
			"the other, or both of a third: %s", a.Node, advice)
	default:
		return false
	}
	return true
}

// judgeNumber is about how many nodes there are.
func (f *findings) judgeNumber(n int) {
	f.node = ""
	if n == 1 && f.cfg.RestartGuard == GuardAuto {
		f.add(SeverityWarning, "one node with GuardAuto: to a new client, a server that lost "+
			"its locks "+
			"looks as before its first use, and one whose disk was put back from a copy looks "+
			"intact; "+
			"both vote at once, while others may hold locks: use GuardStrict, which waits for "+
			"MaxTTL (%v)",
			f.cfg.MaxTTL)
	}
	switch {
	case n == 1:
		f.add(SeverityWarning, "one node is all there is: without it nobody gets a lock; use "+
			"three or five masters")
	case n == 2:
		f.add(SeverityWarning, "two nodes make a quorum only together: when one fails nobody "+
			"gets a lock; use three or five masters")
	case n%2 == 0:
		f.add(SeverityInfo, "%d nodes tolerate as many failures as %d would (%d): one more "+
			"would tolerate another", n, n-1, (n-1)/2)
	}
}
