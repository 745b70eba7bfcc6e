package memorynode

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// value replies with the value of a key that is a string, with null if there is none.
func (s *Session) value(key string) {
	e, ok := s.node.entry(key)
	switch {
	case !ok:
		s.null()
	case !e.isString():
		s.fail(wrongType)
	default:
		s.text(e.value)
	}
}

const (
	wrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"
	noNumber  = "ERR value is not an integer or out of range"
	noTTL     = "ERR invalid expire time in 'set' command"
	noSyntax  = "ERR syntax error"
)

func (s *Session) getKey(args []string) {
	s.track(args[1])
	s.value(args[1])
}

func (s *Session) getRange(args []string) {
	s.track(args[1])
	value, _ := s.node.get(args[1])
	from, err := strconv.Atoi(args[2])
	to, err2 := strconv.Atoi(args[3])
	if err != nil || err2 != nil {
		s.fail(noNumber)
		return
	}
	if from < 0 {
		from = max(0, from+len(value))
	}
	if to < 0 {
		to += len(value)
	}
	to = min(to+1, len(value))
	if from >= to {
		s.text("")
		return
	}
	s.text(value[from:to])
}

func (s *Session) getKeys(args []string) {
	s.array(len(args) - 1)
	for _, key := range args[1:] {
		s.track(key)
		if value, ok := s.node.getString(key); ok {
			s.text(value)
		} else {
			s.null()
		}
	}
}

func (s *Session) exists(args []string) {
	found := int64(0)
	for _, key := range args[1:] {
		s.track(key)
		if _, ok := s.node.entry(key); ok {
			found++
		}
	}
	s.number(found)
}

// pttlOf makes the reply to PTTL, or to TTL.
func (s *Session) pttlOf(args []string) {
	s.track(args[1])
	left := s.node.pttl(args[1])
	if left > 0 && len(args[0]) == len("TTL") {
		left = (left + 500) / 1000
	}
	s.number(left)
}

func (s *Session) typeOf(args []string) {
	e, ok := s.node.entry(args[1])
	switch {
	case !ok:
		s.status("none")
	case e.scores != nil:
		s.status("zset")
	default:
		s.status("string")
	}
}

// live returns the keys that have not expired and match a pattern. mu is held.
func (n *Node) live(pattern string) (keys []string) {
	for key := range n.keys {
		if _, ok := n.entry(key); !ok {
			continue
		}
		if match, err := path.Match(pattern, key); pattern == "*" || match && err == nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// scan makes the reply to SCAN: all keys at once, as a server may do.
func (s *Session) scan(args []string) {
	pattern := "*"
	for i := 2; i+1 < len(args); i += 2 {
		if strings.EqualFold(args[i], "MATCH") {
			pattern = args[i+1]
		}
	}
	s.array(2)
	s.text("0")
	s.texts(s.node.live(pattern))
}

func (s *Session) countKeys([]string) { s.number(int64(len(s.node.live("*")))) }

func (s *Session) keys(args []string) { s.texts(s.node.live(args[1])) }

func (s *Session) texts(texts []string) {
	s.array(len(texts))
	for _, text := range texts {
		s.text(text)
	}
}

// set makes the reply to SET.
func (s *Session) set(args []string) {
	key := args[1]
	e, had := s.node.entry(key)
	old, ttl, keepsTTL, wanted, replies := e, int64(0), false, true, false
	for i := 3; i < len(args); i++ {
		switch option := strings.ToUpper(args[i]); option {
		case "NX":
			wanted = !had
		case "XX":
			wanted = had
		case "GET":
			replies = true
		case "KEEPTTL":
			keepsTTL = true
		case "PX", "EX", "PXAT", "EXAT":
			if i++; i == len(args) {
				s.fail(noSyntax)
				return
			}
			var problem string
			if ttl, problem = s.node.ttl(option, args[i]); problem != "" {
				s.fail(problem)
				return
			}
		default:
			s.fail(noSyntax)
			return
		}
	}
	if replies && had && !old.isString() {
		s.fail(wrongType)
		return
	}
	if wanted {
		s.node.set(key, args[2], ttl)
		if keepsTTL && had {
			s.node.setEnd(key, old.end)
		}
	}
	switch {
	case replies && had:
		s.text(old.value)
	case replies || !wanted:
		s.null()
	default:
		s.status("OK")
	}
}

// ttl returns the milliseconds that an option of SET gives a key, or an error as a server words it.
// mu is held.
func (n *Node) ttl(option, number string) (ms int64, problem string) {
	ms, err := strconv.ParseInt(number, 10, 64)
	switch {
	case err != nil:
		return 0, noNumber
	case ms <= 0:
		return 0, noTTL
	}
	if option[0] == 'E' {
		ms *= 1000
	}
	if strings.HasSuffix(option, "AT") {
		ms = max(1, ms-n.wallClock().UnixMilli())
	}
	return ms, ""
}

// setAll makes the reply to MSET.
func (s *Session) setAll(args []string) {
	if len(args)%2 == 0 {
		s.fail("ERR wrong number of arguments for 'mset' command")
		return
	}
	for pair := range slices.Chunk(args[1:], 2) {
		s.node.set(pair[0], pair[1], 0)
	}
	s.status("OK")
}

func (s *Session) setIfMissing(args []string) {
	if _, ok := s.node.entry(args[1]); ok {
		s.number(0)
		return
	}
	s.node.set(args[1], args[2], 0)
	s.number(1)
}

func (s *Session) del(args []string) {
	deleted := int64(0)
	for _, key := range args[1:] {
		if _, ok := s.node.entry(key); ok {
			s.node.del(key)
			deleted++
		}
	}
	s.number(deleted)
}

// expire makes the reply to PEXPIRE and EXPIRE.
func (s *Session) expire(args []string) {
	ms, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		s.fail(noNumber)
		return
	}
	if len(args[0]) == len("EXPIRE") {
		ms *= 1000
	}
	e, ok := s.node.entry(args[1])
	end := s.node.now() + ms
	for _, option := range args[3:] {
		switch strings.ToUpper(option) {
		case "NX":
			ok = ok && e.end == 0
		case "XX":
			ok = ok && e.end != 0
		case "GT":
			ok = ok && e.end != 0 && end > e.end
		case "LT":
			ok = ok && (e.end == 0 || end < e.end)
		default:
			s.fail("ERR Unsupported option " + printable(option))
			return
		}
	}
	switch {
	case !ok:
		s.number(0)
		return
	case ms <= 0:
		s.node.del(args[1])
	default:
		s.node.setEnd(args[1], end)
	}
	s.number(1)
}

func (s *Session) persist(args []string) {
	e, ok := s.node.entry(args[1])
	if !ok || e.end == 0 {
		s.number(0)
		return
	}
	s.node.setEnd(args[1], 0)
	s.number(1)
}

func (s *Session) flush([]string) {
	s.node.wipeKeys()
	s.status("OK")
}

// time makes the reply to TIME.
func (s *Session) time([]string) {
	now := s.node.wallClock()
	s.texts([]string{
		strconv.FormatInt(now.Unix(), 10), strconv.Itoa(now.Nanosecond() / 1000),
	})
}

// wallClock returns the time of the day by the node's clock. mu is held.
func (n *Node) wallClock() time.Time {
	return time.UnixMilli(n.base).Add(n.elapsed())
}

// KeyUntil returns the value of a key, and until when the node keeps it, by the true clock. It
// returns the zero time if the node does not have the key.
func (n *Node) KeyUntil(key string) (value string, until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	value, ok := n.get(key)
	if !ok {
		return "", time.Time{}
	}
	end := float64(n.keys[key].end * int64(time.Millisecond))
	return value, n.epoch.Add(time.Duration(end / n.rate))
}
