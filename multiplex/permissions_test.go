package multiplex

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/line"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// needed is what docs/operations.md gives a user, with keys behind app:. Each entry is taken away
// in TestPermissions_EachIsNeeded.
const needed = "~app:* -@all +set +get +del +mget +exists +pexpire +pttl +getrange +evalsha " +
	"+script|load +zadd +zscore +zrange +zrem +zcount +zcard +info +config|get +hgetall +hset +hdel " +
	"+client|id +client|kill +client|tracking +client|caching +ping +time"

// What a user can lack.
const (
	lacksSingle   = "one key"
	lacksSet      = "several keys"
	lacksExtend   = "extension"
	lacksRelease  = "release"
	lacksFence    = "fencing"
	lacksLeft     = "time left"
	lacksTold     = "told of changes"
	lacksHolder   = "name of the holder"
	lacksFarewell = "end of the connection before"
	lacksFlush    = "notice of a flush"
	lacksLine     = "place in a line"
	lacksLength   = "length of a line"
)

// lacks makes use of all that a node is for, as the user of url, and returns what does not work;
// for a node that is down that is the reason alone. The server has an append-only file, so that its
// memory is durable where the user may see that.
func lacks(t *testing.T, s *lasting, url string) (all []string) {
	t.Helper()
	m := start(t, []string{url}, func(c *Config) { c.Prefix = "app:" })
	var status NodeStatus
	require.Eventually(t, func() bool {
		status = m.Nodes()[0]
		return status.State != link.Connecting && status.State != link.Quarantined // its first use
	}, patient, often)
	if status.State != link.Up {
		return []string{status.Err.Error()}
	}
	check := func(what string, works bool) {
		if !works {
			all = append(all, what)
		}
	}
	granted := func(a *Attempt) bool { return wait(a, t.Context()) == nil }
	token := strings.Repeat("A", 27) // of the form of a real one
	named := func(keys ...string) *Claim {
		c := new(Claim)
		c.Init("app:", keys, token, "")
		return c
	}
	single, set, fenced := named("k1"), named("k2", "k3"), named("k4")
	fenced.Fence(5, 9)
	check(lacksSingle, granted(m.Acquire(single, time.Minute, 1)))
	check(lacksSet, granted(m.Acquire(set, time.Minute, 1)))
	check(lacksFence, granted(m.Acquire(fenced, time.Minute, 1)))
	check(lacksExtend, granted(m.Extend(single, time.Minute, time.Now().Add(time.Minute),
		time.Second, 1)))
	is := watching(m, "k1").subscribe(t, 0)
	check(lacksLeft, is.Known)
	check(lacksTold, !is.Known || !is.Silent)
	check(lacksHolder, !is.Known || is.Token == token)
	places := make(chan line.Place, 1)
	var place line.Place
	for range 2 { // the second time it renews its place
		m.Line(0).Ask(&line.Ask{
			Key: "k1", Ticket: place.Ticket, Answered: func(p line.Place) { places <- p },
		})
		place = <-places
	}
	check(lacksLine, place.Known)
	nodes, err := m.Peek(t.Context(), []string{"app:k1"}, []string{"app:lockpipe:line:k1"}, nil)
	require.NoError(t, err)
	check(lacksLength, !place.Known || nodes[0].Err == nil && nodes[0].Answers[0].Waiting == 1)
	check(lacksRelease, granted(m.Release(single, 1)))
	all = append(all, unasked(t, m)...)
	check(lacksFarewell, saysFarewell(t, s, m))
	_, err = s.do("FLUSHALL")
	require.NoError(t, err)
	check(lacksFlush, !granted(m.Acquire(named("k5"), time.Minute, 1))) // told before the reply
	return all
}

// unasked is what Inspect may not ask.
func unasked(t *testing.T, m *Mux) (all []string) {
	t.Helper()
	facts, err := inspector(t, m).Ask(t.Context())
	require.NoError(t, err)
	for _, r := range facts[0].CommandErrors {
		require.Contains(t, r.Text, "NOPERM")
		all = append(all, "Inspect: "+r.Command)
	}
	return all
}

// saysFarewell reports whether a new connection ends the one before on the server.
func saysFarewell(t *testing.T, s *lasting, m *Mux) bool {
	t.Helper()
	before := m.nodes[0].Link.Current()
	require.NoError(t, before.Close())
	require.Eventually(t, func() bool { return m.nodes[0].Link.Current() != before }, patient,
		often)
	up(t, m)
	stats, err := s.do("INFO", "commandstats")
	require.NoError(t, err)
	kills, called := resp.ParseInfo(stats.Text)["cmdstat_client|kill"]
	return called && !strings.HasPrefix(kills, "calls=0,")
}

// asUser starts a server with a user of these rules, and returns the URL.
func asUser(t *testing.T, rules, parameters string) (s *lasting, url string) {
	t.Helper()
	s = startLasting(t, "--appendonly", "yes", "--appendfsync", "always")
	_, err := s.do(append([]string{"ACL", "SETUSER", "u", "on", ">pw", "resetkeys"},
		strings.Fields(rules)...)...)
	require.NoError(t, err)
	return s, "unix://u:pw@" + s.socket() + parameters
}

// without is the rules but for one.
func without(t *testing.T, rules, one string) string {
	t.Helper()
	all := strings.Fields(rules)
	rest := slices.DeleteFunc(slices.Clone(all), func(r string) bool { return r == one })
	require.Len(t, rest, len(all)-1)
	return strings.Join(rest, " ")
}

// The goal: the permissions that are documented are all that is needed, and each of them is:
// without it goes exactly what is documented, with the server's words where that is the node.
func TestPermissions_EachIsNeeded(t *testing.T) {
	t.Parallel()
	// And nothing to release.
	everyKey := []string{lacksSingle, lacksSet, lacksFence, lacksExtend, lacksLeft, lacksLine}
	for missing, want := range map[string][]string{
		"":                 nil,
		"+set":             {"its user may not use SET: "},
		"+get":             {"can't be read: NOPERM"},
		"+del":             {"its user may not use DEL: "},
		"+mget":            {"its user may not use MGET: "},
		"+evalsha":         {"its user may not use EVALSHA: NOPERM"},
		"+script|load":     {"'script|load'"},
		"+info":            {"'info'"},
		"+exists":          {"its user may not use EXISTS: "},
		"+pexpire":         {"its user may not use PEXPIRE: "},
		"+pttl":            {"its user may not use PTTL: "},
		"+getrange":        {"its user may not use GETRANGE: "},
		"+config|get":      {"Inspect: CONFIG GET"},
		"+client|id":       {"its user may not use CLIENT ID: NOPERM"},
		"+client|kill":     {"its user may not use CLIENT KILL: NOPERM"},
		"+client|tracking": {lacksTold, "Inspect: CLIENT TRACKING"},
		"+client|caching":  {lacksTold, "Inspect: CLIENT CACHING"},
		"+ping":            {"its user may not use PING: "},
		"+time":            {"can't be kept"},
		"+hgetall":         {"can't be kept"},
		"+hset":            {"can't be kept"},
		"+hdel":            nil, // until an entry has ended
		"+zrange":          {lacksLine},
		"+zrem":            {lacksLine},
		"+zcount":          {lacksLine},
		"+zcard":           {lacksLength},
		"~app:*":           {"can't be read: NOPERM"},
		"~app:k*":          everyKey,
		"~app:lockpipe:admitted": {
			"can't be read: NOPERM",
		},
		"~app:lockpipe:fences": {lacksFence},
		"~app:lockpipe:line:*": {lacksLine},
		"~app:lockpipe:none:*": nil,
	} {
		t.Run("without "+missing, func(t *testing.T) {
			t.Parallel()
			rules := needed
			if strings.HasPrefix(missing, "~app:") && missing != "~app:*" {
				// The patterns one by one.
				rules = strings.Replace(rules, "~app:*", "~app:k* ~app:lockpipe:admitted "+
					"~app:lockpipe:layouts ~app:lockpipe:fences ~app:lockpipe:none:* "+
					"~app:lockpipe:line:*", 1)
			}
			if missing != "" {
				rules = without(t, rules, missing)
			}
			s, url := asUser(t, rules, "")
			got := lacks(t, s, url)
			if len(want) == 1 && len(got) == 1 && strings.Contains(got[0], want[0]) {
				return
			}
			require.Equal(t, want, got)
		})
	}
}

// The goal: the documentation gives the user just that.
func TestPermissions_AreDocumented(t *testing.T) {
	manual, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	require.Contains(t, string(manual), "\nACL SETUSER lockpipe reset on >PASSWORD "+needed+"\n")
}

// The goal: a database other than 0 needs SELECT, a name for the connection needs nothing, and a
// user who may not load scripts can use those that are there.
func TestPermissions_WhatElseNeedsOne(t *testing.T) {
	t.Parallel()
	t.Run("database", func(t *testing.T) {
		t.Parallel()
		s, url := asUser(t, needed, "?db=1")
		got := lacks(t, s, url)
		require.Len(t, got, 1)
		require.Contains(t, got[0], "'select'")
		s, url = asUser(t, needed+" +select", "?db=1")
		require.Empty(t, lacks(t, s, url))
	})
	t.Run("name", func(t *testing.T) {
		t.Parallel()
		s, url := asUser(t, needed, "?client_name=orders")
		require.Empty(t, lacks(t, s, url))
	})
	t.Run("without the guard", func(t *testing.T) {
		t.Parallel()
		rules := needed
		for _, one := range []string{"+get", "+info", "+config|get"} {
			rules = without(t, rules, one)
		}
		_, url := asUser(t, rules, "")
		m := start(t, []string{url}, func(c *Config) { c.Prefix, c.Guard = "app:", guard.Off })
		up(t, m)
		c := new(Claim)
		c.Init("app:", []string{"a", "b"}, "token", "")
		c.Fence(5, 9)
		require.NoError(t, wait(m.Acquire(c, time.Minute, 1), t.Context()))
		require.NoError(t, wait(m.Extend(c, time.Minute, time.Now().Add(time.Minute), time.Second,
			1), t.Context()))
		require.NoError(t, wait(m.Release(c, 1), t.Context()))
	})
	t.Run("scripts", func(t *testing.T) {
		t.Parallel()
		s, url := asUser(t, without(t, needed, "+script|load"), "")
		for _, sc := range script.All() {
			_, err := s.do("SCRIPT", "LOAD", sc.Source)
			require.NoError(t, err)
		}
		require.Empty(t, lacks(t, s, url))
	})
}

// The goal: a user may lack the newer commands. Then the client does without them, on a server that
// has them too, and also if they are taken away while it is connected.
func TestPermissions_NewerCommandsAreOptional(t *testing.T) {
	t.Parallel()
	s, url := asUser(t, needed, "")
	_, err := s.do("DELIFEQ", "none", "none")
	newer := err == nil
	m := start(t, []string{url}, func(c *Config) { c.Prefix = "app:" })
	up(t, m)
	conn := func() *link.Conn { return m.nodes[0].Link.Current() }
	require.Zero(t, conn().Commands())
	locks := func(round int) {
		var all []*Claim
		var attempts []*Attempt
		for i := range 40 {
			c := new(Claim)
			keys := []string{fmt.Sprint(round, ":", i), fmt.Sprint(round, ":", i, ":too")}
			c.Init("app:", keys[:1+i%2], fmt.Sprint("token", i), "")
			all, attempts = append(all, c), append(attempts, m.Acquire(c, time.Minute, 1))
		}
		for i, a := range attempts {
			require.NoError(t, wait(a, t.Context()))
			require.NoError(t, wait(m.Release(all[i], 1), t.Context()))
		}
	}
	locks(1)
	if !newer {
		return
	}
	_, err = s.do("ACL", "SETUSER", "u", "+msetex", "+delifeq")
	require.NoError(t, err)
	before := conn()
	require.NoError(t, before.Close())
	require.Eventually(t, func() bool { return conn() != before }, patient, often)
	up(t, m)
	require.Equal(t, link.MSETEX|link.DELIFEQ, conn().Commands())
	locks(2)
	require.Equal(t, link.MSETEX|link.DELIFEQ, conn().Commands())
	_, err = s.do("ACL", "SETUSER", "u", "-msetex", "-delifeq")
	require.NoError(t, err)
	locks(3)
	require.Zero(t, conn().Commands())
	locks(4)
	keys, err := s.do("KEYS", "app:?:*")
	require.NoError(t, err)
	require.Empty(t, keys.Items)
}

// The goal: a permission that is taken away at run time takes the node out within three seconds,
// also if nobody asks for a lock, and the reason is in the status. The node is back with it.
func TestPermissions_AreMissedAtRunTime(t *testing.T) {
	t.Parallel()
	for _, permission := range []string{"evalsha", "pexpire", "del", "exists"} {
		t.Run(permission, func(t *testing.T) {
			t.Parallel()
			s, url := asUser(t, needed, "")
			m := start(t, []string{url},
				func(c *Config) { c.Prefix, c.MaxTTL = "app:", time.Second })
			up(t, m)
			_, err := s.do("ACL", "SETUSER", "u", "-"+permission)
			require.NoError(t, err)
			becomes(t, m, 0, link.Down, "its user may not use "+strings.ToUpper(permission)+": ")
			err = wait(m.Acquire(claim("app:k", "t"), time.Second, 1), t.Context())
			require.ErrorContains(t, err, "its user may not use")
			_, err = s.do("ACL", "SETUSER", "u", "+"+permission)
			require.NoError(t, err)
			up(t, m)
		})
	}
}

// The goal: a lost permission is noticed in time, by the time of the connector.
func TestPermissions_AreLookedAtInTime(t *testing.T) {
	onStage(t, 3, func(t *testing.T, m *Mux, actors []*actor) {
		for range 20 {
			actors[0].play(map[string]string{"EVALSHA " + ids.ProbeKey: resptest.Strings(
				"PEXPIRE ERR The user executing the script can't run this command or subcommand")})
			time.Sleep(3 * time.Second)
			require.Equal(t, link.Down, m.Nodes()[0].State)
			require.ErrorContains(t, m.Nodes()[0].Err, "its user may not use PEXPIRE: ERR The user")
			actors[0].play(nil)
			time.Sleep(link.MaxReconnectDelay)
			require.Equal(t, link.Up, m.Nodes()[0].State)
		}
	})
}
