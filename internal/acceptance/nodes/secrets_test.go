package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// The goal: a password that the node refuses is in no error, no status and no line of the log.
func TestSecrets_ARefusedPasswordIsNeverShown(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	var log kit.LockedBuffer
	c := kit.NewClient(t, nodes, func(cfg *lockpipe.Config) {
		cfg.Nodes = []string{strings.Replace(nodes.URLs()[0], "redis://", "redis://alice:secret@",
			1)}
		cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	kit.Eventually(t, func() bool { return c.Nodes()[0].State == lockpipe.NodeDown },
		"the node accepts a wrong password")
	_, err := c.TryAcquire(t.Context(), "k")
	kit.Blames(t, err, nodes, []int{0}, "WRONGPASS")
	for _, text := range []string{
		err.Error(), fmt.Sprintf("%+v", c.Nodes()),
		c.Nodes()[0].Err.Error(), log.String(),
	} {
		require.NotContains(t, text, "secret")
		require.NotContains(t, text, "alice")
	}
	require.Equal(t, kit.Address(nodes, 0), c.Nodes()[0].Addr)
}

// The goal: a password that is changed on a running server has no effect while the connection
// lasts. After a reconnect the node is down and says why, without any password. It is up again when
// the old password is back.
func TestSecrets_APasswordIsChangedAtRunTime(t *testing.T) {
	t.Parallel()
	const old, changed = "old-s3cret", "new-s3cret"
	nodes := servertest.Start(t, 3)
	urls := nodes.URLs()
	converse(t, nodes, 0, "CONFIG SET requirepass "+old)
	urls[0] = strings.Replace(urls[0], "redis://", "redis://:"+old+"@", 1)
	c := kit.Connected(t, kit.NewClient(t, nodes, func(cfg *lockpipe.Config) { cfg.Nodes = urls }))
	converse(t, nodes, 0, "AUTH "+old, "CONFIG SET requirepass "+changed)
	l := kit.Try(t, c, "k")
	converse(t, nodes, 0, "AUTH "+changed, "PING")
	require.Equal(t, lockpipe.NodeUp, c.Nodes()[0].State)
	require.NoError(t, l.Extend(t.Context(), kit.LongTTL))

	converse(t, nodes, 0, "AUTH "+changed, "CLIENT KILL TYPE normal SKIPME yes")
	down(t, c, 0, "WRONGPASS")
	require.NotContains(t, c.Nodes()[0].Err.Error(), "s3cret")
	require.NoError(t, kit.Try(t, c, "meanwhile").Release(t.Context()))
	require.NoError(t, l.Extend(t.Context(), kit.LongTTL))
	require.NoError(t, nodes.Kill(1))
	_, err := c.TryAcquire(t.Context(), "other")
	kit.Blames(t, err, nodes, []int{0}, "WRONGPASS")
	require.NotContains(t, err.Error(), "s3cret")
	require.NoError(t, nodes.Restart(1))

	converse(t, nodes, 0, "AUTH "+changed, "CONFIG SET requirepass "+old)
	kit.Eventually(t, func() bool { return c.Nodes()[0].State == lockpipe.NodeUp },
		"the node does not come back")
	_ = l.Release(t.Context())
	converse(t, nodes, 0, "AUTH "+old, `CONFIG SET requirepass ""`)
	kit.NothingLeft(t, nodes)
}

// secretWord is in every word of the passwords: no piece of one may come out either.
const secretWord = "s3cret"

// outpour gathers all that comes out of clients.
type outpour struct {
	t *testing.T
	kit.LockedBuffer
}

// add takes values as programs print them, and errors also one by one.
func (o *outpour) add(values ...any) {
	for _, v := range values {
		fmt.Fprintf(o, "%v\n%+v\n%#v\n", v, v, v)
		text, _ := json.Marshal(v)
		_, _ = o.Write(text)
		switch err := v.(type) {
		case interface{ Unwrap() error }:
			o.add(err.Unwrap())
		case interface{ Unwrap() []error }:
			for _, e := range err.Unwrap() {
				o.add(e)
			}
		}
	}
}

// client is one whose log pours out.
func (o *outpour) client(urls []string, change func(*lockpipe.Config)) (*lockpipe.Client, error) {
	cfg := kit.Config(urls, nil)
	cfg.Logger = slog.New(slog.NewJSONHandler(o, nil))
	if change != nil {
		change(&cfg)
	}
	c, err := lockpipe.New(cfg)
	if err == nil {
		o.t.Cleanup(func() { _ = c.Close(context.Background()) })
	}
	return c, err
}

// all takes all that a client tells.
func (o *outpour) all(c *lockpipe.Client) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), 200*time.Millisecond)
	defer cancel()
	_, waited := c.Acquire(ctx, "k2")
	_, failed := c.TryAcquireAll(o.t.Context(), []string{"k1", "k2"})
	found, err := c.Inspect(o.t.Context())
	o.add(waited, failed, found, err, c.Stats(), c.Outcomes())
	for _, n := range c.Nodes() {
		o.add(n, n.Err)
	}
	registry := prometheus.NewRegistry()
	require.NoError(o.t, registry.Register(metrics.NewCollector(c)))
	families, err := registry.Gather()
	require.NoError(o.t, err)
	for _, f := range families {
		_, _ = fmt.Fprintln(o, f)
	}
}

// holds fails where a password came out, in any form.
func (o *outpour) holds(says ...string) {
	o.t.Helper()
	text := o.String()
	for _, s := range says {
		require.Contains(o.t, text, s)
	}
	if at := strings.Index(text, secretWord); at >= 0 {
		require.Fail(o.t, "a password came out", "%s", text[max(0, at-200):min(len(text), at+100)])
	}
	for _, p := range oddPasswords {
		for _, form := range []string{
			p, url.QueryEscape(p), url.PathEscape(p),
			strings.TrimPrefix(url.UserPassword("", p).String(), ":"), html.EscapeString(p),
		} {
			require.NotContains(o.t, text, form)
		}
	}
}

var oddPasswords = []string{secretWord, "p@" + secretWord + ":w/rd%", `?` + secretWord + `#"b c'&` +
	secretWord + "=+,", "ü" + secretWord + "\t"}

// The goal: no password comes out of a Client, in no form and no piece, by the log, errors, Nodes,
// Stats, Inspect or metrics, whatever goes wrong: the password itself, one that changed, a
// permission, the connection, TLS.
func TestSecrets_NoPasswordComesOutOfAClient(t *testing.T) {
	t.Parallel()
	for i, password := range oddPasswords[2:] { // the next test has the less odd ones too
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			if i == 0 {
				kit.SkipIfShort(t, "the less odd password")
			}
			t.Parallel()
			nodes := servertest.Start(t, 7)
			user := func(i int, password string) string {
				return strings.Replace(nodes.URLs()[i], "://", "://"+url.UserPassword("me",
					password).String()+"@", 1)
			}
			urls := []string{
				user(0, password), user(1, password), user(2, password),
				user(3, password), user(4, password+"wrong"), nodes.URLs()[5],
			}
			urls = append(urls, strings.Replace(user(6, password), "redis://", "rediss://", 1))
			for i := range nodes.Len() {
				kit.Do(t, nodes, i, "ACL", "SETUSER", "me", "on", ">"+password, "~*", "+@all")
			}
			o := &outpour{t: t}
			c, err := o.client(urls, func(cfg *lockpipe.Config) {
				cfg.RestartGuard, cfg.DialTimeout = lockpipe.GuardOff, 2*time.Second
			})
			require.NoError(t, err)
			for i := range 4 {
				kit.Eventually(t, func() bool { return c.Nodes()[i].State == lockpipe.NodeUp },
					"node %d is not up", i)
			}
			down(t, c, 6, "TLS")
			o.all(c)
			kit.Do(t, nodes, 2, "ACL", "SETUSER", "me", "-@all")
			kit.Do(t, nodes, 3, "ACL", "SETUSER", "me", "resetkeys")
			o.all(c)
			require.NoError(t, nodes.Kill(0))
			kit.Do(t, nodes, 1, "ACL", "SETUSER", "me", "resetpass", ">another")
			kit.Do(t, nodes, 1, "CLIENT", "KILL", "TYPE", "normal")
			converse(t, nodes, 5, "CONFIG SET requirepass "+secretWord, "CLIENT KILL TYPE normal")
			down(t, c, 0, "refused")
			down(t, c, 1, "WRONGPASS")
			down(t, c, 5, "NOAUTH")
			o.all(c)
			o.holds("refused", "WRONGPASS", "NOAUTH", "NOPERM", "TLS", "lockpipe_node_state")
		})
	}
}

// The goal: if nothing can be dialled, or a URL cannot be parsed, no password comes out either.
func TestSecrets_NoPasswordComesOutIfNothingCanBeDialled(t *testing.T) {
	kit.SkipIfShort(t, "odd passwords when nothing can be dialled")
	t.Parallel()
	for _, password := range oddPasswords {
		o := &outpour{t: t}
		escaped := url.UserPassword("me", password).String() + "@127.0.0.1:"
		sentinels := "redis://127.0.0.1:4?master_set=m&sentinel_user=me&sentinel_password="
		inQuery := strings.ReplaceAll(url.QueryEscape(password), "+", "%20")
		urls := []string{
			"redis://" + escaped + "1", escaped + "2", "rediss://" + escaped + "3",
			sentinels + inQuery,
		}
		c, err := o.client(urls, func(cfg *lockpipe.Config) {
			cfg.Dial = func(_ context.Context, network, address string) (net.Conn, error) {
				return nil, fmt.Errorf("no way to %s %s: %w", network, address, net.ErrClosed)
			}
		})
		require.NoError(t, err)
		down(t, c, 0, "no way to")
		down(t, c, 3, "no way to tcp 127.0.0.1:4")
		o.all(c)
		c, err = o.client([]string{"127.0.0.1:1"}, func(cfg *lockpipe.Config) {
			cfg.Credentials = func(context.Context, string) (string, string, error) {
				return "me", password, fmt.Errorf("refused %s", password)
			}
		})
		require.NoError(t, err)
		down(t, c, 0, "Config.Credentials: refused ...")
		o.all(c)
		plain := "me:" + password + "@127.0.0.1:1"
		for _, text := range []string{
			"redis://" + plain, plain, "reddis://" + escaped + "1", "redis://" + escaped + "x",
			"redis://" + escaped + "1/first", "redis://" + escaped + "1?max=1",
			"redis://127.0.0.1:1?password=" + password, "redis://127.0.0.1:1#" + password,
			"unix://me:" + password + "@", sentinels + password, "redis://" + plain + "\n",
			"%" + plain,
		} {
			c, err := o.client([]string{"127.0.0.1:2", text}, nil)
			o.add(err)
			if err == nil { // it is understood, rightly or not
				o.add(c.Nodes())
			}
			require.True(t, err == nil || errors.Is(err, lockpipe.ErrInvalid), err)
		}
		o.holds("no way to")
	}
}
