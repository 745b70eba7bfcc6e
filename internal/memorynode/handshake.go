package memorynode

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// version is the Redis whose commands the node has.
const version = "7.0.15"

// hello makes the reply to HELLO. The node takes any user and password.
func (s *Session) hello(args []string) {
	proto := int64(2)
	if len(args) > 1 {
		if args[1] != "2" && args[1] != "3" {
			s.fail("NOPROTO unsupported protocol version")
			return
		}
		s.resp3 = args[1] == "3"
	}
	if s.resp3 {
		proto = 3
	}
	s.pairs(3, "server", "redis", "version", version, "mode", s.node.mode(), "role", "master",
		"proto")
	s.number(proto)
	s.text("id")
	s.number(s.id)
}

// client makes the reply to CLIENT.
func (s *Session) client(args []string) {
	n, args := s.node, args[1:]
	switch name := strings.ToUpper(args[0]); {
	case name == "ID":
		s.number(s.id)
	case name == "SETNAME", name == "SETINFO", name == "NO-EVICT", name == "NO-TOUCH":
		s.status("OK")
	case n.NoTracking && (name == "TRACKING" || name == "CACHING"):
		s.fail("ERR unknown subcommand '" + printable(args[0]) + "'. Try CLIENT HELP.")
	case name == "TRACKING" && len(args) > 1:
		s.setTracking(args[1], args[2:])
	case name == "CACHING" && !s.tracking:
		s.fail("ERR CLIENT CACHING can be called only when the client is in tracking mode with " +
			"OPTIN or OPTOUT mode enabled")
	case name == "CACHING" && len(args) > 1:
		s.caching = strings.EqualFold(args[1], "YES")
		s.status("OK")
	case name == "KILL" && len(args) == 3 && strings.EqualFold(args[1], "ID"):
		s.number(n.kill(args[2]))
	default:
		s.fail("ERR unknown subcommand '" + printable(args[0]) + "'" + realServer)
	}
}

// setTracking makes the reply to CLIENT TRACKING. The node knows OPTIN alone: it notifies a client
// of changes of those keys that the client has read behind CLIENT CACHING YES.
func (s *Session) setTracking(mode string, options []string) {
	on := strings.EqualFold(mode, "ON")
	if on && (len(options) != 1 || !strings.EqualFold(options[0], "OPTIN")) {
		s.fail("ERR unknown options of CLIENT TRACKING, other than OPTIN" + realServer)
		return
	}
	s.tracking = on
	s.status("OK")
}

// track notifies the session of the next change of a key, if the client has asked for that.
func (s *Session) track(key string) {
	if !s.caching || !s.tracking || !s.resp3 {
		return
	}
	if s.node.trackers[key] == nil {
		s.node.trackers[strings.Clone(key)] = map[*Session]bool{}
	}
	s.node.trackers[key][s] = true
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

// info returns what INFO shows: by some of it lockpipe recognises a restart. mu is held.
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
		"# Server\r\nredis_version:%s\r\nredis_mode:%s\r\nos:lockpipe, in memory\r\n"+
			"%suptime_in_seconds:%d\r\n"+
			"# Clients\r\nconnected_clients:%d\r\nmaxclients:10000\r\n"+
			"# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n"+
			"# Persistence\r\nloading:0\r\naof_enabled:%d\r\naof_rewrite_in_progress:0\r\n"+
			"aof_rewrite_scheduled:0\r\naof_last_rewrite_time_sec:-1\r\n"+
			"# Replication\r\nrole:%s\r\nconnected_slaves:0\r\nmaster_replid:%s\r\n"+
			"master_replid2:%s\r\n# Cluster\r\ncluster_enabled:0\r\n",
		version, n.mode(), runID, uptime, len(n.sessions), on, role, n.replID(), former)
}

// replID returns an ID that changes with each server and with each promotion, and when that is
// forgotten. mu is held.
func (n *Node) replID() string {
	return fmt.Sprintf("%020x%010x%010x", n.id+1, n.servers, n.promotions+n.forgotten)
}

// RunID returns the run_id, which changes with each server.
func (n *Node) RunID() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.currentRunID()
}

// currentRunID is RunID. mu is held.
func (n *Node) currentRunID() string { return fmt.Sprintf("%020x%020x", n.id+1, n.servers) }

// config makes the reply to CONFIG GET.
func (s *Session) config(args []string) {
	if !strings.EqualFold(args[1], "GET") {
		s.fail("ERR unknown subcommand '" + printable(args[1]) + "'" + realServer)
		return
	}
	settings := map[string]string{
		"appendfsync": "everysec", "no-appendfsync-on-rewrite": "no", "appendonly": "no", "save": "",
		"maxmemory": "0", "maxmemory-policy": "noeviction",
	}
	if s.node.Durable {
		settings["appendfsync"], settings["appendonly"] = "always", "yes"
	}
	var found []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if slices.ContainsFunc(args[2:], func(pattern string) bool {
			match, err := path.Match(pattern, name)
			return match && err == nil
		}) {
			found = append(found, name, settings[name])
		}
	}
	s.pairs(0, found...)
}
