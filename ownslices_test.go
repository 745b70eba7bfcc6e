package lockpipe_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/stretchr/testify/require"
)

// overwrite changes all that the memory of a slice has room for, as an append by its owner may.
func overwrite(s []string) {
	for i := range s[:cap(s)] {
		s[:cap(s)][i] = "changed"
	}
}

// The goal: the caller's slice of keys stays as it was, whatever the caller does to what a call
// returns.
func TestWhatACallReturnsIsNotTheCallersSlice(t *testing.T) {
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
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		for name, returned := range map[string]func(t *testing.T, keys []string) []string{
			"cut off in the queue": func(t *testing.T, keys []string) []string {
				t.Helper()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				first := queueFor(ctx, c, keys)
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
			l := v.hold(t, v.client(t), "a", lockpipe.WithTTL(20*time.Second))
			keys := make([]string, 3, 8)
			copy(keys, []string{"a", "b", "c"})
			overwrite(returned(t, keys))
			require.Equal(t, []string{"a", "b", "c", "", "", "", "", ""}, keys[:cap(keys)], name)
			require.NoError(t, l.Release(t.Context()))
			time.Sleep(time.Minute)
		}
	})
}

// The goal: the caller may change its slice as soon as AcquireAsync has returned.
func TestTheKeysOfAcquireAsyncMayBeChanged(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, v *virtual, c *lockpipe.Client) {
		l := v.hold(t, c, "a")
		for _, keys := range [][]string{{"a"}, {"a", "b", "c"}, {"a", "b", "a", "c"}} {
			want := slices.Compact(slices.Sorted(slices.Values(keys)))
			next := async(t.Context(), t, c, keys)
			overwrite(keys)
			synctest.Wait()
			require.NoError(t, l.Release(t.Context()))
			time.Sleep(time.Second)
			l = granted(t, next)
			require.Equal(t, want, l.Keys())
			for _, k := range want {
				require.Equal(t, l.Token(), v.get(0, k))
			}
		}
		require.NoError(t, l.Release(t.Context()))
		v.nothingLeft(t)
	})
}
