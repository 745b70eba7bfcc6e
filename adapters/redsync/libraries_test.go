package redsync_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	original "github.com/go-redsync/redsync/v4"
	originalredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/adapters/redsync"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"
)

const (
	// longExpiry outlasts every test. Tests wait for shortExpiry, which is long enough for a try on
	// a busy machine.
	longExpiry  = time.Minute
	shortExpiry = 2 * time.Second
	// testTimeout bounds each wait.
	testTimeout = time.Minute
)

// mutex is what users of redsync call.
type mutex interface {
	Name() string
	Value() string
	Until() time.Time
	Lock() error
	LockContext(ctx context.Context) error
	TryLock() error
	TryLockContext(ctx context.Context) error
	Unlock() (bool, error)
	UnlockContext(ctx context.Context) (bool, error)
	Extend() (bool, error)
	ExtendContext(ctx context.Context) (bool, error)
	Valid() (bool, error)
	ValidContext(ctx context.Context) (bool, error)
}

// settings are the options of redsync that have an effect in both libraries. The zero value means
// the default.
type settings struct {
	expiry time.Duration
	tries  int
	delays func(tries int) time.Duration
	setNX  bool
}

// library is redsync or its adapter, on some nodes.
type library struct {
	newMutex   func(name string, s settings) mutex
	taken      func(error) bool // errors.As with its *ErrTaken
	expired    error            // its ErrLockAlreadyExpired
	isLockpipe bool
}

// openFunc opens a library on some nodes; it is closed at the end of the test.
type openFunc func(t *testing.T, nodes *lockpipetest.Nodes) library

var libraries = map[string]openFunc{"redsync": openRedsync, "lockpipe": openLockpipe}

// withEach runs the test for both libraries, on nodes that they share.
func withEach(t *testing.T, masters int, test func(t *testing.T, nodes *lockpipetest.Nodes,
	lib library),
) {
	t.Helper()
	nodes := lockpipetest.StartRealT(t, masters)
	// Nodes in memory are good for both, too.
	memory, err := lockpipetest.StartInProcess(masters)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, memory.Close()) })
	for name, open := range libraries {
		t.Run(name, func(t *testing.T) { test(t, nodes, open(t, nodes)) })
		t.Run(name+" in memory", func(t *testing.T) { test(t, memory, open(t, memory)) })
	}
}

func openRedsync(t *testing.T, nodes *lockpipetest.Nodes) library {
	t.Helper()
	var pools []originalredis.Pool
	for _, url := range nodes.URLs() {
		opt, err := redis.ParseURL(url)
		require.NoError(t, err)
		// Only hosted services know the command; plain servers refuse it on each connection.
		opt.MaintNotificationsConfig = &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		}
		client := redis.NewClient(opt)
		t.Cleanup(func() { client.Close() })
		pools = append(pools, goredis.NewPool(client))
	}
	rs := original.New(pools...)
	return library{
		newMutex: func(name string, s settings) mutex {
			// A node may take half of the expiry to answer, instead of a twentieth: the machine may
			// be busy.
			options := []original.Option{original.WithTimeoutFactor(0.5)}
			if s.expiry > 0 {
				options = append(options, original.WithExpiry(s.expiry))
			}
			if s.tries > 0 {
				options = append(options, original.WithTries(s.tries))
			}
			if s.delays != nil {
				options = append(options, original.WithRetryDelayFunc(s.delays))
			}
			if s.setNX {
				options = append(options, original.WithSetNXOnExtend())
			}
			return rs.NewMutex(name, options...)
		},
		taken:   func(err error) bool { return errors.As(err, new(*original.ErrTaken)) },
		expired: original.ErrLockAlreadyExpired,
	}
}

func openLockpipe(t *testing.T, nodes *lockpipetest.Nodes) library {
	t.Helper()
	rs := redsync.New(newClient(t, nodes))
	return library{
		newMutex: func(name string, s settings) mutex {
			var options []redsync.Option
			if s.expiry > 0 {
				options = append(options, redsync.WithExpiry(s.expiry))
			}
			if s.tries > 0 {
				options = append(options, redsync.WithTries(s.tries))
			}
			if s.delays != nil {
				options = append(options, redsync.WithRetryDelayFunc(s.delays))
			}
			if s.setNX {
				options = append(options, redsync.WithSetNXOnExtend())
			}
			return rs.NewMutex(name, options...)
		},
		taken:      func(err error) bool { return errors.As(err, new(*redsync.ErrTaken)) },
		expired:    redsync.ErrLockAlreadyExpired,
		isLockpipe: true,
	}
}

// newClient returns a client whose timeout is long enough for a busy machine.
func newClient(t *testing.T, nodes *lockpipetest.Nodes) *lockpipe.Client {
	t.Helper()
	client, err := lockpipe.New(lockpipe.Config{
		Nodes: nodes.URLs(), TTL: longExpiry,
		NodeTimeout: longExpiry / 4,
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		_ = client.Close(ctx) // an error if a test left dead nodes
	})
	// This makes the connections now, so that they take no time of a short expiry.
	require.NoError(t, client.Do(t.Context(), "warm:"+t.Name(),
		func(context.Context) error { return nil }))
	return client
}

// values returns the value that each node has for the key, "" if it has none.
func values(t *testing.T, nodes *lockpipetest.Nodes, key string) []string {
	t.Helper()
	all := make([]string, nodes.Len())
	for i := range all {
		reply, err := nodes.Do(i, "GET", key)
		require.NoError(t, err)
		all[i], _ = reply.(string)
	}
	return all
}

// holders returns how many nodes have that value for the key; "" means none. Behind it, lockpipe's
// values have one more character.
func holders(t *testing.T, nodes *lockpipetest.Nodes, key, value string) (n int) {
	t.Helper()
	for _, v := range values(t, nodes, key) {
		if v == value || value != "" && len(v) == len(value)+1 && strings.HasPrefix(v, value) {
			n++
		}
	}
	return n
}

// requireHeld fails unless a majority of the nodes has the value of m.
func requireHeld(t *testing.T, nodes *lockpipetest.Nodes, m mutex) {
	t.Helper()
	require.NotEmpty(t, m.Value())
	require.Greater(t, 2*holders(t, nodes, m.Name(), m.Value()), nodes.Len())
}

// letExpire returns when m has expired, by its own account and on all nodes.
func letExpire(t *testing.T, nodes *lockpipetest.Nodes, m mutex) {
	t.Helper()
	time.Sleep(time.Until(m.Until()))
	waitUntilFree(t, nodes, m.Name())
}

func waitUntilFree(t *testing.T, nodes *lockpipetest.Nodes, key string) {
	t.Helper()
	require.Eventually(t, func() bool { return holders(t, nodes, key, "") == nodes.Len() },
		testTimeout, time.Millisecond)
}

// doOnAll sends a command to all nodes.
func doOnAll(t *testing.T, nodes *lockpipetest.Nodes, args ...string) {
	t.Helper()
	for i := range nodes.Len() {
		_, err := nodes.Do(i, args...)
		require.NoError(t, err)
	}
}
