package memorynode

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
)

func (s *Session) hello(args []string) {
	if len(args) > 0 && args[0] != "2" && args[0] != "3" {
		s.fail("NOPROTO unsupported protocol version")
		return
	}
	proto := int64(2)
	if len(args) > 0 {
		s.resp3 = args[0] == "3"
	}
	if s.resp3 {
		proto = 3
	}
	s.pairs(6)
	for _, pair := range [][2]string{
		{"server", "redis"},
		{"version", "7.0.15"},
		{"mode", "standalone"},
		{"role", "master"},
	} {
		s.text(pair[0])
		s.text(pair[1])
	}
	s.text("proto")
	s.number(proto)
	s.text("id")
	s.number(s.id)
}

func (s *Session) client(args []string) {
	n := s.node
	switch name := strings.ToUpper(args[0]); {
	case name == "ID":
		s.number(s.id)
	case name == "SETNAME", name == "SETINFO":
		s.status("OK")
	case name == "TRACKING":
		s.tracking = strings.EqualFold(args[1], "ON")
		s.status("OK")
	case name == "CACHING" && !s.tracking:
		s.fail("ERR CLIENT CACHING can be called only when the client is in tracking mode with " +
			"OPTIN or OPTOUT mode enabled")
	case name == "CACHING":
		s.caching = strings.EqualFold(args[1], "YES")
		s.status("OK")
	case name == "KILL" && len(args) == 3 && strings.EqualFold(args[1], "ID"):
		s.number(n.kill(args[2]))
	default:
		s.fail(fmt.Sprintf("ERR unknown subcommand '%s'", args[0]))
	}
}

// kill ends the session with this id, and returns how many there were. mu is held.
func (n *Node) kill(id string) (killed int64) {
	for s := range n.sessions {
		if strconv.FormatInt(s.id, 10) == id {
			n.removeSession(s)
			s.hangUp()
			killed++
		}
	}
	return killed
}

// info returns the fields of INFO by which lockpipe recognises a restart. mu is held.
func (n *Node) info() string {
	uptime := n.now()/1000 - n.started/1000 // as Redis computes it: up to a second too long
	former, on, role := strings.Repeat("0", 40), 0, "master"
	if n.replica {
		role = "slave"
	}
	if n.promoted {
		former = strings.Repeat("1", 40)
	}
	if n.Durable {
		on = 1
	}
	runID := "run_id:" + n.currentRunID() + "\r\n"
	if n.HidesRunID {
		runID = ""
	}
	return fmt.Sprintf(
		"# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n%suptime_in_seconds:%d\r\n"+
			"# Persistence\r\nloading:0\r\naof_enabled:%d\r\naof_rewrite_in_progress:0\r\n"+
			"aof_rewrite_scheduled:0\r\naof_last_rewrite_time_sec:-1\r\n"+
			"# Replication\r\nrole:%s\r\nconnected_slaves:0\r\nmaster_replid:%s\r\n"+
			"master_replid2:%s\r\n", runID, uptime, on, role, n.replID(), former)
}

// replID returns an ID that changes with each server and with each promotion. mu is held.
func (n *Node) replID() string {
	return fmt.Sprintf("%020x%010x%010x", n.id+1, n.servers, n.promotions)
}

// RunID returns the run_id, which changes with each server.
func (n *Node) RunID() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.currentRunID()
}

// currentRunID is RunID. mu is held.
func (n *Node) currentRunID() string { return fmt.Sprintf("%020x%020x", n.id+1, n.servers) }

// config answers CONFIG GET for the pattern that lockpipe asks for.
func (s *Session) config(pattern string) {
	values := [][2]string{{"no-appendfsync-on-rewrite", "no"}, {"appendfsync", "everysec"}}
	if s.node.Durable {
		values[1][1] = "always"
	}
	if pattern != "*appendfsync*" {
		values = nil
	}
	s.pairs(len(values))
	for _, pair := range values {
		s.text(pair[0])
		s.text(pair[1])
	}
}

// time answers TIME.
func (s *Session) time() {
	now := time.UnixMilli(s.node.epoch.UnixMilli() + s.node.now())
	s.out = resp.AppendCommand(s.out, strconv.FormatInt(now.Unix(), 10),
		strconv.Itoa(now.Nanosecond()/1000))
}
