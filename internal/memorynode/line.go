package memorynode

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// line is a line of script.Line: a sorted set.
type line struct {
	places map[string]float64 // tickets by members
	now    int64              // by the node's clock, in milliseconds
}

func (n *Node) line(key string) line {
	e, _ := n.entry(key)
	places := map[string]float64{}
	maps.Copy(places, e.scores)
	return line{places, n.wallClock().UnixMilli()}
}

// at returns the member with this ticket; "" if there is none.
func (l line) at(ticket float64) (member string) {
	for m, t := range l.places {
		if t == ticket {
			member = m
		}
	}
	return member
}

// drop takes the place of a client out, and reports whether there was one.
func (l line) drop(name string, ticket float64) bool {
	own := l.at(ticket)
	has := strings.HasSuffix(own, ":"+name)
	if has {
		delete(l.places, own)
	}
	return has
}

// next returns the lowest ticket, or the highest one, of those that count; 0 if there is none.
func (l line) next(lowest bool, counts func(float64) bool) (ticket float64) {
	for _, t := range l.places {
		if counts(t) && (ticket == 0 || (t < ticket) == lowest) {
			ticket = t
		}
	}
	return ticket
}

func (l line) endOf(member string) int64 {
	end, _, _ := strings.Cut(member, ":")
	n, _ := strconv.ParseInt(end, 10, 64)
	return n
}

// end lets the place with this ticket end at that time, if it would end later.
func (l line) end(ticket float64, at int64) (changed bool) {
	member := l.at(ticket)
	if changed = l.endOf(member) > at; changed {
		_, name, _ := strings.Cut(member, ":")
		delete(l.places, member)
		l.places[fmt.Sprint(at, ":", name)] = ticket
	}
	return changed
}

// lineModel is script.Line in Go.
func lineModel(n *Node, keys, args []string) []int64 {
	l, name, left := n.line(keys[0]), args[0], n.pttl(keys[1])
	ticket, _ := strconv.ParseFloat(args[1], 64)
	lasts, _ := strconv.ParseInt(args[2], 10, 64)
	most, _ := strconv.Atoi(args[3])
	grace, _ := strconv.ParseInt(args[4], 10, 64)
	all := func(float64) bool { return true }
	isBefore := func(t float64) bool { return t < ticket }
	if !l.drop(name, ticket) {
		if len(l.places) >= most {
			return []int64{0, 0, 0, left}
		}
		n.ticket = max(l.next(false, all)+1, float64(n.wallClock().UnixMicro()), n.ticket+1)
		ticket = n.ticket
	}
	l.places[fmt.Sprint(l.now+lasts, ":", name)] = ticket
	living := func(lowest bool, counts func(float64) bool) float64 {
		for {
			t := l.next(lowest, counts)
			if end := l.endOf(l.at(t)); t == 0 || end > l.now && end <= l.now+lasts {
				return t
			}
			delete(l.places, l.at(t))
		}
	}
	if first := living(true, all); left == -2 && first < ticket {
		l.end(first, l.now+grace)
	}
	before := living(false, isBefore)
	ahead := slices.Index(slices.Sorted(maps.Values(l.places)), ticket)
	n.put(keys[0], entry{scores: l.places, end: n.now() + lasts})
	return []int64{int64(ticket), int64(before), int64(ahead), left}
}

// leaveModel is script.Leave in Go.
func leaveModel(n *Node, keys, args []string) []int64 {
	l := n.line(keys[0])
	ticket, _ := strconv.ParseFloat(args[1], 64)
	lasts, _ := strconv.ParseInt(args[2], 10, 64)
	grace, _ := strconv.ParseInt(args[3], 10, 64)
	changed := l.drop(args[0], ticket)
	behind := l.next(true, func(t float64) bool { return t > ticket })
	if behind > 0 {
		n.put(keys[1], entry{end: n.now() + lasts})
	}
	if behind > 0 && l.next(true, func(float64) bool { return true }) == behind {
		changed = l.end(behind, l.now+grace) || changed
	}
	if e, _ := n.entry(keys[0]); changed && len(l.places) == 0 {
		n.del(keys[0])
	} else if changed {
		n.put(keys[0], entry{scores: l.places, end: e.end})
	}
	return []int64{int64(len(l.places))}
}
