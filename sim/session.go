package sim

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/script"
)

// readOnly is the error with which a replica refuses writes.
const readOnly = "READONLY You can't write against a read only replica."

// session is one connection as the node sees it. It speaks RESP2, and RESP3 after HELLO 3. Guarded
// by node.mu.
type session struct {
	node   *node
	id     int64
	send   func([]byte) // sends to the client; set once
	hangUp func()       // ends the connection; set once

	in       bytes.Buffer // not executed yet, after what commands has read ahead
	sentAt   time.Time    // when the client sent the end of in
	sent     resp.CommandScanner
	commands *resp.Reader // of in
	out      []byte       // the replies being made
	push     []byte       // notifications to send
	resp3    bool
	tracking bool // OPTIN
	caching  bool // the keys of the next command are tracked
	closed   bool
}

// receive executes what the client sent at that time, as far as it is complete, and sends the
// replies.
func (s *session) receive(data []byte, sentAt time.Time) {
	n := s.node
	n.mu.Lock()
	defer n.mu.Unlock()
	n.current, s.sentAt = s, sentAt
	s.in.Write(data)
	ended := 0
	for rest := data; len(rest) > 0; {
		used, complete, ok := s.sent.Next(rest)
		if !ok {
			panic(fmt.Sprintf("sim: a node was sent %.40q", data))
		}
		if rest = rest[used:]; complete {
			ended++
		}
	}
	for ; ended > 0 && !s.closed; ended-- {
		args, err := resptest.ReadCommand(s.commands)
		if err != nil {
			panic(err)
		}
		s.execute(args)
		n.sendPushes(s)
	}
	if len(s.out) > 0 {
		s.send(s.out)
		s.out = nil
	}
}

// onClientClose is called when the client has closed the connection.
func (s *session) onClientClose() {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	s.node.removeSession(s)
}

func (s *session) status(text string) { s.out = fmt.Appendf(s.out, "+%s\r\n", text) }
func (s *session) fail(text string)   { s.out = fmt.Appendf(s.out, "-%s\r\n", text) }
func (s *session) number(n int64)     { s.out = fmt.Appendf(s.out, ":%d\r\n", n) }
func (s *session) text(text string)   { s.out = resp.AppendBulk(s.out, text) }

func (s *session) null() {
	if s.resp3 {
		s.out = append(s.out, "_\r\n"...)
	} else {
		s.out = append(s.out, "$-1\r\n"...)
	}
}

// pairs begins a map of n pairs.
func (s *session) pairs(n int) {
	if s.resp3 {
		s.out = fmt.Appendf(s.out, "%%%d\r\n", n)
	} else {
		s.out = fmt.Appendf(s.out, "*%d\r\n", 2*n)
	}
}

// execute makes the reply to one command.
func (s *session) execute(args []string) {
	n, caching := s.node, s.caching
	s.caching = false
	switch name := strings.ToUpper(args[0]); {
	case n.replica && slices.Contains(writes(n.newer), name):
		s.fail(readOnly)
	case name == "PING":
		s.status("PONG")
	case name == "AUTH", name == "SELECT":
		s.status("OK")
	case name == "HELLO":
		s.hello(args[1:])
	case name == "CLIENT" && len(args) > 1:
		s.client(args[1:])
	case name == "SET" && len(args) > 2:
		s.set(args[1], args[2], args[3:])
	case name == "GET" && len(args) == 2:
		s.track(args[1], caching)
		if value, ok := n.get(args[1]); ok {
			s.text(value)
		} else {
			s.null()
		}
	case name == "MGET" && len(args) == 2:
		s.out = append(s.out, "*1\r\n"...)
		if value, ok := n.get(args[1]); ok {
			s.text(value)
		} else {
			s.null()
		}
	case name == "GETRANGE" && len(args) == 4: // of all that a token has
		s.track(args[1], caching)
		value, _ := n.get(args[1])
		s.text(value)
	case name == "PTTL" && len(args) == 2:
		s.track(args[1], caching)
		s.number(n.pttl(args[1]))
	case name == "DEL":
		s.del(args[1:])
	case name == "MSETEX" && n.newer:
		s.setTogether(args[1:])
	case name == "DELIFEQ" && len(args) == 3 && n.newer:
		s.delIfEqual(args[1], args[2])
	case name == "FLUSHALL":
		n.wipeKeys()
		s.status("OK")
	case name == "SCRIPT" && len(args) == 3 && strings.EqualFold(args[1], "LOAD"):
		s.text(n.loadScript(args[2]))
	case name == "EVAL" && len(args) > 2:
		s.runScript(n.loadScript(args[1]), args[2:])
	case name == "EVALSHA" && len(args) > 2:
		s.runScript(args[1], args[2:])
	case name == "INFO":
		s.text(n.info())
	case name == "CONFIG" && len(args) == 3 && strings.EqualFold(args[1], "GET"):
		s.config(args[2])
	default:
		s.fail(fmt.Sprintf("ERR unknown command '%s'", strings.Join(args[:min(len(args), 3)], " ")))
	}
}

func (s *session) hello(args []string) {
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

func (s *session) client(args []string) {
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
func (n *node) kill(id string) (killed int64) {
	for s := range n.sessions {
		if strconv.FormatInt(s.id, 10) == id {
			n.removeSession(s)
			s.hangUp()
			killed++
		}
	}
	return killed
}

// track notifies the session of the next change of a key.
func (s *session) track(key string, caching bool) {
	if !caching || !s.tracking || !s.resp3 {
		return
	}
	if s.node.trackers[key] == nil {
		s.node.trackers[key] = map[*session]bool{}
	}
	s.node.trackers[key][s] = true
}

func (s *session) set(key, value string, options []string) {
	var ttl int64
	for i := 0; i < len(options); i++ {
		switch option := strings.ToUpper(options[i]); {
		case option == "NX":
			if _, ok := s.node.get(key); ok {
				s.null()
				return
			}
		case option == "PX" && i+1 < len(options):
			i++
			ttl, _ = strconv.ParseInt(options[i], 10, 64)
		default:
			s.fail("ERR syntax error")
			return
		}
	}
	s.node.set(key, value, ttl)
	s.status("OK")
}

func (s *session) del(keys []string) {
	deleted := int64(0)
	for _, key := range keys {
		if _, ok := s.node.get(key); ok {
			s.node.del(key)
			deleted++
		}
	}
	s.number(deleted)
}

// pttl returns the milliseconds that a key has left; -1: no end, -2: no key. mu is held.
func (n *node) pttl(key string) int64 {
	if _, ok := n.get(key); !ok {
		return -2
	}
	if end := n.keys[key].end; end != 0 {
		return end - n.now()
	}
	return -1
}

// loadScript stores a script and returns its name. mu is held.
func (n *node) loadScript(source string) string {
	sum := sha1.Sum([]byte(source))
	name := hex.EncodeToString(sum[:])
	n.scripts[name] = true
	return name
}

// runScript runs a script; args are the number of keys, the keys, and the arguments.
func (s *session) runScript(name string, args []string) {
	if !s.node.scripts[name] {
		s.fail("NOSCRIPT No matching script. Please use EVAL.")
		return
	}
	model, text := models[name], ""
	if name == script.Layouts.SHA {
		model = func(n *node, keys, args []string) []int64 {
			text = layoutsModel(n, keys[0], args)
			return nil
		}
	}
	keys, err := strconv.Atoi(args[0])
	if model == nil || err != nil || keys >= len(args) {
		s.fail("ERR a script that the simulation does not know")
		return
	}
	before := s.node.keys
	if s.node.replica {
		s.node.keys = maps.Clone(before)
	}
	list := model(s.node, args[1:1+keys], args[1+keys:])
	if s.node.replica && !maps.Equal(before, s.node.keys) {
		s.node.keys = before
		s.fail(readOnly)
		return
	}
	switch {
	case name == script.Layouts.SHA:
		s.text(text)
		return
	case len(list) == 1 && name != script.AcquireAny.SHA:
		s.number(list[0])
		return
	}
	s.out = fmt.Appendf(s.out, "*%d\r\n", len(list))
	for _, v := range list {
		s.number(v)
	}
}

// info returns the fields of INFO by which lockpipe recognises a restart. mu is held.
func (n *node) info() string {
	uptime := n.now()/1000 - n.started/1000 // as Redis computes it: up to a second too long
	former, on, role := strings.Repeat("0", 40), 0, "master"
	if n.replica {
		role = "slave"
	}
	if n.promoted {
		former = strings.Repeat("1", 40)
	}
	if n.durable {
		on = 1
	}
	runID := "run_id:" + n.runID() + "\r\n"
	if n.hidesRunID {
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
func (n *node) replID() string { return fmt.Sprintf("%020x%020x", n.servers, n.promotions) }

// runID returns an ID that changes with each server. mu is held.
func (n *node) runID() string { return fmt.Sprintf("%020x%020x", n.id+1, n.servers) }

// config answers CONFIG GET for the pattern that lockpipe asks for.
func (s *session) config(pattern string) {
	values := [][2]string{{"no-appendfsync-on-rewrite", "no"}, {"appendfsync", "everysec"}}
	if s.node.durable {
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
