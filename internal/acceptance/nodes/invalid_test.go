package nodes

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// The goal: keys that no node can hold, or no call can carry, are ErrInvalid in every call. The
// text names the key by its place, and nothing is sent.
func TestInvalid_KeysAreRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		before := v.Sent()
		many := make([]string, 1<<16+1)
		for i := range many {
			many[i] = fmt.Sprint(i)
		}
		long := make([]string, 1<<10)
		for i := range long {
			long[i] = fmt.Sprint(i, strings.Repeat("x", 1<<12))
		}
		tests := map[string]struct {
			keys []string
			says string
		}{
			"empty":              {[]string{""}, "key 1 of 1 is empty"},
			"empty among others": {[]string{"a", "b", "", "c"}, "key 3 of 4 is empty"},
			"more than 64 KiB": {
				[]string{strings.Repeat("x", 1<<16+1)},
				"key 1 of 1 has 65537 bytes: give at most 65536, with Config.Prefix",
			},
			"64 KiB, and the prefix": {[]string{"a", strings.Repeat("x", 1<<16)}, "key 2 of 2"},
			"more than 4 MiB together": {
				long, "1024 keys have more than 4194304 bytes together",
			},
			"more than a call takes": {many, "65537 keys"},
			"our own": {
				[]string{"lockpipe:fences"},
				`key 1 of 1, "lockpipe:fences", begins with "lockpipe:"`,
			},
			"our own among others": {
				[]string{"a", "lockpipe:"},
				`key 2 of 2, "lockpipe:", begins with "lockpipe:"`,
			},
			"none":                         {[]string{}, "no keys"},
			"nil":                          {nil, "no keys"},
			"empty, given again and again": {[]string{"", "", ""}, "key 1 of 3 is empty"},
		}
		for name, test := range tests {
			for call, acquire := range kit.Acquiring {
				single := call == "TryAcquire" || call == "Acquire" || call == "Do"
				if single && len(test.keys) != 1 || call == "TryAcquireEach" &&
					len(test.keys) == 0 {
					continue // there it cannot be said, or there is no result to say it in
				}
				err := acquire(t.Context(), c, test.keys)
				require.ErrorIs(t, err, lockpipe.ErrInvalid, "%s: %s", name, call)
				require.ErrorContains(t, err, test.says, "%s: %s", name, call)
				require.Less(t, len(err.Error()), 1<<24, "the keys are in the text")
			}
		}
		require.ErrorIs(t, c.AcquireAsync(t.Context(), []string{"lockpipe:admitted"},
			func(*lockpipe.Lease, error) {}), lockpipe.ErrInvalid)
		require.Empty(t, c.TryAcquireEach(t.Context(), nil))
		require.Empty(t, c.TryAcquireEach(t.Context(), []string{}))
		require.Equal(t, before, v.Sent(), "something was sent")
	})
}

// The goal: every call refuses a key that has, with its Prefix, a name that a client of another
// Prefix uses for itself. New refuses a Prefix that has one. What only looks alike is a key like
// any other.
func TestInvalid_NamesOfOtherClientsAreRefused(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	const reserved, ours = "which clients keep for themselves", `begins with "lockpipe:"`
	for _, test := range []struct{ prefix, key, name, says string }{
		{"lock", "pipe:fences", "lockpipe:fences", reserved},
		{"lock", "pipe:admitted", "lockpipe:admitted", reserved},
		{"", "app:lockpipe:fences", "lockpipe:fences", reserved},
		{"", "app:lockpipe:admitted", "lockpipe:admitted", reserved},
		{"", "app:lockpipe:none:x", "lockpipe:none:", reserved},
		{"", "app:lockpipe:layouts", "lockpipe:layouts", reserved},
		{"a", "pp:lockpipe:fences", "lockpipe:fences", reserved},
		{"app:lockpipe", ":fences", "lockpipe:fences", reserved},
		{"app:lockpipe:", "fences", "lockpipe:fences", reserved},
		{"app:lockpipe:fence", "s:", "lockpipe:fences", reserved},
		{"app:lockpipe:layout", "s:1", "lockpipe:layouts", reserved},
		{"app:", "lockpipe:x", "", ours},
		{"app:", "lockpipe:fences:x", "", ours},
		{"app:", "lockpipe", "", ""},
		{"lock", "pipe:x", "", ""},
		{"", "app:lockpipe:x", "", ""},
		{"app:lockpipe:", "sku", "", ""},
		{"app:lockpipe:fence", "d:sku", "", ""},
		{"", "app:Lockpipe:fences", "", ""},
	} {
		behind := func(cfg *lockpipe.Config) { cfg.Prefix = test.prefix }
		c := kit.Connected(t, kit.NewClient(t, nodes, behind))
		if test.says == "" {
			require.NoError(t, kit.Try(t, c, test.key).Release(t.Context()), "%+v", test)
			continue
		}
		for call, acquire := range kit.Acquiring {
			err := acquire(t.Context(), c, []string{test.key})
			require.ErrorIs(t, err, lockpipe.ErrInvalid, "%+v %s", test, call)
			require.ErrorContains(t, err, "key 1 of 1")
			require.ErrorContains(t, err, test.says)
			require.ErrorContains(t, err, test.name)
			require.ErrorContains(t, err, "name it otherwise")
		}
	}
	one := []string{"127.0.0.1:1"}
	for _, name := range []string{"admitted", "none:", "fences", "layouts"} {
		cfg := lockpipe.Config{Nodes: one, Prefix: "app:lockpipe:" + name + "x:"}
		kit.RefusedConfig(t, cfg, "Config.Prefix", `"lockpipe:`+name+`"`, "one without it")
	}
}

// The goal: the text of a refused key does not carry the key, which may be long or secret.
func TestInvalid_ARefusedKeyIsNotRepeatedInTheError(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	c := kit.NewClient(t, nodes)
	_, err := c.TryAcquire(t.Context(), strings.Repeat("x", 1<<16+1))
	require.ErrorIs(t, err, lockpipe.ErrInvalid)
	require.Less(t, len(err.Error()), 300)
}

// The goal: every option with a value that makes no sense is ErrInvalid in every call. The error
// names the option and the value, and nothing is sent.
func TestInvalid_OptionsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		before := v.Sent()
		tests := map[string]struct {
			option lockpipe.Option
			says   []string
		}{
			"TTL zero":          {lockpipe.WithTTL(0), []string{"WithTTL", "0s"}},
			"TTL negative":      {lockpipe.WithTTL(-time.Second), []string{"WithTTL", "-1s"}},
			"TTL below a milli": {lockpipe.WithTTL(1), []string{"WithTTL", "1ns"}},
			"TTL below 10 ms": {lockpipe.WithTTL(10*time.Millisecond - 1), []string{
				"WithTTL",
				"9.999999ms", "10ms",
			}},
			"TTL above MaxTTL": {lockpipe.WithTTL(time.Minute + 1), []string{
				"WithTTL",
				"1m0.000000001s", "MaxTTL",
			}},
			"TTL without end":   {lockpipe.WithTTL(1<<63 - 1), []string{"WithTTL", "MaxTTL"}},
			"TTL from below":    {lockpipe.WithTTL(-1 << 63), []string{"WithTTL"}},
			"attempts negative": {lockpipe.WithMaxAttempts(-1), []string{"WithMaxAttempts", "-1"}},
			"delay crossed": {
				lockpipe.WithRetryDelay(2*time.Second, time.Second),
				[]string{"WithRetryDelay", "2s", "1s"},
			},
			"delay negative": {
				lockpipe.WithRetryDelay(-time.Second, time.Second),
				[]string{"WithRetryDelay", "-1s"},
			},
			"delay all negative": {
				lockpipe.WithRetryDelay(-2*time.Second, -time.Second),
				[]string{"WithRetryDelay", "-2s", "-1s"},
			},
			"an empty option": {lockpipe.Option{}, []string{"Option"}},
		}
		for name, test := range tests {
			for call, acquire := range kit.Acquiring {
				err := acquire(t.Context(), c, []string{"k"}, lockpipe.WithRetryDelay(0, 0),
					test.option)
				require.ErrorIs(t, err, lockpipe.ErrInvalid, "%s: %s", name, call)
				for _, s := range test.says {
					require.ErrorContains(t, err, s, "%s: %s", name, call)
				}
			}
		}
		require.Equal(t, before, v.Sent(), "something was sent")
	})
}

// The goal: values at the edge of what makes sense are taken.
func TestInvalid_OptionsAtTheEdgeAreTaken(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t,
		kit.NewClient(t, nodes, func(cfg *lockpipe.Config) { cfg.MaxTTL = time.Minute }))
	for name, option := range map[string]lockpipe.Option{
		"attempts zero":  lockpipe.WithMaxAttempts(0),
		"delay zero":     lockpipe.WithRetryDelay(0, 0),
		"delay constant": lockpipe.WithRetryDelay(time.Second, time.Second),
		"delay huge":     lockpipe.WithRetryDelay(0, 1<<63-1),
		"TTL is MaxTTL":  lockpipe.WithTTL(time.Minute),
	} {
		l, err := c.Acquire(t.Context(), name, option)
		require.NoError(t, err, name)
		require.NoError(t, l.Release(t.Context()), name)
	}
	// Ten milliseconds may be too short for this machine, but they are no nonsense.
	l, err := c.TryAcquire(t.Context(), "short", lockpipe.WithTTL(10*time.Millisecond))
	require.NotErrorIs(t, err, lockpipe.ErrInvalid)
	_ = l.Release(t.Context())
	kit.NothingLeft(t, nodes)
}

// The goal: a number without a unit is shown as it was given, and the text asks whether it was
// meant in seconds. A duration with a unit is only shown.
func TestInvalid_ANumberWithoutAUnitIsRecognised(t *testing.T) {
	t.Parallel()
	one := []string{"127.0.0.1:1"}
	kit.RefusedConfig(t, lockpipe.Config{Nodes: one, TTL: 5}, "Config.TTL is 5ns",
		"did you mean 5*time.Second?")
	kit.RefusedConfig(t, lockpipe.Config{Nodes: one, MaxTTL: 60}, "Config.MaxTTL is 60ns",
		"60*time.Second?")
	kit.RefusedConfig(t, lockpipe.Config{Nodes: one, NodeTimeout: 50},
		"Config.NodeTimeout is 50ns", "at least 1ms", "did you mean 50*time.Millisecond?")
	nodes := servertest.Start(t, 1)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	for says, opt := range map[string]lockpipe.Option{
		"WithTTL(5ns)":         lockpipe.WithTTL(5),
		"WithAutoExtend(30ns)": lockpipe.WithAutoExtend(30),
	} {
		_, err := c.TryAcquire(t.Context(), "k", opt)
		require.ErrorIs(t, err, lockpipe.ErrInvalid)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "*time.Second?")
	}
	for _, delay := range []lockpipe.Option{
		lockpipe.WithRetryDelay(10, 60), lockpipe.WithRetryDelay(0, 60),
		lockpipe.WithRetryDelay(60, time.Second),
	} {
		_, err := c.TryAcquire(t.Context(), "k", delay)
		require.ErrorIs(t, err, lockpipe.ErrInvalid)
		require.ErrorContains(t, err, "did you mean 60*time.Millisecond?")
	}
	_, err := c.TryAcquire(t.Context(), "k", lockpipe.WithTTL(5*time.Millisecond))
	require.ErrorContains(t, err, "WithTTL(5ms)")
	require.NotContains(t, err.Error(), "did you mean")
	l := kit.Try(t, c, "k")
	require.ErrorContains(t, l.Extend(t.Context(), 5), "did you mean 5*time.Second?")
	require.NoError(t, l.Release(t.Context()))
}

// The goal: a nil ctx is ErrInvalid in every call that takes one. Nothing is sent, and what is held
// stays held.
func TestInvalid_ANilContextIsRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
		held := v.Hold(t, c, "held")
		before := v.Sent()
		var none context.Context
		calls := map[string]func() error{
			"AcquireAsync": func() error {
				return c.AcquireAsync(none, []string{"k"}, func(*lockpipe.Lease,
					error,
				) {
					t.Error("called")
				})
			},
			"Extend":     func() error { return held.Extend(none, kit.LongTTL) },
			"Bind":       func() error { return context.Cause(held.Bind(none)) },
			"Keep":       func() error { return held.Keep(none, kit.LongTTL) },
			"Release":    func() error { return held.Release(none) },
			"ReleaseAll": func() error { return c.ReleaseAll(none, held) },
			"Inspect":    func() error { _, err := c.Inspect(none); return err },
			"Ready":      func() error { return c.Ready(none) },
			"Close":      func() error { return c.Close(none) },
		}
		for name, acquire := range kit.Acquiring {
			calls[name] = func() error { return acquire(none, c, []string{"k"}) }
		}
		for name, call := range calls {
			var err error
			require.NotPanics(t, func() { err = call() }, name)
			require.ErrorIs(t, err, lockpipe.ErrInvalid, name)
			require.ErrorContains(t, err, "ctx is nil: pass context.Background()", name)
		}
		require.Equal(t, before, v.Sent(), "something was sent")
		kit.Lasting(t, held)
		require.NoError(t, held.Release(t.Context()), "of a client that is not closed")
		var over *lockpipe.Lease
		require.NoError(t, over.Release(none))
		require.Equal(t, lockpipe.ErrReleased, over.Extend(none, kit.LongTTL))
	})
}
