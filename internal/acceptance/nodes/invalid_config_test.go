package nodes

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/assert"
)

// The goal: a Config field that makes no sense, alone or with another, is ErrInvalid and names
// the field and the value.
func TestInvalid_AConfigIsRefused(t *testing.T) {
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
		"DialTimeout negative": {
			lockpipe.Config{Nodes: one, DialTimeout: -1},
			[]string{"Config.DialTimeout", "-1ns", "positive"},
		},
		"DialTimeout without a unit": {
			lockpipe.Config{Nodes: one, DialTimeout: 5},
			[]string{"Config.DialTimeout", "5ns", "1ms", "did you mean 5*time.Second?"},
		},
		"DialTimeout too long": {
			lockpipe.Config{Nodes: one, DialTimeout: 91 * 24 * time.Hour},
			[]string{"Config.DialTimeout", "2184h0m0s", "at most 2160h0m0s"},
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
		"Owner with a line break": {
			lockpipe.Config{Nodes: one, Owner: "web\n3"},
			[]string{"Config.Owner", `"web\n3"`, "letters", "NoOwner"},
		},
		"Owner too long": {
			lockpipe.Config{Nodes: one, Owner: strings.Repeat("w", 81)},
			[]string{"Config.Owner", "longer than 80 bytes", "at most 80"},
		},
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
		t.Run(name, func(t *testing.T) { kit.RefusedConfig(t, test.cfg, test.says...) })
	}
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprintf("127.0.0.1:%d", i+1)
	}
	kit.RefusedConfig(t, lockpipe.Config{Nodes: many}, "Config.Nodes", "65", "64")
}

// The goal: one master that is listed twice would have two votes, so it is refused in whatever form
// it is written.
func TestInvalid_AMasterListedTwiceIsRefused(t *testing.T) {
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
			kit.RefusedConfig(t, lockpipe.Config{Nodes: []string{pair[0], "127.0.0.1:1", pair[1]}},
				"Config.Nodes[2]", "Nodes[0]")
		})
	}
}

// The goal: a node that cannot be parsed is ErrInvalid, and the error names it by its place. It
// never shows a password, even if the password makes the URL unreadable.
func TestInvalid_ANodeThatIsNoURLIsRefusedWithoutItsPassword(t *testing.T) {
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
			kit.RefusedConfig(t,
				lockpipe.Config{Nodes: []string{"127.0.0.1:1", node, "127.0.0.1:2"}},
				"Config.Nodes[1]")
		})
	}
}

// The goal: what users would write is understood.
func TestInvalid_WaysToWriteANodeAreTaken(t *testing.T) {
	t.Parallel()
	for _, node := range []string{
		"host:6379", "redis://host", "redis://host:6379/", "redis://host:6379/3",
		"redis://user:secret@host:6379/0", "redis://:secret@host:6379", "rediss://host:6380",
		"unix:///var/run/redis.sock", "[::1]:6379", "redis://[::1]:6379", "redis://host:6379?db=2",
		"redis://user:se%2Fcr%3Fet@host:6379",
		"valkey://user:secret@host:6379/0", "valkeys://host:6380", "VALKEY://host",
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

// The goal: a TTL, MaxTTL or NodeTimeout with which a sum could overflow is refused. The error
// names the field, the value and the remedy.
func TestInvalid_HugeTTLsAreRefused(t *testing.T) {
	t.Parallel()
	for _, d := range append([]time.Duration{kit.LongestTTL + time.Millisecond}, kit.Huge...) {
		value := d.Truncate(time.Millisecond).String()
		tooLong := []string{"Config.MaxTTL is " + value, "at most 2160h", "WithAutoExtend"}
		tests := map[string]struct {
			cfg  lockpipe.Config
			says []string
		}{
			"MaxTTL": {lockpipe.Config{MaxTTL: d}, tooLong},
			"TTL": {lockpipe.Config{TTL: d}, []string{
				"Config.TTL is " + value,
				"lower it",
			}},
			"both": {lockpipe.Config{TTL: d, MaxTTL: d}, tooLong},
			"NodeTimeout": {lockpipe.Config{NodeTimeout: d}, []string{
				"Config.NodeTimeout is",
				"TTL",
			}},
			"all of these": {lockpipe.Config{NodeTimeout: d, TTL: d, MaxTTL: d}, tooLong},
			"a short TTL":  {lockpipe.Config{TTL: time.Second, MaxTTL: d}, tooLong},
			"a short limit": {
				lockpipe.Config{NodeTimeout: time.Second, TTL: d, MaxTTL: d},
				tooLong,
			},
		}
		for name, test := range tests {
			t.Run(name+" "+value, func(t *testing.T) {
				test.cfg.Nodes = []string{"127.0.0.1:1"}
				kit.RefusedConfig(t, test.cfg, test.says...)
			})
		}
	}
}
