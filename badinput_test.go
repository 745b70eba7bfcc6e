package lockpipe_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// acquiring are all calls that acquire, each as one that only tells its error.
var acquiring = map[string]func(ctx context.Context, c *lockpipe.Client, keys []string,
	opts ...lockpipe.Option) error{
	"TryAcquireAll": func(ctx context.Context, c *lockpipe.Client, keys []string,
		opts ...lockpipe.Option,
	) error {
		_, err := c.TryAcquireAll(ctx, keys, opts...)
		return err
	},
	"AcquireAll": func(ctx context.Context, c *lockpipe.Client, keys []string,
		opts ...lockpipe.Option,
	) error {
		_, err := c.AcquireAll(ctx, keys, opts...)
		return err
	},
	"TryAcquireEach": func(ctx context.Context, c *lockpipe.Client, keys []string,
		opts ...lockpipe.Option,
	) error {
		var errs []error
		for _, r := range c.TryAcquireEach(ctx, keys, opts...) {
			errs = append(errs, r.Err)
		}
		return errors.Join(errs...)
	},
	"TryAcquire": func(ctx context.Context, c *lockpipe.Client, keys []string,
		opts ...lockpipe.Option,
	) error {
		_, err := c.TryAcquire(ctx, keys[0], opts...)
		return err
	},
	"Acquire": func(ctx context.Context, c *lockpipe.Client, keys []string,
		opts ...lockpipe.Option,
	) error {
		_, err := c.Acquire(ctx, keys[0], opts...)
		return err
	},
	"Do": func(ctx context.Context, c *lockpipe.Client, keys []string,
		opts ...lockpipe.Option,
	) error {
		return c.Do(ctx, keys[0], func(context.Context) error { return nil }, opts...)
	},
}

// Goal: keys that no node can hold, or no call can carry, are ErrInvalid in every call, the text
// tells which, and nothing was sent.
func TestKeysThatMakeNoSenseAreRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	before := traffic(t, nodes)
	many := make([]string, 1<<16+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	tests := map[string]struct {
		keys []string
		says string
	}{
		"empty":                  {[]string{""}, "key 1 of 1 is empty"},
		"empty among others":     {[]string{"a", "b", "", "c"}, "key 3 of 4 is empty"},
		"more than a MiB":        {[]string{strings.Repeat("x", 1<<20+1)}, "1048577 bytes"},
		"a MiB, and the prefix":  {[]string{"a", strings.Repeat("x", 1<<20)}, "key 2 of 2"},
		"more than a call takes": {many, "65537 keys"},
		"our own": {
			[]string{"lockpipe:fence:k"},
			`key 1 of 1, "lockpipe:fence:k", begins with "lockpipe:"`,
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
		for call, acquire := range acquiring {
			single := call == "TryAcquire" || call == "Acquire" || call == "Do"
			if single && len(test.keys) != 1 || call == "TryAcquireEach" && len(test.keys) == 0 {
				continue // there it cannot be said, or there is no result to say it in
			}
			t.Run(name+"/"+call, func(t *testing.T) {
				err := acquire(t.Context(), c, test.keys)
				require.ErrorIs(t, err, lockpipe.ErrInvalid)
				require.ErrorContains(t, err, test.says)
				require.Less(t, len(err.Error()), 1<<24, "the keys are in the text")
			})
		}
	}
	require.ErrorIs(t, c.AcquireAsync(t.Context(), []string{"lockpipe:admitted"},
		func(*lockpipe.Lease, error) {}), lockpipe.ErrInvalid)
	require.Empty(t, c.TryAcquireEach(t.Context(), nil))
	require.Empty(t, c.TryAcquireEach(t.Context(), []string{}))
	require.Equal(t, before, traffic(t, nodes), "something was sent")
}

// Goal: every call refuses a key that has, with its Prefix, a name that a client of another Prefix
// uses for itself. New refuses a Prefix that has one. What only looks alike is a key like any
// other.
func TestNamesOfOtherClientsAreRefused(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 1)
	const reserved, ours = "which clients keep for themselves", `begins with "lockpipe:"`
	for _, test := range []struct{ prefix, key, name, says string }{
		{"lock", "pipe:fence:sku", "lockpipe:fence:", reserved},
		{"lock", "pipe:admitted", "lockpipe:admitted", reserved},
		{"", "app:lockpipe:fence:sku", "lockpipe:fence:", reserved},
		{"", "app:lockpipe:admitted", "lockpipe:admitted", reserved},
		{"", "app:lockpipe:none:x", "lockpipe:none:", reserved},
		{"", "app:lockpipe:generations", "lockpipe:generations", reserved},
		{"a", "pp:lockpipe:fence:sku", "lockpipe:fence:", reserved},
		{"app:lockpipe", ":fence:sku", "lockpipe:fence:", reserved},
		{"app:lockpipe:", "fence:sku", "lockpipe:fence:", reserved},
		{"app:lockpipe:fence", ":", "lockpipe:fence:", reserved},
		{"app:lockpipe:generation", "s:1", "lockpipe:generations", reserved},
		{"app:", "lockpipe:x", "", ours},
		{"app:", "lockpipe:fence:x", "", ours},
		{"app:", "lockpipe", "", ""},
		{"lock", "pipe:x", "", ""},
		{"", "app:lockpipe:x", "", ""},
		{"app:lockpipe:", "sku", "", ""},
		{"app:lockpipe:fence", "sku", "", ""},
		{"", "app:Lockpipe:fence:sku", "", ""},
	} {
		behind := func(cfg *lockpipe.Config) { cfg.Prefix = test.prefix }
		c := connected(t, newClient(t, nodes, behind))
		if test.says == "" {
			require.NoError(t, try(t, c, test.key).Release(t.Context()), "%+v", test)
			continue
		}
		for call, acquire := range acquiring {
			err := acquire(t.Context(), c, []string{test.key})
			require.ErrorIs(t, err, lockpipe.ErrInvalid, "%+v %s", test, call)
			require.ErrorContains(t, err, "key 1 of 1")
			require.ErrorContains(t, err, test.says)
			require.ErrorContains(t, err, test.name)
			require.ErrorContains(t, err, "name it otherwise")
		}
	}
	one := []string{"127.0.0.1:1"}
	for _, name := range []string{"admitted", "none:", "fence:", "generations"} {
		cfg := lockpipe.Config{Nodes: one, Prefix: "app:lockpipe:" + name + "x:"}
		refusedConfig(t, cfg, "Config.Prefix", `"lockpipe:`+name+`"`, "one without it")
	}
}

// Goal: the text of a refused key does not carry the key, which may be long or secret.
func TestAKeyThatIsRefusedIsNotRepeatedInTheError(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 1)
	c := newClient(t, nodes)
	_, err := c.TryAcquire(t.Context(), strings.Repeat("x", 1<<20+1))
	require.ErrorIs(t, err, lockpipe.ErrInvalid)
	require.Less(t, len(err.Error()), 300)
}

// Goal: every option with a value that makes no sense is ErrInvalid in every call, names itself and
// the value, and nothing was sent.
func TestOptionsThatMakeNoSenseAreRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes, func(cfg *lockpipe.Config) { cfg.MaxTTL = time.Minute }))
	before := traffic(t, nodes)
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
		for call, acquire := range acquiring {
			t.Run(name+"/"+call, func(t *testing.T) {
				err := acquire(t.Context(), c, []string{"k"}, lockpipe.WithRetryDelay(0, 0),
					test.option)
				require.ErrorIs(t, err, lockpipe.ErrInvalid)
				for _, s := range test.says {
					require.ErrorContains(t, err, s)
				}
			})
		}
	}
	require.Equal(t, before, traffic(t, nodes), "something was sent")
}

// Goal: values at the edge of what makes sense are taken.
func TestOptionsAtTheEdgeAreTaken(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes, func(cfg *lockpipe.Config) { cfg.MaxTTL = time.Minute }))
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
	nothingLeft(t, nodes)
}

// Goal: the longest possible delay between two attempts does not make the sum overflow, and the
// wait still ends with its ctx.
func TestAHugeRetryDelayWaitsInsteadOfPanicking(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(t *testing.T, _ *virtual, c *lockpipe.Client) {
		try(t, c, "k")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var err error
		require.NotPanics(t, func() {
			_, err = c.Acquire(ctx, "k", lockpipe.WithRetryDelay(0,
				1<<63-1))
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, lockpipe.ErrHeld)
	})
}

// Goal: Extend with a TTL that makes no sense is ErrInvalid with the value, nothing was sent, and
// the lease is as it was.
func TestExtendWithATTLThatMakesNoSenseChangesNothing(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes, func(cfg *lockpipe.Config) { cfg.MaxTTL = time.Minute }))
	l := try(t, c, "k")
	onEvery(t, nodes, span(0, 3), "k", l.Token())
	before, until := traffic(t, nodes), l.Until()
	for value, ttl := range map[string]time.Duration{
		"0s": 0, "-1s": -time.Second, "1ns": 1, "9.999999ms": 10*time.Millisecond - 1,
		"1m0.001s": time.Minute + time.Millisecond,
	} {
		err := l.Extend(t.Context(), ttl)
		require.ErrorIs(t, err, lockpipe.ErrInvalid, value)
		require.ErrorContains(t, err, "Extend("+value+")")
	}
	require.Equal(t, before, traffic(t, nodes), "something was sent")
	require.Equal(t, until, l.Until())
	lasting(t, l)
	require.NoError(t, l.Extend(t.Context(), time.Minute), "MaxTTL itself")
}

// Goal: a key that is given twice in one call is one key of one lease.
func TestAKeyGivenTwiceIsOneKey(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
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
			onEvery(t, nodes, span(0, 3), k, l.Token())
		}
		require.NoError(t, l.Extend(t.Context(), longTTL), name)
		require.NoError(t, l.Release(t.Context()), name)
		nothingLeft(t, nodes)
	}
	l, err := c.AcquireAll(t.Context(), []string{"a", "a"})
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, l.Keys())
}

// Goal: in TryAcquireEach the entries of one key share one lease or one error, and all entries are
// in the order of the call.
func TestEntriesOfOneKeyShareOneResult(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	holder := try(t, c, "held")
	keys := []string{"a", "held", "b", "a", "held", "a"}
	results := c.TryAcquireEach(t.Context(), keys)
	require.Len(t, results, len(keys))
	for i, r := range results {
		require.Equal(t, keys[i], r.Key)
		require.Equal(t, r.Err == nil, r.Lease != nil)
		if r.Key == "held" {
			require.ErrorIs(t, r.Err, lockpipe.ErrHeld)
			continue
		}
		require.NoError(t, r.Err)
		require.Equal(t, []string{r.Key}, r.Lease.Keys())
	}
	require.Same(t, results[0].Lease, results[3].Lease)
	require.Same(t, results[0].Lease, results[5].Lease)
	require.NotEqual(t, results[0].Lease.Token(), results[2].Lease.Token())
	require.NoError(t, c.ReleaseAll(t.Context(), results[0].Lease, results[2].Lease,
		results[3].Lease, holder))
	nothingLeft(t, nodes)
}

// Goal: any bytes make a key, up to a MiB with the prefix, and the nodes have exactly these.
func TestAnyBytesMakeAKey(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	keys := map[string]string{
		"64 KiB":             strings.Repeat("k", 64<<10),
		"a MiB":              strings.Repeat("k", 1<<20-len(prefix)),
		"line ends and NUL":  "a\r\nDEL x\r\n\x00\x00\r\n$3\r\n",
		"NUL alone":          "\x00",
		"no UTF-8":           "\xff\xfe\x80 \xc3(",
		"a pattern":          "*?[a-z]\\{x}",
		"space":              " ",
		"all bytes":          allBytes(),
		"the prefix":         prefix,
		"a number":           "1",
		"a protocol request": "*1\r\n$8\r\nFLUSHALL\r\n",
	}
	for name, key := range keys {
		for _, more := range [][]string{nil, {"companion"}} { // by SET, and by the script
			l, err := c.TryAcquireAll(t.Context(), append([]string{key}, more...))
			require.NoError(t, err, name)
			require.Equal(t, key, l.Key(), name)
			onEvery(t, nodes, span(0, 3), key, l.Token())
			for i := range nodes.Len() {
				has, err := ownKeys(nodes, i)
				require.NoError(t, err)
				require.Contains(t, has, prefix+key, name)
				require.Len(t, has, 1+len(more), name)
			}
			_, err = c.TryAcquire(t.Context(), key)
			var held *lockpipe.HeldError
			require.ErrorAs(t, err, &held, name)
			require.Equal(t, []string{key}, held.Keys, name)
			require.NoError(t, l.Extend(t.Context(), longTTL), name)
			require.NoError(t, l.Release(t.Context()), name)
			nothingLeft(t, nodes)
		}
	}
}

func allBytes() string {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return string(all)
}

// Goal: 10,000 keys in one call are acquired, extended and released as a whole, and nothing is
// left.
func TestTenThousandKeysInOneCall(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	keys := make([]string, 10_000)
	for i := range keys {
		keys[i] = fmt.Sprintf("sku:%05d", i)
	}
	l, err := c.TryAcquireAll(t.Context(), keys)
	require.NoError(t, err)
	require.Equal(t, keys, l.Keys())
	for i := range nodes.Len() {
		eventually(t, func() bool {
			has, err := ownKeys(nodes, i)
			return err == nil && len(has) == len(keys)
		}, "node %d has not got all keys", i)
	}
	require.NoError(t, l.Extend(t.Context(), longTTL))
	lasting(t, l)
	_, err = c.TryAcquireAll(t.Context(), append([]string{"free"}, keys[9_990:]...))
	require.ErrorIs(t, err, lockpipe.ErrHeld)
	require.NoError(t, l.Release(t.Context()))
	nothingLeft(t, nodes)
	results := c.TryAcquireEach(t.Context(), keys)
	leases := make([]*lockpipe.Lease, len(results))
	for i, r := range results {
		require.NoError(t, r.Err)
		leases[i] = r.Lease
	}
	require.NoError(t, c.ReleaseAll(t.Context(), leases...))
	nothingLeft(t, nodes)
}

// Goal: no method of a nil lease panics: it is a lease that is over.
func TestANilLeaseIsOver(t *testing.T) {
	t.Parallel()
	var l *lockpipe.Lease
	require.Empty(t, l.Key())
	require.Empty(t, l.Keys())
	require.Empty(t, l.Token())
	require.ErrorIs(t, l.Extend(t.Context(), time.Second), lockpipe.ErrReleased)
	require.ErrorIs(t, l.Extend(t.Context(), 0), lockpipe.ErrReleased)
	require.NoError(t, l.Release(t.Context()))
	over(t, l, lockpipe.ErrReleased)
	nodes := lockpipetest.StartRealT(t, 1)
	c := newClient(t, nodes)
	require.NoError(t, c.ReleaseAll(t.Context()))
	require.NoError(t, c.ReleaseAll(t.Context(), nil, l, nil))
}

// Goal: Do without a function is refused before it acquires anything, and counts as a failed call.
func TestDoWithoutAFunctionAcquiresNothing(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	before := traffic(t, nodes)
	err := c.Do(t.Context(), "k", nil)
	require.ErrorIs(t, err, lockpipe.ErrInvalid)
	require.ErrorContains(t, err, "fn is nil: give the function")
	require.Equal(t, before, traffic(t, nodes), "something was sent")
}

// Goal: a number without a unit is shown as it was given, and the text asks whether it was meant in
// seconds. A duration with a unit is only shown.
func TestANumberWithoutAUnitIsRecognised(t *testing.T) {
	t.Parallel()
	one := []string{"127.0.0.1:1"}
	refusedConfig(t, lockpipe.Config{Nodes: one, TTL: 5}, "Config.TTL is 5ns",
		"did you mean 5*time.Second?")
	refusedConfig(t, lockpipe.Config{Nodes: one, MaxTTL: 60}, "Config.MaxTTL is 60ns",
		"60*time.Second?")
	refusedConfig(t, lockpipe.Config{Nodes: one, NodeTimeout: 50},
		"Config.NodeTimeout is 50ns", "at least 1ms", "did you mean 50*time.Millisecond?")
	nodes := lockpipetest.StartRealT(t, 1)
	c := connected(t, newClient(t, nodes))
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
	l := try(t, c, "k")
	require.ErrorContains(t, l.Extend(t.Context(), 5), "did you mean 5*time.Second?")
	require.NoError(t, l.Release(t.Context()))
}

// Goal: a nil ctx is ErrInvalid in every call that takes one. Nothing is sent, and what is held
// stays held.
func TestANilContextIsRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 3)
	c := connected(t, newClient(t, nodes))
	held := try(t, c, "held")
	onEvery(t, nodes, span(0, 3), "held", held.Token())
	before := traffic(t, nodes)
	var none context.Context
	calls := map[string]func() error{
		"AcquireAsync": func() error {
			return c.AcquireAsync(none, []string{"k"}, func(*lockpipe.Lease,
				error,
			) {
				t.Error("called")
			})
		},
		"Extend":     func() error { return held.Extend(none, longTTL) },
		"Release":    func() error { return held.Release(none) },
		"ReleaseAll": func() error { return c.ReleaseAll(none, held) },
		"Inspect":    func() error { _, err := c.Inspect(none); return err },
		"Close":      func() error { return c.Close(none) },
	}
	for name, acquire := range acquiring {
		calls[name] = func() error { return acquire(none, c, []string{"k"}) }
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			var err error
			require.NotPanics(t, func() { err = call() })
			require.ErrorIs(t, err, lockpipe.ErrInvalid)
			require.ErrorContains(t, err, "ctx is nil: pass context.Background()")
		})
	}
	require.Equal(t, before, traffic(t, nodes), "something was sent")
	lasting(t, held)
	require.NoError(t, held.Release(t.Context()), "of a client that is not closed")
	var over *lockpipe.Lease
	require.NoError(t, over.Release(none))
	require.Equal(t, lockpipe.ErrReleased, over.Extend(none, longTTL))
}

// refusedConfig wants ErrInvalid with all that is said, and no connection.
func refusedConfig(t *testing.T, cfg lockpipe.Config, says ...string) {
	t.Helper()
	var dials atomic.Int64
	cfg.Logger = slog.New(slog.DiscardHandler)
	cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		return nil, net.ErrClosed
	}
	c, err := lockpipe.New(cfg)
	if c != nil {
		defer func() { _ = c.Close(context.Background()) }()
	}
	require.ErrorIs(t, err, lockpipe.ErrInvalid)
	require.Nil(t, c)
	for _, s := range says {
		require.ErrorContains(t, err, s)
	}
	require.NotContains(t, err.Error(), "secret")
	require.Zero(t, dials.Load(), "something was dialled")
}

// Goal: a Config field that makes no sense, alone or beside another, is ErrInvalid and names the
// field and the value.
func TestAConfigThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	one := []string{"127.0.0.1:1"}
	tests := map[string]struct {
		cfg  lockpipe.Config
		says []string
	}{
		"TTL negative": {
			lockpipe.Config{Nodes: one, TTL: -time.Second},
			[]string{"Config.TTL", "-1s"},
		},
		"MaxTTL negative": {
			lockpipe.Config{Nodes: one, MaxTTL: -time.Second},
			[]string{"Config.MaxTTL", "-1s"},
		},
		"NodeTimeout negative": {
			lockpipe.Config{Nodes: one, NodeTimeout: -1},
			[]string{"Config.NodeTimeout", "-1ns"},
		},
		"TTL below 10 ms": {
			lockpipe.Config{Nodes: one, TTL: 9 * time.Millisecond},
			[]string{"Config.TTL", "9ms", "10ms"},
		},
		"MaxTTL below 10 ms": {
			lockpipe.Config{Nodes: one, MaxTTL: 9 * time.Millisecond},
			[]string{"Config.MaxTTL", "9ms", "10ms"},
		},
		"TTL above MaxTTL": {lockpipe.Config{
			Nodes: one, TTL: 3 * time.Second,
			MaxTTL: 2 * time.Second,
		}, []string{"Config.TTL", "3s", "MaxTTL", "2s"}},
		"RestartGuard unknown": {
			lockpipe.Config{Nodes: one, RestartGuard: 3},
			[]string{"Config.RestartGuard", "GuardMode(3)", "GuardStrict"},
		},
		"NodeTimeout above TTL": {
			lockpipe.Config{Nodes: one, NodeTimeout: 2 * time.Second, TTL: time.Second},
			[]string{"Config.NodeTimeout", "2s", "TTL", "1s"},
		},
		"NodeTimeout above default TTL": {lockpipe.Config{
			Nodes:       one,
			NodeTimeout: 11 * time.Second,
		}, []string{"Config.NodeTimeout", "11s", "TTL", "10s"}},
		"NodeTimeout above MaxTTL as TTL": {
			lockpipe.Config{Nodes: one, NodeTimeout: 2 * time.Second, MaxTTL: time.Second},
			[]string{"Config.NodeTimeout", "2s", "TTL", "1s"},
		},
		"Prefix of our own names": {
			lockpipe.Config{Nodes: one, Prefix: "lockpipe:app:"},
			[]string{"Config.Prefix", `"lockpipe:app:"`},
		},
		"no nodes": {lockpipe.Config{}, []string{"Config.Nodes", "empty"}},
		"empty nodes": {lockpipe.Config{Nodes: []string{}}, []string{
			"Config.Nodes",
			"empty",
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { refusedConfig(t, test.cfg, test.says...) })
	}
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprintf("127.0.0.1:%d", i+1)
	}
	refusedConfig(t, lockpipe.Config{Nodes: many}, "Config.Nodes", "65", "64")
}

// Goal: one master that is listed twice would have two votes, so it is refused in whatever form it
// is written.
func TestAMasterListedTwiceIsRefused(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{
		{"127.0.0.1:6379", "127.0.0.1:6379"},
		{"127.0.0.1:6379", "redis://127.0.0.1:6379"},
		{"redis://127.0.0.1:6379", "127.0.0.1:6379"},
		{"redis://redis-a:6379", "redis://redis-a"},
		{"redis-a", "redis-a:6379"},
		{"redis://redis-a:6379/0", "redis://redis-a:6379/1"},
		{"redis://redis-a:6379", "rediss://redis-a:6379"},
		{"redis://redis-a:6379", "redis://user:secret@redis-a:6379"},
		{"redis://user:secret@redis-a:6379", "redis://other:secret2@redis-a:6379?db=1"},
		{"redis://[::1]:6379", "[::1]:6379"},
		{"redis://redis-a:6379", "redis://Redis-A:6379"},
		{"unix:///tmp/a.sock", "unix:///tmp/a.sock"},
		{"unix:///tmp/a.sock", "unix://user:secret@/tmp/a.sock"},
	} {
		t.Run(pair[0]+" and "+strings.ReplaceAll(pair[1], "secret", "..."), func(t *testing.T) {
			refusedConfig(t, lockpipe.Config{Nodes: []string{pair[0], "127.0.0.1:1", pair[1]}},
				"Config.Nodes[2]", "Nodes[0]")
		})
	}
}

// Goal: a node that cannot be understood is ErrInvalid and named by its place, and the error never
// shows a password, also where the password itself is what makes the URL unreadable.
func TestANodeThatIsNoURLIsRefusedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"empty":                              "",
		"space":                              " ",
		"no host":                            "redis://",
		"port is a word":                     "redis://user:secret@host:port",
		"port is a word, bare":               "user:secret@host:port",
		"port too high":                      "redis://user:secret@host:65536",
		"port far too high":                  "host:99999999",
		"port negative":                      "redis://user:secret@host:-1",
		"port zero":                          "redis://user:secret@host:0",
		"two ports":                          "redis://user:secret@host:6379:6380",
		"two nodes in one":                   "redis://user:secret@host:6379,redis://user:secret@host2:6379",
		"two addresses":                      "redis://user:secret@host:6379,host2:6379",
		"unknown scheme":                     "http://user:secret@host:6379",
		"misspelt scheme":                    "reddis://user:secret@host:6379",
		"no scheme before the colon":         "://user:secret@host:6379",
		"unknown parameter":                  "redis://user:secret@host:6379?max_retries=1",
		"unknown parameter, bare":            "host:6379?bogus=1",
		"parameter with the password":        "redis://host:6379?password=secret",
		"database is a word":                 "redis://user:secret@host:6379/first",
		"database negative":                  "redis://user:secret@host:6379/-1",
		"database as parameter is a word":    "redis://user:secret@host:6379?db=first",
		"database too deep":                  "redis://user:secret@host:6379/0/1",
		"control character":                  "redis://user:secret@host\n:6379",
		"space in the host":                  "redis://user:secret@ho st:6379",
		"space in the password":              "redis://user:my secret@host:6379",
		"broken escape in the host":          "redis://user:secret@ho%zzst:6379",
		"broken escape in the password":      "redis://user:%zzsecret@host:6379",
		"password with a slash":              "redis://user:secret/more@host:6379",
		"password with a question mark":      "redis://user:secret?more@host:6379",
		"password with a hash":               "redis://user:secret#more@host:6379",
		"password with digits and a slash":   "redis://user:1234/secret@host:6379",
		"password with digits and a ?":       "redis://user:1234?secret@host:6379",
		"password with digits, ? and =":      "redis://user:1234?secret=@host:6379",
		"password with a bracket":            "redis://user:[secret@host:6379",
		"open bracket":                       "redis://user:secret@[::1:6379",
		"unix without a path":                "unix://",
		"unix without a path, with password": "unix://user:secret@",
	}
	for name, node := range tests {
		t.Run(name, func(t *testing.T) {
			refusedConfig(t, lockpipe.Config{Nodes: []string{"127.0.0.1:1", node, "127.0.0.1:2"}},
				"Config.Nodes[1]")
		})
	}
}

// Goal: what users would write is understood.
func TestWaysToWriteANodeThatAreTaken(t *testing.T) {
	t.Parallel()
	for _, node := range []string{
		"host:6379", "redis://host", "redis://host:6379/", "redis://host:6379/3",
		"redis://user:secret@host:6379/0", "redis://:secret@host:6379", "rediss://host:6380",
		"unix:///var/run/redis.sock", "[::1]:6379", "redis://[::1]:6379", "redis://host:6379?db=2",
		"redis://user:se%2Fcr%3Fet@host:6379",
	} {
		c, err := lockpipe.New(lockpipe.Config{
			Nodes: []string{node}, Logger: slog.New(slog.DiscardHandler),
			Dial: func(context.Context, string, string) (net.Conn, error) {
				return nil,
					net.ErrClosed
			},
		})
		if assert.NoError(t, err, node) {
			assert.NotContains(t, c.Nodes()[0].Addr, "secret")
			assert.NoError(t, c.Close(t.Context()), node)
		}
	}
}

// Goal: a password that the node does not accept is in no error, in no status and in no log line.
func TestAPasswordIsNeverShown(t *testing.T) {
	t.Parallel()
	nodes := lockpipetest.StartRealT(t, 1)
	var log lockedBuffer
	c := newClient(t, nodes, timeout(time.Second), func(cfg *lockpipe.Config) {
		cfg.Nodes = []string{strings.Replace(nodes.URLs()[0], "redis://", "redis://alice:secret@",
			1)}
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	eventually(t, func() bool { return c.Nodes()[0].State == lockpipe.NodeDown },
		"the node accepts a wrong password")
	_, err := c.TryAcquire(t.Context(), "k")
	blames(t, err, nodes, []int{0}, "WRONGPASS")
	for _, text := range []string{
		err.Error(), fmt.Sprintf("%+v", c.Nodes()),
		c.Nodes()[0].Err.Error(), log.String(),
	} {
		require.NotContains(t, text, "secret")
		require.NotContains(t, text, "alice")
	}
	require.Equal(t, address(nodes, 0), c.Nodes()[0].Addr)
}

// lockedBuffer is a log for many goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
