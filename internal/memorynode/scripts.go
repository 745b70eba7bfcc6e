package memorynode

import (
	"crypto/sha1"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/lockpipe/lockpipe/script"
)

// scriptFunc makes the reply to a script.
type scriptFunc func(s *Session, keys, args []string)

// models are the project's scripts in Go, by the SHA-1 of the Lua. A test compares them with
// servers.
var models = map[string]scriptFunc{
	script.Acquire.SHA: numberOrList(acquireModel),
	script.Guard.SHA:   numberOrList(guardModel),
	script.Extend.SHA:  numberOrList(extendModel),
	script.Release.SHA: numberOrList(releaseModel),
	script.Keep.SHA:    numberOrList(keepModel),
	script.Adopt.SHA:   numberOrList(adoptModel),
	script.Layouts.SHA: layoutsModel,
	script.Fences.SHA:  list(fencesModel),
	script.Line.SHA:    list(lineModel),
	script.Leave.SHA:   numberOrList(leaveModel),
	script.Probe.SHA:   list(func(*Node, []string, []string) []int64 { return nil }),
}

// list makes a list of what a model returns.
func list(model func(n *Node, keys, args []string) []int64) scriptFunc {
	return func(s *Session, keys, args []string) {
		s.numbers(model(s.node, keys, args), false)
	}
}

// numberOrList makes a list, or a number of one alone.
func numberOrList(model func(n *Node, keys, args []string) []int64) scriptFunc {
	return func(s *Session, keys, args []string) {
		s.numbers(model(s.node, keys, args), true)
	}
}

// numbers makes a list, or a number if that is to be and there is one alone.
func (s *Session) numbers(all []int64, alone bool) {
	if !alone || len(all) != 1 {
		s.array(len(all))
	}
	for _, v := range all {
		s.number(v)
	}
}

// script makes the reply to SCRIPT.
func (s *Session) script(args []string) {
	n := s.node
	switch sub := strings.ToUpper(args[1]); {
	case sub == "LOAD" && len(args) == 3:
		s.text(n.loadScript(args[2]))
	case sub == "EXISTS":
		s.array(len(args) - 2)
		for _, name := range args[2:] {
			if _, ok := n.scripts[strings.ToLower(name)]; ok {
				s.number(1)
			} else {
				s.number(0)
			}
		}
	case sub == "FLUSH":
		clear(n.scripts)
		s.status("OK")
	default:
		s.fail("ERR unknown subcommand '" + printable(args[1]) + "'" + realServer)
	}
}

// maxScripts is how many scripts a node keeps.
const maxScripts = 1000

// loadScript keeps a script and returns its name. mu is held.
func (n *Node) loadScript(source string) string {
	name := scriptName(source)
	if _, known := n.scripts[name]; known {
		return name
	}
	run, ok := models[name]
	if !ok {
		run = foreignScript(name, source)
	}
	if len(n.scripts) >= maxScripts {
		clear(n.scripts)
	}
	n.scripts[name] = run
	return name
}

func (s *Session) eval(args []string) { s.runScript(s.node.loadScript(args[1]), args[2:]) }

func (s *Session) evalSHA(args []string) { s.runScript(args[1], args[2:]) }

// runScript runs a script; args are the number of keys, the keys, and the arguments.
func (s *Session) runScript(name string, args []string) {
	n := s.node
	run, ok := n.scripts[name]
	if !ok {
		run, ok = n.scripts[strings.ToLower(name)]
	}
	count, err := strconv.Atoi(args[0])
	switch {
	case !ok:
		s.fail("NOSCRIPT No matching script. Please use EVAL.")
		return
	case err != nil || count < 0 || count >= len(args):
		s.fail("ERR Number of keys can't be greater than number of args")
		return
	case run == nil:
		s.fail("ERR unknown script" + realServer)
		return
	}
	keys, changes, made := n.keys, n.changes, len(s.out)
	if n.replica {
		n.keys = keys.clone()
	}
	n.scripted = true
	run(s, args[1:1+count], args[1+count:])
	n.scripted = false
	if n.replica && n.changes != changes {
		n.keys, s.out = keys, s.out[:made]
		s.fail(ReadOnly)
	}
}

// keySet is one set of keys of a script call.
type keySet struct {
	keys  []string
	value string
	ttl   int64
}

// keySets reads KEYS and ARGV, whose form the Lua files describe. In the long form each set has as
// many arguments as values says.
func keySets(keys, args []string, values int) (all []keySet) {
	shared := args[0] != ""
	for i := 1; i < len(args); {
		l := keySet{}
		count := 1
		if shared {
			l.value = args[i]
			l.ttl, _ = strconv.ParseInt(args[0], 10, 64)
			i++
		} else {
			count, _ = strconv.Atoi(args[i])
			l.value = args[i+1]
			if values == 3 {
				l.ttl, _ = strconv.ParseInt(args[i+2], 10, 64)
			}
			i += values
		}
		l.keys, keys = keys[:count], keys[count:]
		all = append(all, l)
	}
	return all
}

// scriptReply makes the reply of acquire and extend: one number if all sets were granted, else a
// list.
type scriptReply struct {
	granted int64
	refused []int64
}

func (v *scriptReply) addRefusal(set, key int) {
	v.refused = append(v.refused, int64(set+1), int64(key))
}

func (v *scriptReply) values() []int64 {
	if v.refused == nil {
		return []int64{v.granted}
	}
	return append([]int64{v.granted}, v.refused...)
}

func acquireModel(n *Node, keys, args []string) []int64 {
	v := scriptReply{}
	for i, l := range keySets(keys, args, 3) {
		held := 0
		for k, key := range l.keys {
			if _, ok := n.get(key); ok {
				held = k + 1
				break
			}
		}
		if held > 0 {
			v.addRefusal(i, held)
			continue
		}
		for _, key := range l.keys {
			n.set(key, l.value, l.ttl)
		}
		v.granted++
	}
	return v.values()
}

func extendModel(n *Node, keys, args []string) []int64 {
	v := scriptReply{}
	all := keySets(keys, args, 3)
	before := map[string]string{} // as MGET reads them at the beginning
	for _, key := range keys {
		if value, ok := n.get(key); ok { // a key of another type counts as foreign
			before[key] = value
		}
	}
	var refills []keySet
	for i, l := range all {
		missing, foreign := 0, 0
		for k, key := range l.keys {
			value, ok := before[key]
			if !ok {
				missing++
			} else if value != l.value {
				foreign = k + 1
				break
			}
		}
		if foreign > 0 {
			v.addRefusal(i, foreign)
			continue
		}
		for _, key := range l.keys {
			if _, ok := before[key]; ok {
				n.extend(key, l.ttl)
			} else {
				refills = append(refills, keySet{[]string{key}, l.value, l.ttl})
			}
		}
		if missing > 0 {
			v.addRefusal(i, 0)
		} else {
			v.granted++
		}
	}
	for _, r := range refills {
		if _, ok := n.get(r.keys[0]); !ok {
			n.set(r.keys[0], r.value, r.ttl)
		}
	}
	return v.values()
}

func guardModel(n *Node, keys, args []string) []int64 {
	key, left := keys[0], n.pttl(keys[0])
	most, err := strconv.ParseInt(args[4], 10, 64)
	if text, _ := n.get(key); text != args[0] || err == nil && (left < 0 || left > most) {
		return []int64{0}
	}
	e, _ := n.entry(key)
	if n.OnGuard != nil {
		replID := ""
		if n.promoted {
			replID = n.replID()
		}
		n.OnGuard(args[0], args[1], n.currentRunID(), replID)
	}
	switch args[2] {
	case "KEEPTTL":
		n.put(key, entry{value: args[1], end: e.end})
	default:
		ttl, _ := strconv.ParseInt(args[3], 10, 64)
		n.set(key, args[1], ttl)
	}
	return []int64{1}
}

func releaseModel(n *Node, keys, args []string) []int64 {
	v := scriptReply{}
	var mine []string
	for i, l := range keySets(keys, args, 2) {
		before := len(mine)
		for _, key := range l.keys {
			n.reportRelease(key, l.value)
			if value, ok := n.get(key); ok && value == l.value {
				mine = append(mine, key)
			}
		}
		if len(mine)-before < len(l.keys) {
			v.addRefusal(i, 0)
		} else {
			v.granted++
		}
	}
	for _, key := range mine {
		if _, ok := n.get(key); ok {
			n.del(key)
			n.reportScript("DEL", key)
		}
	}
	return v.values()
}

// reportRelease reports that a release names a key. mu is held.
func (n *Node) reportRelease(key, value string) {
	if n.OnRelease != nil {
		n.OnRelease(key, value, n.current)
	}
}

// scriptName returns the SHA-1 of a script. It computes none of the project's own: Go's FIPS 140
// mode refuses SHA-1.
func scriptName(source string) string {
	for _, s := range script.All() {
		if s.Source == source {
			return s.SHA
		}
	}
	sum := sha1.Sum([]byte(source)) // names it; nothing is protected with it
	return hex.EncodeToString(sum[:])
}
