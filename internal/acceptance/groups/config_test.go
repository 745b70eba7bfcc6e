package groups

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
)

// The goal: a list of groups that makes no sense is ErrInvalid, and names the field, the value and
// the remedy.
func TestGroups_ABadConfigIsRefused(t *testing.T) {
	t.Parallel()
	one := lockpipe.Group{Name: "a", Nodes: []string{"127.0.0.1:1"}}
	two := lockpipe.Group{Name: "b", Nodes: []string{"127.0.0.1:2"}}
	with := func(name string, nodes ...string) []lockpipe.Group {
		return []lockpipe.Group{one, {Name: name, Nodes: nodes}}
	}
	var groups []lockpipe.Group
	var nodes []string
	for i := range 65 {
		node := fmt.Sprintf("127.0.0.1:%d", 100+i)
		nodes = append(nodes, node)
		groups = append(groups, lockpipe.Group{Name: fmt.Sprint(i), Nodes: []string{node}})
	}
	long := strings.Repeat("n", 65)
	type test struct {
		groups []lockpipe.Group
		says   []string
	}
	both := map[string]test{ // of Groups, and of Next
		"no name":         {with("", "127.0.0.1:2"), []string{"[1].Name is empty", "give"}},
		"a long name":     {with(long, "127.0.0.1:2"), []string{"[1].Name", "65", "64"}},
		"one name twice":  {with("a", "127.0.0.1:2"), []string{"[1].Name", `"a"`, "[0]", "give"}},
		"no nodes":        {with("b"), []string{"[1].Nodes is empty", `"b"`, "give"}},
		"too many nodes":  {with("b", nodes...), []string{"[1].Nodes", "65", "64"}},
		"too many groups": {groups, []string{"65", "64"}},
		"a bad URL":       {with("b", "ftp://x"), []string{"[1].Nodes[0]", "ftp"}},
		"one server in two groups": {
			with("b", "127.0.0.1:2", "redis://u:secret@127.0.0.1:1"),
			[]string{"[1].Nodes[1]", "[0].Nodes[0]", "127.0.0.1:1", "list each once"},
		},
		"another database of a server": {
			with("b", "redis://127.0.0.1:1/3"),
			[]string{"[1].Nodes[0]", "[0].Nodes[0]", "127.0.0.1:1", "list each once"},
		},
	}
	for name, test := range both {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit.RefusedConfig(t, lockpipe.Config{Groups: test.groups},
				append(test.says, "Config.Groups")...)
			kit.RefusedConfig(t, lockpipe.Config{Groups: []lockpipe.Group{two}, Next: test.groups},
				append(test.says, "Config.Next")...)
		})
	}
	now := []lockpipe.Group{one, two}
	for name, test := range map[string]struct {
		cfg  lockpipe.Config
		says []string
	}{
		"neither": {lockpipe.Config{}, []string{"Config.Nodes is empty", "give"}},
		"Nodes and Groups": {
			lockpipe.Config{Nodes: one.Nodes, Groups: now},
			[]string{"Config.Nodes", "Config.Groups", "both", "give"},
		},
		"Next alone": {lockpipe.Config{Next: now}, []string{"Config.Nodes is empty"}},
		"Next equal to Groups": {
			lockpipe.Config{Groups: now, Next: []lockpipe.Group{two, one}},
			[]string{"Config.Next", "same groups", "leave it out"},
		},
		"Next equal to Nodes": {
			lockpipe.Config{Nodes: one.Nodes, Next: []lockpipe.Group{one}},
			[]string{"Config.Next", "leave it out"},
		},
		"one master of two lists of sentinels": {
			lockpipe.Config{Nodes: []string{
				"redis://s1?addr=s2&master_set=m", "redis://s1?addr=s2&master_set=n",
				"redis://s2?addr=s3&master_set=m",
			}},
			[]string{"Config.Nodes[2] is the same master as Config.Nodes[0] (m@s2:26379): list " +
				"each once"},
		},
		"a Redis Cluster and another node": {
			lockpipe.Config{Nodes: []string{"redis://a", "redis://b?cluster=3"}},
			[]string{"Config.Nodes[1] is a Redis Cluster, and there are 2 entries", "the only entry"},
		},
		"Next with another database": {
			lockpipe.Config{Groups: now, Next: []lockpipe.Group{
				{Name: "n", Nodes: []string{"redis://127.0.0.1:2/1"}},
			}},
			[]string{"Config.Next[0].Nodes[0]", "another database", "127.0.0.1:2", "give"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kit.RefusedConfig(t, test.cfg, test.says...)
		})
	}
}

// The goal: a user or password in a URL next to Config.Credentials is a mistake, in whatever group.
// The error names the field, and shows neither. No node of another group was dialled before.
func TestGroups_AURLWithAPasswordNextToCredentialsIsRefused(t *testing.T) {
	t.Parallel()
	none := func(context.Context, string) (string, string, error) { return "", "", nil }
	one := lockpipe.Group{Name: "a", Nodes: []string{"127.0.0.1:1"}}
	for _, user := range []string{"me:secret@", ":secret@", "secret@"} {
		nodes := []string{"127.0.0.1:2", "redis://" + user + "127.0.0.1:3"}
		two := lockpipe.Group{Name: "b", Nodes: nodes}
		same := lockpipe.Group{Name: "a", Nodes: []string{"redis://" + user + one.Nodes[0]}}
		for field, cfg := range map[string]lockpipe.Config{
			"Config.Nodes[1]":           {Nodes: nodes},
			"Config.Groups[1].Nodes[1]": {Groups: []lockpipe.Group{one, two}},
			"Config.Next[0].Nodes[1]":   {Nodes: one.Nodes, Next: []lockpipe.Group{two}},
			"Config.Next[0].Nodes[0]":   {Nodes: one.Nodes, Next: []lockpipe.Group{same, two}},
		} {
			cfg.Credentials = none
			kit.RefusedConfig(t, cfg, field+" has a user or a password, and Config.Credentials is set: "+
				"leave one of the two out")
		}
	}
}
