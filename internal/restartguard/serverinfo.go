package restartguard

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// serverInfo is what a server shows of itself, and what other nodes say of it.
type serverInfo struct {
	// runID is drawn at each start of a server; "" if it does not show it, and infoErr is why.
	runID   string
	infoErr error
	// unfit is why it can be no node, whatever else it shows.
	unfit error
	// uptime is in whole seconds, and may be a second too long or too short; negative if the server
	// does not show it. It was asked for at uptimeAskedAt.
	uptime        time.Duration
	uptimeAskedAt time.Time
	// durable: no answered write is lost at a restart.
	durable bool
	// aofRewritten: the append-only file was rewritten since the server's start, as it is when it
	// is switched on after that.
	aofRewritten bool
	// replica: of another server at this moment.
	replica bool
	// maybePromoted: it may have been a replica since its start, so what it lost it may have lost
	// later.
	maybePromoted bool
	// memoryID names what the server's memory has become since it was another server's, or empty:
	// the run_id and the master_replid, which a server draws again when it is no replica any more.
	// "" if the server shows only one of them.
	memoryID string
	// marker is the run_id of the server that was admitted here last, or a loss record, or "" if
	// there is none. It expires after expiresIn, which was known at markerReadAt. expiresIn is 0 or
	// less if it does not expire. markerAskedAt is before the marker was asked for: the process may
	// stop before it has the reply.
	marker        string
	expiresIn     time.Duration
	markerReadAt  time.Time
	markerAskedAt time.Time
	// clientID is the server's number of this connection; "" if it does not show it.
	clientID string
	// own is the node's generation, and others are those that it keeps of other nodes.
	own    generation
	others map[string]int64
	// outdated: a later generation of the node is known. vouched: other nodes show that there is
	// none.
	outdated, vouched bool
}

// unknownServer returns what counts for a server that shows nothing.
func unknownServer() serverInfo { return serverInfo{uptime: -1, maybePromoted: true} }

// steps ask for what the guard wants to know, but for the generations. marker is the key.
func (s *serverInfo) steps(marker string) []resp.Step {
	steps := []resp.Step{
		{Command: []string{"CLIENT", "ID"}, OnReply: s.readClientID},
		{Command: []string{"INFO", "server"}, OnReply: s.readServer},
		{Command: []string{"INFO", "persistence"}, OnReply: s.readPersistence},
		{Command: []string{"CONFIG", "GET", "*appendfsync*"}, OnReply: s.readSync},
		{Command: []string{"INFO", "replication"}, OnReply: s.readReplication},
	}
	return append(steps, s.markerSteps(marker)...)
}

// markerSteps ask for the marker, and then for how long it lasts: if another client replaces it in
// between, it looks younger.
func (s *serverInfo) markerSteps(marker string) []resp.Step {
	read := func(v resp.Value) error {
		s.marker, _ = v.AsString()
		if err := v.Err(); err != nil {
			return fmt.Errorf("the marker %q can't be read: %w", marker, err)
		}
		return nil
	}
	readExpiry := func(v resp.Value) error {
		ms, _ := strconv.ParseInt(v.Text, 10, 64) // after an error the client does without
		s.expiresIn, s.markerReadAt = time.Duration(ms)*time.Millisecond, time.Now()
		return nil
	}
	return []resp.Step{
		{Command: []string{"GET", marker}, OnReply: read},
		{Command: []string{"PTTL", marker}, OnReply: readExpiry},
	}
}

// generationsStep asks for the node's generation, and those that it keeps.
func (s *serverInfo) generationsStep(key string) resp.Step {
	read := func(v resp.Value) error {
		text, _ := v.AsString()
		s.own, s.others = parseGenerations(text)
		if err := v.Err(); err != nil {
			return fmt.Errorf("the generations %q can't be read: %w", key, err)
		}
		return nil
	}
	return resp.Step{Command: []string{"GET", key}, OnReply: read}
}

func (s *serverInfo) readClientID(v resp.Value) error {
	if v.Kind == ':' {
		s.clientID = v.Text
	}
	return nil
}

// readServer takes the reply to INFO server. An error that is about this user or this moment does
// not mean that the server knows no INFO.
func (s *serverInfo) readServer(v resp.Value) error {
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
	s.runID, s.unfit = f["run_id"], unfit(f)
	if s.runID == "" {
		s.infoErr = errors.New("INFO shows no run_id")
	}
	if seconds, err := strconv.ParseUint(f["uptime_in_seconds"], 10, 31); err == nil {
		s.uptime = time.Duration(seconds) * time.Second
	}
	return nil
}

func (s *serverInfo) readPersistence(v resp.Value) error {
	f := resp.ParseInfo(v.Text)
	s.durable = f["aof_enabled"] == "1"
	s.aofRewritten = f["aof_last_rewrite_time_sec"] != "-1" ||
		f["aof_rewrite_in_progress"] != "0" || f["aof_rewrite_scheduled"] != "0"
	return nil
}

// readSync takes the reply to CONFIG GET, behind the one that readPersistence takes: a durable
// server has its append-only file on the disk before a write is answered, also during a rewrite.
func (s *serverInfo) readSync(v resp.Value) error {
	set := resp.Pairs(v.Items)
	s.durable = s.durable && set["appendfsync"] == "always" &&
		set["no-appendfsync-on-rewrite"] == "no"
	return nil
}

// readReplication takes the reply to INFO replication, behind the one that readServer takes.
func (s *serverInfo) readReplication(v resp.Value) error {
	f := resp.ParseInfo(v.Text)
	s.replica = f["role"] == "slave" || f["role"] == "replica"
	s.maybePromoted = f["role"] != "master" || f["master_replid2"] == "" ||
		strings.Trim(f["master_replid2"], "0") != ""
	id := s.runID + "." + f["master_replid"]
	complete := s.runID != "" && f["master_replid"] != "" && f["master_replid2"] != ""
	if complete && !strings.Contains(id, ":") { // else no loss record could name it
		s.memoryID = id
	}
	return nil
}

// unfit returns why a server that shows these fields can be no node. A compatible server has a
// version of its own next to Redis', and may differ from that Redis.
func unfit(f map[string]string) error {
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
		return errors.New("it is a node of a Redis Cluster; give independent masters " +
			"(cluster-enabled no)")
	case known == 2 && !another && (major < 6 || major == 6 && minor < 2):
		return fmt.Errorf("it runs Redis %.32s, which lacks what locks need; "+
			"give Redis 6.2 or later, or Valkey", version)
	}
	return nil
}
