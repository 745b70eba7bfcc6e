package nodes

import (
	"strconv"
	"strings"

	"github.com/lockpipe/lockpipe"
)

// Groups divides nodes into so many groups of one size, in their order. The names of the
// groups are g1 and so on.
func Groups(urls []string, groups int) []lockpipe.Group {
	list := make([]lockpipe.Group, groups)
	size := len(urls) / groups
	for i := range list {
		list[i] = lockpipe.Group{
			Name: "g" + strconv.Itoa(i+1), Nodes: urls[i*size : (i+1)*size],
		}
	}
	return list
}

// GroupIndex returns the index of a group by its name, which is empty for a single one.
func GroupIndex(name string) int {
	number, _ := strconv.Atoi(strings.TrimPrefix(name, "g"))
	return max(number-1, 0)
}
