package memorynode

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockpipe/lockpipe/internal/layout"
)

// layoutsModel is script.Layouts in Go. It replies with a text. mu is held.
func layoutsModel(n *Node, key string, args []string) string {
	own, now := args[0], n.now()
	lasts, _ := strconv.ParseInt(args[1], 10, 64)
	before, _ := n.get(key)
	var others []layout.Entry
	ownEnd, foreign := int64(0), false
	for _, e := range layout.ParseEntries(before) {
		switch {
		case e.Millis <= now:
		case e.IDs == own:
			ownEnd = e.Millis
		default:
			others = append(others, e)
			foreign = foreign || layout.Foreign(own, e.IDs)
		}
	}
	slices.SortFunc(others, func(a, b layout.Entry) int {
		return cmp.Or(cmp.Compare(b.Millis, a.Millis), strings.Compare(a.IDs, b.IDs))
	})
	var reply []string
	for _, e := range others {
		reply = append(reply, fmt.Sprint(e.IDs, "=", e.Millis-now))
	}
	yields := foreign && args[2] == "1"
	if end := now + lasts; lasts > 0 && !yields && ownEnd < end-10_000 {
		kept := append([]layout.Entry{{IDs: own, Millis: end}}, others[:min(len(others), 63)]...)
		var text []string
		for _, e := range kept {
			text = append(text, fmt.Sprint(e.IDs, "=", e.Millis))
			end = max(end, e.Millis)
		}
		n.set(key, strings.Join(text, " "), end-now)
	}
	return strings.Join(reply, " ")
}
