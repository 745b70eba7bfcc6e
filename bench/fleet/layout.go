package fleet

import (
	"strconv"
	"strings"

	"github.com/lockpipe/lockpipe"
)

// UseNodes gives a Client the nodes of its stage. Each of the layouts is one group without a name,
// or several of one size with the names g1, g2 and so on; the groups of the next layout have the
// names behind those of the old one, and a name also if there is one.
func UseNodes(cfg *lockpipe.Config, old, next []string, groups int, stage Stage) {
	switch {
	case stage == New:
		cfg.Groups = divide(next, groups, groups+1)
		return
	case groups == 1:
		cfg.Nodes = old
	default:
		cfg.Groups = divide(old, groups, 1)
	}
	if stage == Both {
		cfg.Next = divide(next, groups, groups+1)
	}
}

// divide divides nodes into groups of one size, in their order. first is the number of the first.
func divide(urls []string, groups, first int) []lockpipe.Group {
	list := make([]lockpipe.Group, groups)
	size := len(urls) / groups
	for i := range list {
		list[i] = lockpipe.Group{
			Name: "g" + strconv.Itoa(first+i), Nodes: urls[i*size : (i+1)*size],
		}
	}
	return list
}

// GroupIndex returns the index of a group of the old layout by its name, which may be empty.
func GroupIndex(name string) int {
	number, _ := strconv.Atoi(strings.TrimPrefix(name, "g"))
	return max(number-1, 0)
}
