package sim

import (
	"strconv"

	"github.com/lockpipe/lockpipe/script"
)

// twins are the project's scripts in Go, by the SHA-1 of the Lua: a server's Lua would take most of a simulation's time. That they do the same
// is tested against servers.
var twins = map[string]func(n *node, keys, args []string) []int64{
	script.Acquire.SHA:       acquireTwin,
	script.AcquireFenced.SHA: acquireFencedTwin,
	script.Extend.SHA:        extendTwin,
	script.Raise.SHA:         raiseTwin,
	script.Release.SHA:       releaseTwin,
}

// lot is one set of keys of a script call.
type lot struct {
	keys  []string
	token string
	ttl   int64
}

// lots reads KEYS and ARGV, which have the form that the Lua files describe; each set has so many values in the long form.
func lots(keys, args []string, values int) (all []lot) {
	shared := args[0] != ""
	for i := 1; i < len(args); {
		l := lot{}
		count := 1
		if shared {
			l.token = args[i]
			l.ttl, _ = strconv.ParseInt(args[0], 10, 64)
			i++
		} else {
			count, _ = strconv.Atoi(args[i])
			l.token = args[i+1]
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

// verdict makes the reply of acquire and extend: one number where all were granted, else a list.
type verdict struct {
	granted int64
	refused []int64
}

func (v *verdict) refuse(set, key int) { v.refused = append(v.refused, int64(set+1), int64(key)) }

func (v *verdict) reply() []int64 {
	if v.refused == nil {
		return []int64{v.granted}
	}
	return append([]int64{v.granted}, v.refused...)
}

func acquireTwin(n *node, keys, args []string) []int64 {
	v := verdict{}
	for i, l := range lots(keys, args, 3) {
		held := 0
		for k, key := range l.keys {
			if _, ok := n.get(key); ok {
				held = k + 1
				break
			}
		}
		if held > 0 {
			v.refuse(i, held)
			continue
		}
		for _, key := range l.keys {
			n.set(key, l.token, l.ttl)
		}
		v.granted++
	}
	return v.reply()
}

func extendTwin(n *node, keys, args []string) []int64 {
	v := verdict{}
	all := lots(keys, args, 3)
	before := map[string]string{} // as by MGET at the beginning
	for _, key := range keys {
		if value, ok := n.get(key); ok {
			before[key] = value
		}
	}
	var refills []lot
	for i, l := range all {
		missing, foreign := 0, 0
		for k, key := range l.keys {
			value, ok := before[key]
			if !ok {
				missing++
			} else if value != l.token {
				foreign = k + 1
				break
			}
		}
		if foreign > 0 {
			v.refuse(i, foreign)
			continue
		}
		for _, key := range l.keys {
			if _, ok := before[key]; ok {
				n.set(key, l.token, l.ttl)
			} else {
				refills = append(refills, lot{[]string{key}, l.token, l.ttl})
			}
		}
		if missing > 0 {
			v.refuse(i, 0)
		} else {
			v.granted++
		}
	}
	for _, r := range refills {
		if _, ok := n.get(r.keys[0]); !ok {
			n.set(r.keys[0], r.token, r.ttl)
		}
	}
	return v.reply()
}

func releaseTwin(n *node, keys, args []string) []int64 {
	var mine []string
	for _, l := range lots(keys, args, 2) {
		for _, key := range l.keys {
			if value, ok := n.get(key); ok && value == l.token {
				mine = append(mine, key)
			}
		}
	}
	deleted := int64(0)
	for _, key := range mine {
		if _, ok := n.get(key); ok {
			deleted++
			n.del(key)
		}
	}
	return []int64{deleted}
}
