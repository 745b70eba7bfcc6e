package memorynode

import (
	"regexp"
	"strconv"
	"strings"
)

// Other Redlock clients have scripts of their own. A node recognises two kinds: those that compare
// a key's value and then do one thing, however they are written, and those of redislock.

var (
	luaComment = regexp.MustCompile(`--[^\n]*`)
	luaSpace   = regexp.MustCompile(`\s+`)
	luaSymbol  = regexp.MustCompile(` ?([^\w ]) ?`)

	// compareAndDo matches such a script when canonicalLua has been applied. Its groups are the
	// command; whether a missing key is answered with -1; and whether a missing key is set.
	compareAndDo = regexp.MustCompile(`^(?:` +
		`local \w+=redis\.call\("get",keys\[1\]\)if \w+==argv\[1\]` +
		`|if redis\.call\("get",keys\[1\]\)==argv\[1\]` +
		`|if argv\[1\]==redis\.call\("get",keys\[1\]\))` +
		`then return redis\.call\("(del|unlink|pexpire|expire)",keys\[1\](?:,argv\[2\])?\)` +
		`(elseif \w+==false then return-1)?` +
		`(elseif redis\.call\("set",keys\[1\],argv\[1\],"px",argv\[2\],"nx"\)then return 1)?` +
		`(?: ?else return 0)? ?end(?: ?return 0)?$`)
)

// canonicalLua returns Lua without comments, without spaces that mean nothing, in small letters and
// with one kind of quotes.
func canonicalLua(source string) string {
	text := luaComment.ReplaceAllString(strings.ToLower(source), "")
	text = strings.NewReplacer(`'`, `"`, ";", " ").Replace(text)
	text = strings.TrimSpace(luaSpace.ReplaceAllString(text, " "))
	return luaSymbol.ReplaceAllString(text, "$1")
}

// foreignScript returns a script of another client; nil if the node does not know it.
func foreignScript(name, source string) scriptFunc {
	if run, ok := redislockScripts[name]; ok {
		return run
	}
	form := compareAndDo.FindStringSubmatch(canonicalLua(source))
	if form == nil {
		return nil
	}
	missing := int64(0)
	if form[2] != "" {
		missing = -1
	}
	return func(s *Session, keys, args []string) {
		wanted := 1
		if strings.HasSuffix(form[1], "expire") {
			wanted = 2
		}
		if len(keys) != 1 || len(args) < wanted {
			s.fail("ERR the script reads KEYS or ARGV that it was not given")
			return
		}
		s.compareAndDo(form[1], keys[0], args, missing, form[3] != "")
	}
}

// compareAndDo applies a command to a key if its value is args[0].
func (s *Session) compareAndDo(command, key string, args []string, missing int64, sets bool) {
	n := s.node
	value, ok := n.get(key)
	deletes := command == "del" || command == "unlink"
	if deletes {
		n.reportRelease(key, args[0])
	}
	switch {
	case ok && value == args[0] && deletes:
		s.del([]string{command, key})
		n.reportScript("DEL", key)
	case ok && value == args[0]:
		s.expire([]string{command, key, args[1]})
		n.reportScript("PEXPIRE", key)
	case !ok && sets:
		ttl, err := strconv.ParseInt(args[1], 10, 64)
		if err != nil || ttl <= 0 {
			s.fail(noTTL)
			return
		}
		n.set(key, args[0], ttl)
		s.number(1)
	case !ok:
		s.number(missing)
	default:
		s.number(0)
	}
}

// redislockScripts are those of github.com/bsm/redislock 0.10, by their SHA-1.
var redislockScripts = map[string]scriptFunc{
	"eb0c00d98f6f33b4262419a509002884540f30be": redislockObtain,
	"5a22d7e8431313862816d4416b5e46dd70fc340d": redislockRefresh,
	"66e1084c2d842a7e8c271925aae90219fac4e129": redislockPTTL,
	"9470c810040e272ee6c579d8d4331aaf6332a7b1": redislockRelease,
}

// redislockObtain takes all keys, or keeps them if each begins with the caller's token. The
// arguments are the value, how long the token in it is, and the TTL.
func redislockObtain(s *Session, keys, args []string) {
	length, _ := strconv.Atoi(args[1])
	token := args[0][:min(max(length, 0), len(args[0]))]
	held, mine := false, true
	for _, key := range keys {
		value, ok := s.node.get(key)
		held, mine = held || ok, mine && strings.HasPrefix(value, token)
	}
	if held && !mine {
		s.null()
		return
	}
	ttl, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil || ttl <= 0 {
		s.fail(noNumber)
		return
	}
	for _, key := range keys {
		s.node.set(key, args[0], ttl)
	}
	s.status("OK")
}

// allHave reports whether all keys have the value; if not, the reply is null.
func (s *Session) allHave(keys []string, value string) bool {
	for _, key := range keys {
		if now, ok := s.node.get(key); !ok || now != value {
			s.null()
			return false
		}
	}
	return true
}

func redislockRefresh(s *Session, keys, args []string) {
	ttl, err := strconv.ParseInt(args[1], 10, 64)
	switch {
	case err != nil || ttl <= 0:
		s.fail(noNumber)
	case s.allHave(keys, args[0]):
		for _, key := range keys {
			s.node.setEnd(key, s.node.now()+ttl)
		}
		s.status("OK")
	}
}

func redislockPTTL(s *Session, keys, args []string) {
	if !s.allHave(keys, args[0]) {
		return
	}
	shortest := int64(0)
	for _, key := range keys {
		if ttl := s.node.pttl(key); ttl > 0 && (shortest == 0 || ttl < shortest) {
			shortest = ttl
		}
	}
	s.number(shortest)
}

func redislockRelease(s *Session, keys, args []string) {
	if !s.allHave(keys, args[0]) {
		return
	}
	for _, key := range keys {
		s.node.del(key)
	}
	s.status("OK")
}
