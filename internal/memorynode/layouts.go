package memorynode

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// layoutEntry is a client's layouts, and when they end by the clock of the node.
type layoutEntry struct {
	ids string
	end int64
}

var layoutPattern = regexp.MustCompile(`([\w,]+)=(\d+)`)

// readLayouts returns the entries in a text that have not ended.
func readLayouts(text string, now int64) (all []layoutEntry) {
	for _, found := range layoutPattern.FindAllStringSubmatch(text, -1) {
		end, _ := strconv.ParseInt(found[2], 10, 64)
		known := slices.ContainsFunc(all, func(e layoutEntry) bool { return e.ids == found[1] })
		if len(found[2]) <= 15 && len(found[1]) <= 64 && end > now && !known {
			all = append(all, layoutEntry{found[1], end})
		}
	}
	return all
}

// isForeign reports whether an entry has no ID of another.
func (e layoutEntry) isForeign(ids string) bool {
	own := strings.Split(ids, ",")
	return !slices.ContainsFunc(strings.Split(e.ids, ","), func(id string) bool {
		return slices.Contains(own, id)
	})
}

// layoutsModel is script.Layouts in Go. It replies with a text.
func layoutsModel(s *Session, keys, args []string) {
	n, key, own := s.node, keys[0], args[0]
	now := n.wallClock().UnixMilli()
	lasts, _ := strconv.ParseInt(args[1], 10, 64)
	before, ok := n.get(key)
	if _, isString := n.getString(key); ok && !isString {
		s.fail(wrongType)
		return
	}
	var others []layoutEntry
	ownEnd, foreign := int64(0), false
	for _, e := range readLayouts(before, now) {
		if e.ids == own {
			ownEnd = e.end
			continue
		}
		others = append(others, e)
		foreign = foreign || e.isForeign(own)
	}
	slices.SortFunc(others, func(a, b layoutEntry) int {
		return cmp.Or(cmp.Compare(b.end, a.end), strings.Compare(a.ids, b.ids))
	})
	var reply []string
	for _, e := range others {
		reply = append(reply, fmt.Sprint(e.ids, "=", e.end-now))
	}
	yields := foreign && args[2] == "1"
	if end := now + lasts; lasts > 0 && !yields && ownEnd < end-10_000 {
		kept := append([]layoutEntry{{own, end}}, others[:min(len(others), 63)]...)
		var text []string
		for _, e := range kept {
			text = append(text, fmt.Sprint(e.ids, "=", e.end))
			end = max(end, e.end)
		}
		n.set(key, strings.Join(text, " "), end-now)
	}
	s.text(strings.Join(reply, " "))
}
