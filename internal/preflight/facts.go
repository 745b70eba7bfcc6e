package preflight

import (
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
)

// Facts is what one look at a node has found out. What the server did not show has its zero value.
type Facts struct {
	*Status // nil without a client
	// Node is its address, without user and password. LayoutName is what layouts call it.
	Node, LayoutName string
	// SlotOf is of how many nodes in a Redis Cluster it is one for the client, and Shards how many
	// masters of that have slots. They are 0 for other nodes.
	SlotOf, Shards int
	// Err is why the node could not be asked, or not to the end; nil if it could.
	Err error
	// CommandErrors has the commands that the server answered with an error.
	CommandErrors []CommandError
	// ServerCertificate and ClientCertificate are for how long the certificates of TLS last; 0:
	// there are none.
	ServerCertificate, ClientCertificate time.Duration
	// Info has the fields of INFO, and Settings what CONFIG GET has returned.
	Info, Settings map[string]string
	// Other is another server to which the node's name leads, at the same time as to this one.
	Other OtherServer
	// Admission is what the key of the restart guard says; nil if it was not read.
	Admission *Admission
	// Layouts has the fields and values that clients have left there, which take turns: see
	// fleet.ParseEntries.
	Layouts []string
	// Samples are requests for the time, in the order in which they were sent.
	Samples []Sample
}

// Status is the state of a node in a client at the end of a look, and why it is that. A node that
// could be asked may be down or quarantined, and one that could not may be up.
type Status struct {
	State    link.State
	StateErr error
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

// RunID is new at each start of a server, and no two servers have the same.
func (f *Facts) RunID() string { return f.Info["run_id"] }

// unfit returns why the server can be no node.
func (f *Facts) unfit() error {
	why := guard.Unfit(f.Info)
	if why == guard.ErrInCluster && f.SlotOf > 0 {
		return nil
	}
	return why
}

// number returns a field of INFO that is a number; 0 if the server does not show it.
func (f *Facts) number(name string) uint64 {
	n, _ := strconv.ParseUint(f.Info[name], 10, 64)
	return n
}

// server returns what the server calls itself, such as Valkey, and its version. Both are empty if
// it does not say. A server that is like a Redis has redis_version too.
func (f *Facts) server() (name, version string) {
	for _, name := range []string{"valkey", "dragonfly", "redis"} {
		if version := f.Info[name+"_version"]; version != "" {
			return string(name[0]-'a'+'A') + name[1:], version
		}
	}
	return "", ""
}

// master returns whether the server copies another one, and that server's address: host:port.
func (f *Facts) master() (address string, isReplica bool) {
	if role := f.Info["role"]; role != "slave" && role != "replica" {
		return "", false
	}
	return net.JoinHostPort(f.Info["master_host"], f.Info["master_port"]), true
}

// returnedError reports whether the server answered a command with an error.
func (f *Facts) returnedError(command string) bool {
	return slices.ContainsFunc(f.CommandErrors,
		func(r CommandError) bool { return r.Command == command })
}

// isVoting reports whether the client has a connection to the node over which it votes.
func (f *Facts) isVoting() bool { return f.Status != nil && f.State == link.Up }

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
