package memorynode

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The value of a field has its end, the owner and the run_ids.
var runIDsPattern = regexp.MustCompile(`(?s)^\d+ \S+ (.*)`)

// layoutEnd returns when a field ends by the clock of the node; 0 if it is none.
func layoutEnd(value string) (end int64) {
	digits, _, isWhole := strings.Cut(value[:min(len(value), 16)], " ")
	if isWhole && strings.Trim(digits, "0123456789") == "" {
		end, _ = strconv.ParseInt(digits, 10, 64)
	}
	return end
}

// layoutsModel is script.Layouts in Go.
func layoutsModel(s *Session, keys, args []string) {
	n, own := s.node, args[0]
	before, ok := s.hashOf(keys[0])
	if !ok {
		return
	}
	others, after := slices.Collect(maps.Keys(before)), map[string]string{}
	slices.SortFunc(others, func(a, b string) int {
		return cmp.Or(cmp.Compare(layoutEnd(before[b]), layoutEnd(before[a])),
			strings.Compare(a, b))
	})
	now, last, bytes := n.wallClock().UnixMilli(), int64(0), 0
	reply := []string{fmt.Sprint(now)}
	for _, field := range others {
		size, end := len(field)+len(before[field]), layoutEnd(before[field])
		if field == own {
			after[own] = before[own]
			continue
		}
		if last = max(last, end); end > now && len(reply) < 2*63 && bytes+size <= 96_000 {
			bytes, after[field] = bytes+size, before[field]
			reply = append(reply, field, before[field])
		}
	}
	keyEnd, end := n.keys[keys[0]].end, layoutEnd(before[own])
	lasts, _ := strconv.ParseInt(args[1], 10, 64)
	runIDs := runIDsPattern.FindStringSubmatch(before[own])
	if end < now+lasts-10_000 || runIDs == nil || runIDs[1] != args[3] {
		end = max(end, now+lasts)
		after[strings.Clone(own)] = fmt.Sprint(end, " ", args[2], " ", args[3])
		keyEnd = n.now() + max(last, end) - now
	}
	if !maps.Equal(before, after) {
		n.put(keys[0], entry{hash: after, end: keyEnd})
	}
	s.texts(reply)
}

// hashOf returns the hash of a key, nil if there is none. After a reply about its type ok is false.
func (s *Session) hashOf(key string) (hash map[string]string, ok bool) {
	e, there := s.node.entry(key)
	if there && e.hash == nil {
		s.fail(wrongType)
		return nil, false
	}
	return e.hash, true
}

// fields makes the reply to HGETALL, in the order of the fields' names.
func (s *Session) fields(args []string) {
	s.track(args[1])
	if hash, ok := s.hashOf(args[1]); ok {
		pairs := []string{}
		for _, field := range slices.Sorted(maps.Keys(hash)) {
			pairs = append(pairs, field, hash[field])
		}
		s.pairs(0, pairs...)
	}
}
