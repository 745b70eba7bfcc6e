package rueidislock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/adapters/rueidislock"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/redis/rueidis"
	original "github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/require"
)

const (
	// longTTL outlasts every test. Tests wait for shortTTL, which is long enough for an attempt on
	// a busy machine.
	longTTL  = time.Minute
	shortTTL = 2 * time.Second
	// testTimeout bounds each wait.
	testTimeout = time.Minute
)

// locker is what users of rueidislock call.
type locker interface {
	WithContext(ctx context.Context, name string) (context.Context, context.CancelFunc, error)
	TryWithContext(ctx context.Context, name string) (context.Context, context.CancelFunc, error)
	Close()
}

var (
	_ locker = rueidislock.Locker(nil)
	_ locker = original.Locker(nil)
)

// library is rueidislock or its adapter, on some nodes.
type library struct {
	locker
	notLocked, closed error // its errors
	isLockpipe        bool
}

// settings are the options that both libraries have. The zero value of majority is 1.
type settings struct {
	validity time.Duration
	majority int32
}

// openFunc opens a library on some nodes; it is closed at the end of the test.
type openFunc func(t *testing.T, nodes *lockpipetest.Nodes, s settings) library

// withEach runs the test for both libraries on one node, and for the adapter on three nodes.
func withEach(t *testing.T, s settings, test func(t *testing.T, nodes *lockpipetest.Nodes,
	lib library),
) {
	t.Helper()
	for name, c := range map[string]struct {
		open  openFunc
		nodes int
	}{
		"rueidislock":       {openRueidislock, 1},
		"lockpipe":          {openLockpipe, 1},
		"lockpipe on three": {openLockpipe, 3},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := lockpipetest.StartRealT(t, c.nodes)
			test(t, nodes, c.open(t, nodes, s))
		})
	}
}

func openRueidislock(t *testing.T, nodes *lockpipetest.Nodes, s settings) library {
	t.Helper()
	opt, err := rueidis.ParseURL(nodes.URLs()[0])
	require.NoError(t, err)
	opt.ForceSingleClient = true
	l, err := original.NewLocker(original.LockerOption{
		ClientOption: opt, KeyMajority: max(1, s.majority), KeyValidity: s.validity,
		TryNextAfter: longTTL / 4, // long enough for a busy machine
	})
	require.NoError(t, err)
	return library{locker: l, notLocked: original.ErrNotLocked, closed: original.ErrLockerClosed}
}

func openLockpipe(t *testing.T, nodes *lockpipetest.Nodes, s settings) library {
	t.Helper()
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: lockpipe.Config{
			Nodes: nodes.URLs(), TTL: longTTL, NodeTimeout: longTTL / 4,
		},
		KeyMajority: max(1, s.majority), KeyValidity: s.validity,
	})
	require.NoError(t, err)
	t.Cleanup(l.Close)
	require.NoError(t, l.Client().Ready(t.Context()))
	return library{l, rueidislock.ErrNotLocked, rueidislock.ErrLockerClosed, true}
}

// keysOf returns the keys of a lock.
func keysOf(name string, majority int) []string {
	keys := make([]string, 2*majority-1)
	for i := range keys {
		keys[i] = fmt.Sprintf("rueidislock:%d:%s", i, name)
	}
	return keys
}

// holders returns how many nodes have the key.
func holders(t *testing.T, nodes *lockpipetest.Nodes, key string) (n int) {
	t.Helper()
	for i := range nodes.Len() {
		reply, err := nodes.Do(i, "EXISTS", key)
		require.NoError(t, err)
		n += int(reply.(int64))
	}
	return n
}

func waitUntilFree(t *testing.T, nodes *lockpipetest.Nodes, name string, majority int) {
	t.Helper()
	for _, key := range keysOf(name, majority) {
		require.Eventually(t, func() bool { return holders(t, nodes, key) == 0 }, testTimeout,
			time.Millisecond)
	}
}
