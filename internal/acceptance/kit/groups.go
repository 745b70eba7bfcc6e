package kit

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// GroupSize is how many nodes each group under test has, if the test does not say.
const GroupSize = 3

// GroupsOf makes groups of that many nodes, with the names a, b and so on.
func GroupsOf(urls []string, size int) (groups []lockpipe.Group) {
	for i := 0; i < len(urls); i += size {
		groups = append(groups, lockpipe.Group{
			Name: string(rune('a' + i/size)), Nodes: urls[i : i+size],
		})
	}
	return groups
}

// InGroups divides the nodes of a client into groups.
func InGroups(size int) func(*lockpipe.Config) {
	return func(cfg *lockpipe.Config) {
		cfg.Groups, cfg.Nodes = GroupsOf(cfg.Nodes, size), nil
	}
}

// MembersOf returns the indexes of the nodes of a group.
func MembersOf(group string) []int {
	first := int(group[0]-'a') * GroupSize
	return Span(first, first+GroupSize)
}

// InGroupBubble is InBubble with a client of three groups.
func InGroupBubble(t *testing.T, test func(t *testing.T, v *FakeNodes, c *lockpipe.Client),
	change ...func(*lockpipe.Config),
) {
	t.Helper()
	InBubble(t, 3*GroupSize, test, append(change, InGroups(GroupSize))...)
}

// KeyIn returns a key of a group. Different names give different keys.
func KeyIn(c *lockpipe.Client, group, name string) string {
	for i := 0; ; i++ {
		key := fmt.Sprintf("%s-%d", name, i)
		if c.GroupOf(key) == group {
			return key
		}
	}
}

// OneOfEach returns a key of each of these groups, in their order.
func OneOfEach(c *lockpipe.Client, name string, groups ...string) (keys []string) {
	for _, group := range groups {
		keys = append(keys, KeyIn(c, group, name))
	}
	return keys
}

// OnlyOn wants a key with this value on the nodes of its group, and on no other node.
func (v *FakeNodes) OnlyOn(t *testing.T, c *lockpipe.Client, key, value string) {
	t.Helper()
	synctest.Wait() // a release is confirmed before all nodes have it
	for i := range v.Nodes {
		want := ""
		if c.GroupOf(key) == string(rune('a'+i/GroupSize)) {
			want = value
		}
		require.Equal(t, want, v.Get(i, key), "node %d, key %s", i, key)
	}
}

// HoldAll is a lease of all keys that every node has granted.
func (v *FakeNodes) HoldAll(t *testing.T, c *lockpipe.Client, keys []string,
	opts ...lockpipe.Option,
) *lockpipe.Lease {
	t.Helper()
	l, err := c.TryAcquireAll(t.Context(), keys, opts...)
	require.NoError(t, err)
	v.HeldBy(t, c, l)
	return l
}

// HeldBy wants all keys of a lease on all nodes of their groups, and on no other.
func (v *FakeNodes) HeldBy(t *testing.T, c *lockpipe.Client, l *lockpipe.Lease) {
	t.Helper()
	synctest.Wait()
	for _, key := range l.Keys() {
		v.OnlyOn(t, c, key, l.Token())
	}
}

// Names returns the addresses of nodes.
func (v *FakeNodes) Names(which ...int) (names []string) {
	for _, i := range which {
		names = append(names, v.URLs[i])
	}
	return names
}
