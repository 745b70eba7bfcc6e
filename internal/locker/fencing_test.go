package locker

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: the validity of an attempt with fences counts from before their numbers were taken.
func TestFence_ValidityCountsFromBeforeIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newLocker(t, []string{"node:1"}, awake, hangingDial)
		k.Fences = ids.NewFenceClock(func() time.Time {
			time.Sleep(time.Second)
			return time.Now()
		}, ttl)
		began := k.clock.Now()
		var a attempt
		k.prepare(&a, []string{"k"}, &Options{TTL: ttl, Fencing: true})
		require.Equal(t, time.Second, k.clock.Since(began))
		require.Equal(t, began, a.sent)
	})
}

// The goal: a call that was told that its fence is too low asks for one above it, at once, but not
// for ever.
func TestFence_ARetryIsAboveWhatTheNodesHave(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	ahead := time.Now().Add(time.Hour).UnixMicro()
	for i := range nodes.Len() {
		_, err := nodes.Do(i, "ZADD", "lockpipe:fences", strconv.FormatInt(ahead, 10),
			strconv.Itoa(int(ids.FenceMember("x"))))
		require.NoError(t, err)
	}
	k := newLocker(t, nodes.URLs(), awake, nil)
	o := &Options{TTL: ttl, Fencing: true}
	var a attempt
	k.acquire(&a, []string{"x"}, o, 1)
	_, f := k.finish(t.Context(), &a, o)
	require.True(t, f.IsNoQuorum() && f.Retryable(), f)
	for range 2 {
		for range maxFenceRetries {
			require.True(t, a.mayRaiseFence())
		}
		require.False(t, a.mayRaiseFence(), "a call does not hurry for ever after clocks that run faster")
	}
	require.Equal(t, ahead, a.floor)
	a.floor = ahead + 1
	_ = a.mayRaiseFence()
	require.Equal(t, ahead+1, a.floor, "and never goes back")
	k.acquire(&a, []string{"x"}, o, 1)
	l, f := k.finish(t.Context(), &a, o)
	require.Nil(t, f)
	require.Greater(t, l.Fence(), ahead)
}
