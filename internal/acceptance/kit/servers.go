package kit

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// NothingOfOurs waits until the foreign key is the only one on the nodes, and wants it untouched.
func NothingOfOurs(t *testing.T, nodes *lockpipetest.Nodes, which []int, foreign string) {
	t.Helper()
	for _, i := range which {
		Eventually(t, func() bool {
			keys, err := OwnKeys(nodes, i)
			return err == nil && len(keys) == 1 && keys[0] == Prefix+foreign
		}, "node %d has something else than %s, or lost it", i, foreign)
		require.Equal(t, "another", Value(t, nodes, i, foreign))
	}
}

// Address is how errors and Nodes name node i.
func Address(nodes *lockpipetest.Nodes, i int) string {
	return strings.TrimPrefix(nodes.URLs()[i], "redis://")
}

// Addresses are those of several nodes.
func Addresses(nodes *lockpipetest.Nodes, which []int) []string {
	all := make([]string, len(which))
	for k, i := range which {
		all[k] = Address(nodes, i)
	}
	return all
}

// Do sends a command that must succeed.
func Do(t *testing.T, nodes *lockpipetest.Nodes, i int, args ...string) any {
	t.Helper()
	reply, err := nodes.Do(i, args...)
	require.NoError(t, err)
	return reply
}

// Value is what the client's key has on node i; "" where it is not set.
func Value(t *testing.T, nodes *lockpipetest.Nodes, i int, key string) string {
	t.Helper()
	v, _ := Do(t, nodes, i, "GET", Prefix+key).(string)
	return tokenOf(v)
}

// tokenOf returns the token in a value, or all of it if another client made it.
func tokenOf(value string) string {
	of, _ := ids.SplitValue(value)
	return of
}

// OnEvery waits until the key has the value on all of these nodes. "" stands for not set.
func OnEvery(t *testing.T, nodes *lockpipetest.Nodes, which []int, key, want string) {
	t.Helper()
	for _, i := range which {
		Eventually(t, func() bool {
			v, err := nodes.Do(i, "GET", Prefix+key)
			got, _ := v.(string)
			return err == nil && tokenOf(got) == want
		}, "node %d: key %s does not become %q", i, key, want)
	}
}

// OnQuorum wants the key to have the value on a quorum of these nodes. Of a key that was just
// granted, the others may have missed it: the machine may stop a node for a moment.
func OnQuorum(t *testing.T, nodes *lockpipetest.Nodes, which []int, key, want string) {
	t.Helper()
	has := 0
	for _, i := range which {
		if Value(t, nodes, i, key) == want {
			has++
		}
	}
	require.Greater(t, has, len(which)/2, "key %s is on too few nodes", key)
}

// NothingLeft waits until no key of the clients under test is on any of these nodes, all by
// default.
func NothingLeft(t *testing.T, nodes *lockpipetest.Nodes, which ...int) {
	t.Helper()
	if len(which) == 0 {
		which = Span(0, nodes.Len())
	}
	for _, i := range which {
		var keys []string
		var err error
		ok := func() bool {
			keys, err = OwnKeys(nodes, i)
			return err == nil && len(keys) == 0
		}
		if !Poll(ok) {
			require.NoError(t, err)
			require.Emptyf(t, keys[:min(len(keys), 5)], "keys are left behind on node %d, %d in all",
				i, len(keys))
		}
	}
}

// OwnKeys leaves out the companions that a client keeps for its locks.
func OwnKeys(nodes *lockpipetest.Nodes, i int) ([]string, error) {
	keys, err := nodes.Keys(i, Prefix)
	var own []string
	for _, k := range keys {
		if !strings.HasPrefix(k, Prefix+"lockpipe:") {
			own = append(own, k)
		}
	}
	return own, err
}

// Poll is Eventually without an end of the test.
func Poll(condition func() bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), Patient)
	defer cancel()
	tick := time.NewTicker(often)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// CaughtUp returns when every node has executed what the client had sent it before: a later lease
// is seen on all of them.
func CaughtUp(t *testing.T, c *lockpipe.Client, nodes *lockpipetest.Nodes) {
	t.Helper()
	n := 0
	ok := Poll(func() bool {
		n++
		key := fmt.Sprintf("barrier:%d", n)
		l, err := c.TryAcquire(t.Context(), key)
		if err != nil {
			return false
		}
		defer func() { _ = l.Release(t.Context()) }()
		for i := range nodes.Len() {
			v, err := nodes.Do(i, "GET", Prefix+key)
			if got, _ := v.(string); err != nil || tokenOf(got) != l.Token() {
				return false
			}
		}
		return true
	})
	require.True(t, ok, "a node does not catch up")
}
