package inspection

import (
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// Facts is what one inspection of a node has found out. What the server did not show has its zero
// value.
type Facts struct {
	// Node is its address, without user and password. LayoutName is what layouts call it.
	Node, LayoutName string
	// Err is why the node could not be asked, or not to the end; nil if it could.
	Err error
	// CommandErrors has the commands that the server answered with an error.
	CommandErrors []CommandError

	// ServerCertificate and ClientCertificate are for how long the certificates of TLS last; 0:
	// there are none.
	ServerCertificate, ClientCertificate time.Duration
	// Info has the fields of INFO.
	Info map[string]string
	// Server is what the server calls itself, such as Valkey, and Version is its version. Both are
	// empty if it does not say.
	Server, Version string
	// RedisVersion is the version of Redis that the server claims to be like. For Redis it is the
	// same as Version.
	RedisVersion string
	// RunID is new at each start of a server, and no two servers have the same.
	RunID string
	// Other is another server to which the node's name leads, at the same time as to this one.
	Other OtherServer
	// Uptime is in whole seconds; 0 if the server does not show it.
	Uptime time.Duration
	// Replica says that it copies another server, at Master: host:port.
	Replica bool
	Master  string
	// ReplicationID is the same for a master and all its replicas.
	ReplicationID string
	// Cluster says that it runs in cluster mode, Sentinel that it holds no data and watches
	// masters, Loading that it still reads its data.
	Cluster, Sentinel, Loading bool
	// Memory and MaxMemory are in bytes; 0 for MaxMemory is no limit. Policy is what it does at the
	// limit.
	Memory, MaxMemory uint64
	Policy            string
	// Clients are connected, of at most MaxClients; 0 if the server does not say.
	Clients, MaxClients uint64
	// AOF says that it writes an append-only file; Fsync is when that reaches the disk: always,
	// everysec or no.
	AOF   bool
	Fsync string
	// Rewriting says that a rewrite of that file suspends Fsync.
	Rewriting bool
	// Snapshots says when it writes its data to disk as a whole.
	Snapshots string
	// BacklogTTL is how long after its last replica it forgets that it was one itself; 0 is never.
	BacklogTTL time.Duration
	// LastSaveFailed says that the last write to disk failed, of the file or of a snapshot.
	LastSaveFailed bool

	// Admission is what the key of the restart guard says; nil if it was not read.
	Admission *Admission
	// Layouts has the fields and values that clients have left there, which take turns: see
	// fleet.ParseEntries.
	Layouts []string

	// Samples are requests for the time, in the order in which they were sent.
	Samples []Sample
}

// CommandError is a command that a server answered with an error.
type CommandError struct {
	Command string
	// Text is the error, without the password.
	Text string
}

// Admission is the key of the restart guard.
type Admission struct {
	Text string        // "" if there is no key
	PTTL time.Duration // below 0 if it has no end
}

// Sample is one request for a server's time.
type Sample struct {
	// Sent and Received are on the client's clock.
	Sent, Received time.Time
	// Server is what the server answered, on its own clock; zero if it answered an error.
	Server time.Time
}

// RoundTrip returns how long the answer took.
func (s Sample) RoundTrip() time.Duration { return s.Received.Sub(s.Sent) }

// readInfo takes the text of INFO.
func (f *Facts) readInfo(text string) {
	fields := resp.ParseInfo(strings.TrimPrefix(text, "txt:")) // the type of a verbatim string
	f.Info = fields
	number := func(name string) uint64 {
		n, _ := strconv.ParseUint(fields[name], 10, 64) // 0 stands for not shown
		return n
	}
	f.RedisVersion = fields["redis_version"]
	for _, is := range []struct{ server, version string }{
		{"Valkey", fields["valkey_version"]},
		{"Dragonfly", fields["dragonfly_version"]},
		{"Redis", f.RedisVersion},
	} {
		if is.version != "" {
			f.Server, f.Version = is.server, is.version
			break
		}
	}
	f.RunID, f.ReplicationID = fields["run_id"], fields["master_replid"]
	if role := fields["role"]; role == "slave" || role == "replica" {
		f.Replica, f.Master = true, net.JoinHostPort(fields["master_host"], fields["master_port"])
	}
	f.Uptime = time.Duration(number("uptime_in_seconds")) * time.Second
	mode := resp.ServerMode(fields)
	f.Cluster = fields["cluster_enabled"] == "1" || mode == "cluster"
	f.Sentinel = mode == "sentinel"
	f.Loading = fields["loading"] == "1" || fields["async_loading"] == "1"
	f.Memory, f.MaxMemory, f.Policy = number("used_memory"), number("maxmemory"),
		fields["maxmemory_policy"]
	f.Clients, f.MaxClients = number("connected_clients"), number("maxclients")
	f.AOF = fields["aof_enabled"] == "1"
	f.LastSaveFailed = fields["aof_last_write_status"] == "err" ||
		fields["rdb_last_bgsave_status"] == "err"
}

// readConfig takes settings from CONFIG GET.
func (f *Facts) readConfig(settings map[string]string) {
	for name, value := range settings {
		switch name {
		case "appendfsync":
			f.Fsync = value
		case "no-appendfsync-on-rewrite":
			f.Rewriting = value == "yes"
		case "save":
			f.Snapshots = value
		case "repl-backlog-ttl":
			seconds, _ := strconv.ParseInt(value, 10, 32)
			f.BacklogTTL = time.Duration(seconds) * time.Second
		}
	}
}

// readTime takes the answer to TIME: seconds and microseconds.
func readTime(r resp.Value) (at time.Time, ok bool) {
	if len(r.Items) != 2 {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseInt(r.Items[0].Text, 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	micros, err := strconv.ParseInt(r.Items[1].Text, 10, 64)
	return time.Unix(seconds, micros*int64(time.Microsecond)), err == nil
}
