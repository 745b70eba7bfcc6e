package leases

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// The goal: Release says that the lease was lost, if somebody deleted or overwrote its keys on so
// many nodes that no quorum still had them. Fewer nodes are no loss.
func TestRelease_SaysThatTheKeysWereGone(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(v *kit.FakeNodes, i int, key string){
		"deleted":     func(v *kit.FakeNodes, i int, key string) { v.Del(i, key) },
		"overwritten": func(v *kit.FakeNodes, i int, key string) { v.Set(i, key, kit.Foreign) },
	} {
		for _, keys := range [][]string{{"a"}, {"a", "b"}} {
			for nodes := range 6 {
				kit.InBubble(t, 5, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
					l, err := c.TryAcquireAll(t.Context(), keys)
					require.NoError(t, err)
					synctest.Wait() // all nodes have them
					for i := range nodes {
						take(v, i, keys[len(keys)-1])
					}
					err = l.Release(t.Context())
					if nodes < 3 {
						require.NoError(t, err, "%s on %d nodes", name, nodes)
						return
					}
					require.ErrorIs(t, err, lockpipe.ErrLost, "%s on %d nodes", name, nodes)
					require.ErrorContains(t, err, "nodes do not hold it any more")
					require.ErrorIs(t, l.Err(), lockpipe.ErrReleased)
					require.NoError(t, l.Release(t.Context()), "the second one is nil")
				})
			}
		}
	}
}

// The goal: Do and ReleaseAll tell it for the lease that it is about.
func TestRelease_OfManySaysWhichWereGone(t *testing.T) {
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		a, b := v.Hold(t, c, "a"), v.Hold(t, c, "b")
		for i := range v.Nodes {
			v.Del(i, "b")
		}
		err := c.ReleaseAll(t.Context(), a, b)
		require.ErrorIs(t, err, lockpipe.ErrLost)
		require.ErrorContains(t, err, `"b"`)
		require.NotContains(t, err.Error(), `"a"`)
		err = c.Do(t.Context(), "x", func(context.Context) error {
			synctest.Wait() // all nodes have it
			v.Del(0, "x")
			v.Del(1, "x")
			return nil
		})
		require.ErrorIs(t, err, lockpipe.ErrLost)
		v.NothingLeft(t)
	})
}

// The goal: a node that never got the keys is no loss, whoever answers first.
func TestRelease_ANodeThatNeverHadTheKeysIsNoLoss(t *testing.T) {
	for without := range 3 {
		kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
			v.Set(without, "a", kit.Foreign)
			l := kit.Try(t, c, "a")
			synctest.Wait()
			v.Del(without, "a")
			require.NoError(t, l.Release(t.Context()))
			v.NothingLeft(t)
		})
	}
}

// The goal: if the reply to a release was lost, that may have deleted the keys itself. Then it is
// nil.
func TestRelease_AnEarlierTryMayHaveDeletedTheKeys(t *testing.T) {
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "a")
		v.Silence(1, 2)
		v.Watch(func(i int, command string, _ []string) {
			if i == 0 && command == "DEL" {
				v.Nodes[i].HangUp() // before the reply
			}
		})
		ended := kit.Later(func() error { return l.Release(t.Context()) })
		time.Sleep(500 * time.Millisecond)
		require.True(t, kit.AllUp(c), "the client has asked node 0 once more")
		v.Del(1, "a")
		v.Speak(1, 2)
		require.NoError(t, <-ended, "nodes 0 and 2 had the key")
		v.NothingLeft(t)
	})
}

// The goal: keys that expire while the release is under way are no loss.
func TestRelease_ThatComesWhenTheKeysExpireIsNoLoss(t *testing.T) {
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l, err := c.TryAcquire(t.Context(), "a", lockpipe.WithTTL(100*time.Millisecond))
		require.NoError(t, err)
		v.Silence(0, 1, 2)
		time.Sleep(time.Until(l.Until()) - time.Millisecond)
		ended := kit.Later(func() error { return l.Release(context.Background()) })
		time.Sleep(20 * time.Millisecond)
		v.Speak(0, 1, 2)
		require.NoError(t, <-ended)
		v.NothingLeft(t)
	})
}

// The goal: a release that no quorum has answered says so.
func TestRelease_SaysThatItIsNotConfirmedYet(t *testing.T) {
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, "a")
		v.Silence(1, 2)
		err := l.Release(t.Context())
		require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
		require.ErrorContains(t, err, `lockpipe: "a": no quorum: 1 of 3 nodes confirmed the `+
			"release, 2 needed")
		v.Speak(1, 2)
		require.NoError(t, l.Release(t.Context()))
	})
}

// The goal: a line of a log says which lease expired, and when: whoever asks, and whenever.
func TestLease_ThatExpiredSaysWhichAndWhen(t *testing.T) {
	t.Parallel()
	told := make(chan error, 2)
	onLost := func(cfg *lockpipe.Config) {
		cfg.OnLost = func(_ *lockpipe.Lease, err error) { told <- err }
	}
	kit.InBubble(t, 1, func(t *testing.T, v *kit.FakeNodes, _ *lockpipe.Client) {
		c := v.Client(t, onLost)
		for _, keys := range [][]string{{"sku:42"}, {"sku:42", strings.Repeat("long", 100)}} {
			l, err := c.TryAcquireAll(t.Context(), keys, lockpipe.WithTTL(time.Second))
			require.NoError(t, err)
			want := fmt.Sprintf("lockpipe: %s, at %s: lease expired",
				[]string{`"sku:42"`, `"sku:42" and 1 more`}[len(keys)-1],
				l.Until().Format(time.RFC3339))
			bound := l.Bind(t.Context())
			time.Sleep(time.Minute)
			err = c.ReleaseAll(t.Context(), l)
			for _, err := range []error{
				l.Err(), context.Cause(l.Context()), context.Cause(bound), <-told, err,
				l.Release(t.Context()), l.Extend(t.Context(), time.Second),
				l.Keep(t.Context(), time.Second),
			} {
				require.EqualError(t, err, want)
				require.ErrorIs(t, err, lockpipe.ErrExpired)
			}
		}
	})
}

// The goal: the errors of a lease that its holder ended say which lease it was, once.
func TestLease_ErrorsNameTheKey(t *testing.T) {
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		l := v.Hold(t, c, strings.Repeat("k", 1000))
		require.NoError(t, l.Release(t.Context()))
		err := l.Extend(t.Context(), time.Second)
		require.ErrorIs(t, err, lockpipe.ErrReleased)
		const key = 64
		require.EqualError(t, err, fmt.Sprintf("lockpipe: %q: lease was released",
			strings.Repeat("k", key)))

		l = v.Hold(t, c, "a")
		v.Del(0, "a")
		v.Del(1, "a")
		at := time.Now().Format(time.RFC3339)
		err = l.Extend(t.Context(), time.Second)
		require.EqualError(t, err, `lockpipe: "a", at `+at+`: lease was lost: 2 nodes do not `+
			"hold it any more: [node-0:6379 node-1:6379]")
		require.Equal(t, err, l.Err())

		err = c.Do(t.Context(), "x", func(context.Context) error {
			synctest.Wait() // all nodes have the key, and so all are asked to release it
			v.Silence(1, 2)
			return nil
		})
		require.ErrorIs(t, err, lockpipe.ErrNoQuorum)
		require.ErrorContains(t, err, `lockpipe: "x": no quorum: 1 of 3 nodes confirmed`)
		require.Equal(t, 1, strings.Count(err.Error(), `"x"`))
		v.Speak(1, 2)
	})
}
