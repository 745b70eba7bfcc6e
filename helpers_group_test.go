package lockpipe_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// groupSize is how many nodes each group under test has, if the test does not say.
const groupSize = 3

// groupsOf makes groups of that many nodes, with the names a, b and so on.
func groupsOf(urls []string, size int) (groups []lockpipe.Group) {
	for i := 0; i < len(urls); i += size {
		groups = append(groups, lockpipe.Group{
			Name: string(rune('a' + i/size)), Nodes: urls[i : i+size],
		})
	}
	return groups
}

// inGroups divides the nodes of a client into groups.
func inGroups(size int) func(*lockpipe.Config) {
	return func(cfg *lockpipe.Config) {
		cfg.Groups, cfg.Nodes = groupsOf(cfg.Nodes, size), nil
	}
}

// membersOf returns the indexes of the nodes of a group.
func membersOf(group string) []int {
	first := int(group[0]-'a') * groupSize
	return span(first, first+groupSize)
}

// inGroupBubble is inBubble with a client of three groups.
func inGroupBubble(t *testing.T, test func(t *testing.T, v *fakeNodes, c *lockpipe.Client),
	change ...func(*lockpipe.Config),
) {
	t.Helper()
	inBubble(t, 3*groupSize, test, append(change, inGroups(groupSize))...)
}

// grouped returns a client of three groups of real servers, which is connected.
func grouped(t *testing.T, nodes *lockpipetest.Nodes, change ...func(*lockpipe.Config),
) *lockpipe.Client {
	t.Helper()
	return connected(t, newClient(t, nodes, append(change, inGroups(nodes.Len()/3))...))
}

// keyIn returns a key of a group. Different names give different keys.
func keyIn(c *lockpipe.Client, group, name string) string {
	for i := 0; ; i++ {
		key := fmt.Sprintf("%s-%d", name, i)
		if c.GroupOf(key) == group {
			return key
		}
	}
}

// oneOfEach returns a key of each of these groups, in their order.
func oneOfEach(c *lockpipe.Client, name string, groups ...string) (keys []string) {
	for _, group := range groups {
		keys = append(keys, keyIn(c, group, name))
	}
	return keys
}

// onlyOn wants a key with this value on the nodes of its group, and on no other node.
func (v *fakeNodes) onlyOn(t *testing.T, c *lockpipe.Client, key, value string) {
	t.Helper()
	synctest.Wait() // a release is confirmed before all nodes have it
	for i := range v.nodes {
		want := ""
		if c.GroupOf(key) == string(rune('a'+i/groupSize)) {
			want = value
		}
		require.Equal(t, want, v.get(i, key), "node %d, key %s", i, key)
	}
}

// holdAll is a lease of all keys that every node has granted.
func (v *fakeNodes) holdAll(t *testing.T, c *lockpipe.Client, keys []string,
	opts ...lockpipe.Option,
) *lockpipe.Lease {
	t.Helper()
	l, err := c.TryAcquireAll(t.Context(), keys, opts...)
	require.NoError(t, err)
	v.heldBy(t, c, l)
	return l
}

// heldBy wants all keys of a lease on all nodes of their groups, and on no other.
func (v *fakeNodes) heldBy(t *testing.T, c *lockpipe.Client, l *lockpipe.Lease) {
	t.Helper()
	synctest.Wait()
	for _, key := range l.Keys() {
		v.onlyOn(t, c, key, l.Token())
	}
}

// names returns the addresses of nodes.
func (v *fakeNodes) names(which ...int) (names []string) {
	for _, i := range which {
		names = append(names, v.urls[i])
	}
	return names
}
