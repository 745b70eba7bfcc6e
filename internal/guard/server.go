package guard

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// server is what a server shows of itself.
type server struct {
	// runID is drawn at each start of a server; "" if it does not show it, and infoErr is why.
	runID   string
	infoErr error
	unfit   error // see Unfit
	// replica: of another server at this moment.
	replica bool
	// memory names what it has in its memory: see rule a.
	memory string
	// clientID is its number of this connection; "" if it does not show it.
	clientID string
}

// owns reports whether a key that names this memory is the server's own. A server forgets after
// repl-backlog-ttl that it was a replica, and then its name has no dot any more.
func (s *server) owns(memory string) bool {
	return memory == s.memory && memory != "" ||
		s.memory == s.runID && s.runID != "" && strings.HasPrefix(memory, s.runID+".")
}

// steps ask the server what it is.
func (s *server) steps() []resp.Step {
	return []resp.Step{
		{Command: []string{"CLIENT", "ID"}, OnReply: func(v resp.Value) error {
			if v.Kind == ':' {
				s.clientID = v.Text
			}
			return nil
		}},
		{Command: []string{"INFO", "server"}, OnReply: s.readServer},
		{Command: []string{"INFO", "replication"}, OnReply: s.readReplication},
	}
}

// readServer takes the reply to INFO server. An error that is about this user or this moment does
// not mean that the server knows no INFO.
func (s *server) readServer(v resp.Value) error {
	if err := v.Err(); err != nil {
		s.infoErr = err
		code, _, _ := strings.Cut(v.Text, " ")
		switch {
		case code == "NOPERM":
			return fmt.Errorf("the restart guard can't use INFO: %w; give the user +info, or "+
				"use GuardOff", err)
		case resp.Rejected(code):
			return err
		}
		return nil
	}
	text, ok := v.AsString()
	if !ok { // not even one without a run_id
		return resp.ErrNotRedis
	}
	f := resp.ParseInfo(text)
	s.runID, s.unfit = f["run_id"], Unfit(f)
	if s.runID == "" || !plain(s.runID) {
		s.runID, s.infoErr = "", errors.New("INFO shows no run_id")
	}
	return nil
}

// readReplication takes the reply to INFO replication, behind the one that readServer takes.
func (s *server) readReplication(v resp.Value) error {
	if err := v.Err(); err != nil && s.runID != "" {
		return err
	}
	f := resp.ParseInfo(v.Text)
	s.replica = f["role"] == "slave" || f["role"] == "replica"
	s.memory = memoryOf(s.runID, f)
	return nil
}

// memoryOf returns the name of a server's memory, by what it shows of its replication.
func memoryOf(runID string, f map[string]string) string {
	before := f["master_replid2"] // what it was a replica of
	never := before != "" && strings.Trim(before, "0") == ""
	if runID == "" || never || !plain(f["master_replid"]) {
		return runID
	}
	return runID + "." + f["master_replid"]
}

// plain reports whether a text can be in the guard's key.
func plain(text string) bool {
	return len(text) <= 200 && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') &&
			!strings.ContainsRune("._-", r)
	})
}

// ErrInCluster is why a server is unfit that is no slot of a cluster for the client.
var ErrInCluster = errors.New("it is a node of a Redis Cluster; give independent masters " +
	"(cluster-enabled no), or the cluster alone, with ?cluster=3 behind one of its addresses")

// Unfit returns why a server with these fields of INFO can be no node. A compatible server has a
// version of its own next to Redis', and may differ from that Redis.
func Unfit(f map[string]string) error {
	var major, minor int
	version := f["redis_version"]
	known, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	another := false
	for name := range f {
		another = another || strings.HasSuffix(name, "_version") && name != "redis_version" &&
			name != "gcc_version"
	}
	_, dragonfly := f["dragonfly_version"] // which calls itself a cluster also if it is none
	switch mode := resp.ServerMode(f); {
	case mode == "sentinel":
		return errors.New("it is a Redis Sentinel; give the masters themselves, " +
			"or add ?master_set=NAME with the master's name at the sentinels")
	case mode == "cluster" && !dragonfly:
		return ErrInCluster
	case known == 2 && !another && (major < 6 || major == 6 && minor < 2):
		return fmt.Errorf("it runs Redis %.32s, which lacks what locks need; "+
			"give Redis 6.2 or later, or Valkey", version)
	}
	return nil
}
