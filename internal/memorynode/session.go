package memorynode

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

// ReadOnly is the error with which a replica refuses writes.
const ReadOnly = "READONLY You can't write against a read only replica."

// Session is one connection as the node sees it. It speaks RESP2, and RESP3 after HELLO 3. Guarded
// by node.mu.
type Session struct {
	node   *Node
	id     int64
	send   func([]byte) // sends to the client; set once
	hangUp func()       // ends the connection; set once

	in       bytes.Buffer // not executed yet, after what commands has read ahead
	sentAt   time.Time    // when the client sent the end of in
	sent     resp.CommandScanner
	commands *resptest.Reader // of in
	out      []byte           // the replies being made
	push     []byte           // notifications to send
	resp3    bool
	tracking bool // OPTIN
	caching  bool // the keys of the next command are tracked
	closed   bool
}

// Node returns the node to which the session belongs.
func (s *Session) Node() *Node { return s.node }

// SentAt returns when the client sent what the session has received last. Only OnTake and
// OnRelease may call it.
func (s *Session) SentAt() time.Time { return s.sentAt }

// Receive executes what the client sent at that time, as far as it is complete, and sends the
// replies.
func (s *Session) Receive(data []byte, sentAt time.Time) {
	n := s.node
	n.mu.Lock()
	defer n.mu.Unlock()
	n.current, s.sentAt = s, sentAt
	s.in.Write(data)
	ended := 0
	for rest := data; len(rest) > 0; {
		used, complete, ok := s.sent.Next(rest)
		if !ok {
			panic(fmt.Sprintf("memorynode: a node was sent %.40q", data))
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

// Execute executes one command that the client has just sent, and returns the reply.
func (s *Session) Execute(args []string) (reply []byte) {
	n := s.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.closed {
		return nil
	}
	n.current, s.sentAt = s, time.Now()
	s.execute(args)
	n.sendPushes(s)
	reply, s.out = s.out, nil
	return reply
}

// Close ends the session when the client has closed the connection.
func (s *Session) Close() {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	s.node.removeSession(s)
}

func (s *Session) status(text string) { s.out = fmt.Appendf(s.out, "+%s\r\n", text) }
func (s *Session) fail(text string)   { s.out = fmt.Appendf(s.out, "-%s\r\n", text) }
func (s *Session) number(n int64)     { s.out = fmt.Appendf(s.out, ":%d\r\n", n) }
func (s *Session) text(text string)   { s.out = resp.AppendBulk(s.out, text) }

func (s *Session) null() {
	if s.resp3 {
		s.out = append(s.out, "_\r\n"...)
	} else {
		s.out = append(s.out, "$-1\r\n"...)
	}
}

// pairs begins a map of n pairs.
func (s *Session) pairs(n int) {
	if s.resp3 {
		s.out = fmt.Appendf(s.out, "%%%d\r\n", n)
	} else {
		s.out = fmt.Appendf(s.out, "*%d\r\n", 2*n)
	}
}

// execute makes the reply to one command.
func (s *Session) execute(args []string) {
	n, caching := s.node, s.caching
	s.caching = false
	switch name := strings.ToUpper(args[0]); {
	case n.replica && slices.Contains(writes(n.Newer), name):
		s.fail(ReadOnly)
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
	case name == "MSETEX" && n.Newer:
		s.setTogether(args[1:])
	case name == "DELIFEQ" && len(args) == 3 && n.Newer:
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
	case name == "TIME":
		s.time()
	case name == "INFO":
		s.text(n.info())
	case name == "CONFIG" && len(args) == 3 && strings.EqualFold(args[1], "GET"):
		s.config(args[2])
	default:
		s.fail(fmt.Sprintf("ERR unknown command '%s'", strings.Join(args[:min(len(args), 3)], " ")))
	}
}

// track notifies the session of the next change of a key.
func (s *Session) track(key string, caching bool) {
	if !caching || !s.tracking || !s.resp3 {
		return
	}
	if s.node.trackers[key] == nil {
		s.node.trackers[key] = map[*Session]bool{}
	}
	s.node.trackers[key][s] = true
}

func (s *Session) set(key, value string, options []string) {
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

func (s *Session) del(keys []string) {
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
func (n *Node) pttl(key string) int64 {
	if _, ok := n.get(key); !ok {
		return -2
	}
	if end := n.keys[key].end; end != 0 {
		return end - n.now()
	}
	return -1
}

// loadScript stores a script and returns its name. mu is held.
func (n *Node) loadScript(source string) string {
	sum := sha1.Sum([]byte(source))
	name := hex.EncodeToString(sum[:])
	n.scripts[name] = true
	return name
}

// runScript runs a script; args are the number of keys, the keys, and the arguments.
func (s *Session) runScript(name string, args []string) {
	if !s.node.scripts[name] {
		s.fail("NOSCRIPT No matching script. Please use EVAL.")
		return
	}
	model, text := models[name], ""
	if name == script.Layouts.SHA {
		model = func(n *Node, keys, args []string) []int64 {
			text = layoutsModel(n, keys[0], args)
			return nil
		}
	}
	keys, err := strconv.Atoi(args[0])
	if model == nil || err != nil || keys >= len(args) {
		s.fail("ERR a script that the node does not know")
		return
	}
	before := s.node.keys
	if s.node.replica {
		s.node.keys = maps.Clone(before)
	}
	s.node.scripted = true
	list := model(s.node, args[1:1+keys], args[1+keys:])
	s.node.scripted = false
	if s.node.replica && !maps.Equal(before, s.node.keys) {
		s.node.keys = before
		s.fail(ReadOnly)
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
