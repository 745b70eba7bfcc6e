package calls

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: a key that is given twice in one call is one key of one lease.
func TestAcquireAll_AKeyGivenTwiceIsOneKey(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	for name, keys := range map[string][]string{"at once": {"a", "a", "b", "c"}, "later": {
		"a", "b",
		"a", "c", "b",
	}, "last": {"a", "b", "c", "c"}} {
		given := append([]string(nil), keys...)
		l, err := c.TryAcquireAll(t.Context(), keys)
		require.NoError(t, err, name)
		require.Equal(t, []string{"a", "b", "c"}, l.Keys(), name)
		require.Equal(t, given, keys, "the caller's slice was changed")
		for _, k := range l.Keys() {
			kit.OnEvery(t, nodes, kit.Span(0, 3), k, l.Token())
		}
		require.NoError(t, l.Extend(t.Context(), kit.LongTTL), name)
		require.NoError(t, l.Release(t.Context()), name)
		kit.NothingLeft(t, nodes)
	}
	l, err := c.AcquireAll(t.Context(), []string{"a", "a"})
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, l.Keys())
}

// The goal: 10,000 keys in one call are acquired, extended and released as a whole, and nothing is
// left.
func TestAcquireAll_TenThousandKeysInOneCall(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = fmt.Sprintf("sku:%05d", i)
	}
	l, err := c.TryAcquireAll(t.Context(), keys)
	require.NoError(t, err)
	require.Equal(t, keys, l.Keys())
	granted := 0
	for i := range nodes.Len() {
		has, err := kit.OwnKeys(nodes, i)
		require.NoError(t, err)
		if len(has) == len(keys) {
			granted++
		}
	}
	// The third node may be late, or have missed some: a busy machine may lose a connection.
	require.GreaterOrEqual(t, granted, 2, "a quorum has all keys")
	require.NoError(t, l.Extend(t.Context(), kit.LongTTL))
	kit.Lasting(t, l)
	_, err = c.TryAcquireAll(t.Context(), append([]string{"free"}, keys[9_990:]...))
	require.ErrorIs(t, err, lockpipe.ErrHeld)
	require.NoError(t, l.Release(t.Context()))
	kit.NothingLeft(t, nodes)
	results := c.TryAcquireEach(t.Context(), keys)
	leases := make([]*lockpipe.Lease, len(results))
	for i, r := range results {
		require.NoError(t, r.Err)
		leases[i] = r.Lease
	}
	require.NoError(t, c.ReleaseAll(t.Context(), leases...))
	kit.NothingLeft(t, nodes)
}

// The goal: the caller's slice of keys stays as it was, whatever the caller does to what a call
// returns.
func TestAcquireAll_WhatACallReturnsIsNotTheCallersSlice(t *testing.T) {
	t.Parallel()
	type option = lockpipe.Option
	cutOff := func(t *testing.T, c *lockpipe.Client, keys []string, opts ...option) []string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.AcquireAll(ctx, keys, opts...)
		var held *lockpipe.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, keys[:1], held.Keys)
		return held.Keys
	}
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		other := v.Client(t)
		for name, returned := range map[string]func(t *testing.T, keys []string) []string{
			"cut off in the queue": func(t *testing.T, keys []string) []string {
				t.Helper()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				first := kit.QueueFor(ctx, c, keys)
				synctest.Wait()
				defer func() { <-first }()
				defer cancel()
				return cutOff(t, c, keys)
			},
			"cut off as the first": func(t *testing.T, keys []string) []string {
				t.Helper()
				return cutOff(t, c, keys)
			},
			"cut off without a queue": func(t *testing.T, keys []string) []string {
				t.Helper()
				return cutOff(t, c, keys, lockpipe.WithMaxAttempts(1000))
			},
			"refused": func(t *testing.T, keys []string) []string {
				t.Helper()
				_, err := c.TryAcquireAll(t.Context(), keys)
				var held *lockpipe.HeldError
				require.ErrorAs(t, err, &held)
				return held.Keys
			},
			"one of each": func(t *testing.T, keys []string) []string {
				t.Helper()
				var held *lockpipe.HeldError
				require.ErrorAs(t, c.TryAcquireEach(t.Context(), keys)[0].Err, &held)
				return held.Keys
			},
			"granted": func(t *testing.T, keys []string) []string {
				t.Helper()
				l, err := c.TryAcquireAll(t.Context(), keys[1:])
				require.NoError(t, err)
				overwrite(l.Keys())
				require.Equal(t, keys[1:], l.Keys())
				require.NoError(t, l.Release(t.Context()))
				return l.Keys()
			},
		} {
			l := v.Hold(t, other, "a", lockpipe.WithTTL(20*time.Second))
			keys := make([]string, 3, 8)
			copy(keys, []string{"a", "b", "c"})
			overwrite(returned(t, keys))
			require.Equal(t, []string{"a", "b", "c", "", "", "", "", ""}, keys[:cap(keys)], name)
			require.NoError(t, l.Release(t.Context()))
			time.Sleep(time.Minute)
		}
	})
}
