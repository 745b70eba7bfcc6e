package memorynode

import "strconv"

// keepModel is the script that keeps keys, or frees what is kept.
func keepModel(n *Node, keys, args []string) []int64 {
	value, mark, reply := args[2], args[4], []int64{1}
	kept := mark + value[len(value)-1:]
	ttl, _ := strconv.ParseInt(args[3], 10, 64)
	for _, key := range keys {
		n.reportRelease(key, value)
		held, _ := n.get(key)
		switch {
		case args[3] == "" && held != "" && (held == value || held[:len(held)-1] == mark):
			n.del(key)
			n.reportScript("DEL", key)
		case held == value:
			n.set(key, kept, max(n.pttl(key), ttl))
			n.reportScript("SET", key)
		}
		if held != value && (args[3] == "" || held != kept) {
			reply = []int64{0, 1, 0}
		}
	}
	return reply
}

// adoptModel is the script that takes keys which are kept.
func adoptModel(n *Node, keys, args []string) []int64 {
	value, kept, takes := args[2], args[4], args[5]
	missing := false
	for k, key := range keys {
		held, ok := n.get(key)
		held = held[:max(0, len(held)-1)]
		switch {
		case !ok:
			missing = true
		case held != kept && (takes == "marked" || held != kept[:len(kept)-1]):
			return []int64{0, 1, int64(k + 1)}
		}
	}
	if missing && takes != "free" {
		return []int64{0, 1, 0}
	}
	ttl, _ := strconv.ParseInt(args[3], 10, 64)
	for _, key := range keys {
		n.set(key, value, max(n.pttl(key), ttl))
	}
	return []int64{1}
}
