package multiplex

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// The goal: of the parts of a large set the highest fence key counts. If a part was refused or
// failed, that is the node's answer, whichever comes first.
func TestFence_TooLowInOnePartOfASet(t *testing.T) {
	grant := answer{vote: granted, replied: true, keyIndex: -1}
	r := grant
	r.setFenceTooLow(5, true)
	require.Equal(t, answer{leftNothing: true, replied: true, err: &fenceTooLowError{5}}, r,
		"no vote, and nothing is left")
	r.setFenceTooLow(9, true)
	r.setFenceTooLow(7, true)
	require.Equal(t, &fenceTooLowError{9}, r.err)

	refusal := answer{vote: refused, replied: true, keyIndex: 3}
	r = refusal
	r.setFenceTooLow(5, false)
	require.Equal(t, refusal, r)
	failure := answer{broken: true, err: errors.New("broken")}
	r = failure
	r.setFenceTooLow(5, false)
	require.Equal(t, failure, r)
}

// The goal: fence keys are behind the prefix, the keys stay what they are, and Lua counts the
// numbers in ones.
func TestFence_KeysAreBehindThePrefix(t *testing.T) {
	for _, keys := range [][]string{{"a"}, {"a", "b"}} {
		var c Claim
		c.Init("app:", keys, "token")
		first, last := c.Fences()
		require.Equal(t, []int64{0, 0}, []int64{first, last})
		c.Fence(time.Now(), 5, script.MaxFence)
		first, last = c.Fences()
		require.Equal(t, []int64{5, script.MaxFence}, []int64{first, last})
		require.Equal(t, []string{"5", "9007199254740991"}, []string{
			c.fence().First,
			c.fence().Last,
		})
		for i, k := range keys {
			require.Equal(t, k, c.Key(i))
			require.Equal(t, "app:lockpipe:fence:"+k, c.fence().FenceKeys[i])
		}
	}
}

// The goal: a claim without a fence has no memory for one.
func TestFence_AClaimWithoutOneIsSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Claim{}), uintptr(112))
	require.Nil(t, claim("k", "t").cold)
}

// The goal: an extension that was granted is in doubt if the connection broke before the fence keys
// were raised, as when only its own script was loaded. An error of the server, which has left the
// fence keys as they were, is no vote.
func TestFence_AnExtensionNeedsItsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		attempts := []*Attempt{m.newAttempt(claim("k", "t"), extend, time.Minute, time.Second,
			time.Second)}
		grant := answer{vote: granted, replied: true, keyIndex: -1}
		f := &flush{attempts: attempts, answers: []answer{grant}}
		p := &command{script: script.RaiseFence, call: &script.Call{Owners: []int{0}}}
		oom := answer{leftNothing: true, replied: true, err: errors.New("OOM")}
		f.fail(p, 0, oom)
		require.Equal(t, grant, f.answers[0])
		f.fail(p, 0, answer{broken: true, err: io.EOF})
		require.Equal(t, answer{broken: true, err: io.EOF}, f.answers[0])
	})
}

// The goal: fence keys are raised before an extension can give a node its keys back, and only those
// of leases with a fence.
func TestFence_IsRaisedBeforeRefills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(1, 1, 0)
		defer stop()
		fenced := claim("fenced", "t")
		fenced.Fence(time.Now(), 5, 9)
		var attempts []*Attempt
		for _, c := range []*Claim{claim("plain", "t"), fenced} {
			c.latest = m.newAttempt(c, extend, time.Minute, time.Second, time.Second)
			attempts = append(attempts, c.latest)
		}
		commands := built(m.nodes[0], nil, attempts...).own.commands
		require.Len(t, commands, 2)
		require.Equal(t, []*script.Script{script.RaiseFence, script.Extend},
			[]*script.Script{commands[0].script, commands[1].script})
		require.Equal(t, []string{"lockpipe:fence:fenced"}, commands[0].call.Keys)
		require.Equal(t, []string{"1", "9"}, commands[0].call.Args)
		require.Equal(t, []string{"plain", "fenced"}, commands[1].call.Keys)
	})
}

// The goal: another attempt is worth it at once if the fence was too low on a quorum and nothing is
// left. It is worth it after the release if the nodes that said so and those that granted, or may
// grant, are a quorum. Otherwise it is not. Of a large set, parts may be left on nodes on which the
// fence was too low.
func TestFence_TooLowIsExplained(t *testing.T) {
	g, s := answer{vote: granted, replied: true, keyIndex: -1}, answer{err: &fenceTooLowError{7}}
	e := answer{err: errors.New("LOADING")}
	r, top := answer{vote: refused, replied: true}, answer{err: &fenceTooLowError{script.MaxFence}}
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		for i, c := range []struct {
			keys          int
			votes         []answer
			seen          int64
			again, atOnce bool
		}{
			{1, []answer{s, s, s}, 7, true, true},
			{125, []answer{s, s, g}, 7, true, true},
			{126, []answer{s, s, s}, 7, true, false},
			{1, []answer{s, e, g}, 7, true, false},
			{1, []answer{e, s, e}, 7, false, false},
			{1, []answer{r, s, r}, 7, false, false},
			{1, []answer{e, e, g}, 0, false, false},
			{1, []answer{s, g, g}, 7, false, false},
			{1, []answer{s, s, top}, 7, true, true},
			{1, []answer{s, top, g}, 7, true, false},
			{1, []answer{s, top, e}, 7, false, false},
			{1, []answer{top, top, top}, 0, false, false},
		} {
			var claim Claim
			claim.Init("", make([]string, c.keys), "t")
			claim.Fence(time.Now(), 5, 5)
			a := m.newAttempt(&claim, acquire, time.Minute, time.Second, time.Second)
			for i, v := range c.votes {
				a.addVote(i, v)
			}
			seen, again, atOnce := a.FenceTooLow()
			require.Equal(t, []any{c.seen, c.again, c.atOnce}, []any{seen, again, atOnce}, i)
		}
	})
}

// The goal: the validity of an attempt to acquire with a fence counts from before its numbers were
// taken, and that of no other from then.
func TestFence_ValidityCountsFromBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, stop := simulated(3, 1, 0)
		defer stop()
		for _, begin := range []func(c *Claim) *Attempt{
			func(c *Claim) *Attempt { return m.Acquire(c, time.Minute, 1) },
			func(c *Claim) *Attempt { return m.AcquireViaArbiter(c, time.Minute, 1) },
		} {
			c := claim("k", "t")
			before := time.Now()
			c.Fence(before, 5, 9)
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, before, begin(c).Sent())
			now := time.Now()
			require.Equal(t, now, m.Extend(c, time.Minute, now.Add(time.Minute), 0, 1).Sent())
			require.Equal(t, now, m.Release(c, 1).Sent())
		}
		require.Equal(t, time.Now(), m.Acquire(claim("plain", "t"), time.Minute, 1).Sent())
		time.Sleep(time.Second)
		synctest.Wait()
	})
}
