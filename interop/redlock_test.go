package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// requireVar names the environment variable that makes a missing Node.js, or a missing package, a
// failure.
const requireVar = "LOCKPIPE_REQUIRE_NODE"

// redlockLocker is a process that runs redlock.js. Only one goroutine may use it.
type redlockLocker struct {
	requests *json.Encoder
	answers  *json.Decoder
	stderr   *bytes.Buffer // may be read when it has ended
	finish   func() error  // ends the process and waits for it
	kill     func()
}

type redlockRequest struct {
	Op  string `json:"op"`
	Key string `json:"key"`
	TTL int64  `json:"ttl"` // in milliseconds
}

type redlockAnswer struct {
	Value   string `json:"value"`
	Until   int64  `json:"until"` // in milliseconds since 1970
	Refused string `json:"refused"`
}

func openRedlock4(t *testing.T, urls []string) locker { return startRedlock(t, "redlock", urls) }
func openRedlock5(t *testing.T, urls []string) locker { return startRedlock(t, "redlock5", urls) }

func startRedlock(t *testing.T, module string, urls []string) *redlockLocker {
	t.Helper()
	node := requireNode(t, module)
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, node, append([]string{"redlock.js", module}, urls...)...)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	l := &redlockLocker{
		requests: json.NewEncoder(stdin), answers: json.NewDecoder(stdout),
		stderr: new(bytes.Buffer), kill: cancel,
	}
	cmd.Stderr = l.stderr
	require.NoError(t, cmd.Start())
	l.finish = sync.OnceValue(func() error { return errors.Join(stdin.Close(), cmd.Wait()) })
	t.Cleanup(func() { l.close(t) })
	return l
}

// requireNode returns the path of Node.js. If it is missing, the test is skipped, or fails if
// requireVar is set.
func requireNode(t *testing.T, module string) string {
	t.Helper()
	node, err := exec.LookPath("node")
	for _, name := range []string{"ioredis", module} {
		if _, missing := os.Stat(filepath.Join("node_modules", name)); err == nil {
			err = missing
		}
	}
	switch v := os.Getenv(requireVar); {
	case err == nil:
	case v != "" && v != "0":
		t.Fatalf("%s is set, but: %v; \"make interop\" installs the packages", requireVar, err)
	default:
		t.Skipf("=== SKIPPED, NOT TESTED: %v; run \"make interop\", or set %s=1 to make this a "+
			"failure ===", err, requireVar)
	}
	return node
}

func (l *redlockLocker) try(ctx context.Context, key string, ttl time.Duration) (*lock, error) {
	return l.request(ctx, "try", key, ttl)
}

func (l *redlockLocker) wait(ctx context.Context, key string, ttl time.Duration) (*lock, error) {
	return l.request(ctx, "wait", key, ttl)
}

func (l *redlockLocker) request(ctx context.Context, op, key string, ttl time.Duration) (*lock,
	error,
) {
	got, err := l.ask(ctx, op, key, ttl)
	if err != nil {
		return nil, err
	}
	ask := func(op string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := l.ask(ctx, op, key, ttl)
			return err
		}
	}
	return &lock{
		value: got.Value, until: time.UnixMilli(got.Until), extend: ask("extend"),
		release: ask("release"),
	}, nil
}

// ask kills the process when ctx ends: redlock has no way to cancel a call.
func (l *redlockLocker) ask(ctx context.Context, op, key string, ttl time.Duration) (redlockAnswer,
	error,
) {
	defer context.AfterFunc(ctx, l.kill)()
	var got redlockAnswer
	err := l.requests.Encode(redlockRequest{op, key, ttl.Milliseconds()})
	if err == nil {
		err = l.answers.Decode(&got)
	}
	switch {
	case err != nil:
		return got, fmt.Errorf("Node.js has ended: %w: %w: %s", err, l.finish(), l.stderr)
	case got.Refused != "":
		return got, fmt.Errorf("%w: redlock: %s", errTaken, got.Refused)
	}
	return got, nil
}

func (l *redlockLocker) close(t *testing.T) {
	require.NoError(t, l.finish(), l.stderr)
}
