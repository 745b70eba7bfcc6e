package multiplex

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/stretchr/testify/require"
)

// journal is a log for many goroutines.
type journal struct {
	mu  sync.Mutex
	all bytes.Buffer // guarded by mu
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.all.String()
}

// The goal: a server that knows no AUTH, and repeats what it was sent, as a whole or as much as it
// has room for, does not tell the password, nor what was given as a user in its place: not by the
// status, an error, the log or an inspection.
func TestPasswords_AServerThatRepeatsOneDoesNotShowIt(t *testing.T) {
	t.Parallel()
	s := startLasting(t, "--rename-command", "AUTH", "")
	long := strings.Repeat("s3cret-", 30)
	for name, user := range map[string]*url.Userinfo{
		"short": url.UserPassword("u", "s3cret"), "long": url.UserPassword("u", long),
		"without a user": url.UserPassword("", long),
		"escaped":        url.UserPassword("u", "p@s3cret:w/rd%"), "lines": url.UserPassword("u",
			"a\ns3cret\r\nb"), "in the place of the user": url.User("s3cret"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log journal
			m := start(t, []string{"unix://" + user.String() + "@" + s.socket()},
				func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
			failed := wait(m.Acquire(claim("k", "t"), time.Minute, 1), t.Context())
			if name == "without a user" { // which is forgiven, and rueidis asks again
				require.NotContains(t, fmt.Sprint(failed, m.Nodes(), log.String()), "s3cret")
				return
			}
			status := becomes(t, m, 0, link.Down, "unknown command 'AUTH'")
			require.ErrorContains(t, failed, "unknown command 'AUTH'")
			facts, err := inspector(t, m).Ask(t.Context())
			require.NoError(t, err)
			require.NotContains(t, fmt.Sprintf("%v %v %+v %v %+v", failed, status.Err, status,
				log.String(), facts), "s3cret")
		})
	}
}

// The goal: nor does the error of a call tell what a server repeats of it, such as the token, with
// which anybody could release the lock.
func TestPasswords_AServerThatRepeatsATokenDoesNotShowIt(t *testing.T) {
	t.Parallel()
	onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
		actors[0].play(map[string]string{
			"SET": "-ERR unknown command 'SET', with args beginning with: 'k' 't0ken' 'NX' \r\n",
		})
		err := wait(m.Acquire(claim("k", "t0ken"), time.Minute, 1), t.Context())
		require.ErrorContains(t, err, "unknown command 'SET'")
		require.NotContains(t, err.Error(), "t0ken")
	})
}

// The goal: a password that happens to be in what we say ourselves does not make a node in
// quarantine one that is down.
func TestPasswords_AQuarantineIsOneWhateverTheyAre(t *testing.T) {
	t.Parallel()
	s, _ := asUser(t, needed+" >may", "")
	m := start(t, []string{"unix://u:may@" + s.socket()}, func(c *Config) {
		c.Prefix,
			c.Guard = "app:", guard.Strict
	})
	status := becomes(t, m, 0, link.Quarantined, whyNoKey)
	require.WithinRange(t, status.Until, time.Now(), time.Now().Add(2*time.Minute))
}
