package node

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// The goal: a node may still do the part of a large set under which its connection broke, whatever
// it said about the other parts, before or after. Otherwise its release would be dropped when the
// keys should have expired.
func TestReply_ABrokenPartOfASetIsNotForgotten(t *testing.T) {
	keys := make([]string, script.MaxKeys+1)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	broke := Answer{Broken: true, Err: errors.New("reset by peer")}
	for name, others := range map[string][]Answer{
		"alone":               {broke},
		"refused, then broke": {{Vote: Refused, Replied: true}, broke},
		"denied, then broke": {{
			LeftNothing: true, Replied: true,
			Err: errors.New("NOPERM"),
		}, broke},
		"broke, and the repeat unsent": {broke, {LeftNothing: true, Err: link.ErrNotConnected}},
		"broke, and the repeat denied": {broke, {
			LeftNothing: true, Replied: true,
			Err: errors.New("NOPERM"),
		}},
		"granted, broke, repeat unsent": {{Vote: Granted, Replied: true}, broke, {
			LeftNothing: true,
			Err:         link.ErrNotConnected,
		}},
		"unsent, and then broke as well": {{LeftNothing: true, Err: link.ErrNotConnected}, broke},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Flush{
				Ops:     []Operation{wanting(Extend, time.Minute, keys...)},
				Answers: []Answer{{Vote: Granted, Replied: true}},
			}
			p := &command{script: script.Extend, call: &script.Call{Owners: []int{0}}}
			for _, r := range others {
				if r.Vote != Unknown { // as read leaves it
					f.Answers[0] = r
					continue
				}
				f.fail(p, 0, r)
			}
			require.NotEqual(t, Granted, f.Answers[0].Vote)
			require.True(t, f.Answers[0].Broken)
			require.False(t, f.Answers[0].LeftNothing)
		})
	}
}

// The goal: the same where the node refuses a later part: its vote is known, and the part that
// broke is still to come.
func TestReply_ARefusalDoesNotHideABrokenPart(t *testing.T) {
	f := &Flush{
		Ops:     []Operation{wanting(Extend, time.Minute, "k")},
		Answers: []Answer{{Broken: true, Err: errors.New("reset by peer")}},
	}
	e := new(Group).newEncoding(0, false)
	e.add(0, f.Ops[0].Op())
	e.end()
	f.sending = []part{{e, 0}}
	// Of one set the first key is another's.
	f.OnReply(0, resp.Reply{Kind: '*', Ints: []int64{0, 1, 1}})
	require.Equal(t, Refused, f.Answers[0].Vote)
	require.True(t, f.Answers[0].Broken)
}

// The goal: a set that is refused left nothing only if all of it was in one call. Of a larger set
// another call may have taken a part, so its release must reach the node.
func TestReply_ARefusedPartLeavesWhatOtherCallsTook(t *testing.T) {
	for _, test := range []struct {
		kind    Kind
		keys    int
		nothing bool
	}{
		{kind: Acquire, keys: script.MaxKeys, nothing: true},
		{kind: Acquire, keys: script.MaxKeys + 1},
		{kind: Acquire, keys: 2 * script.MaxKeys},
		{kind: Extend, keys: 2},
		{kind: Extend, keys: script.MaxKeys + 1},
	} {
		keys := make([]string, test.keys)
		for i := range keys {
			keys[i] = fmt.Sprint("k", i)
		}
		f := built(newNode(), nil, wanting(test.kind, time.Minute, keys...))
		last := len(f.sending[0].commands) - 1
		for i := range last {
			f.OnReply(i, integerReply(1))
		}
		// The first key of the last part is another's.
		f.OnReply(last, resp.Reply{Kind: '*', Ints: []int64{0, 1, 1}})
		require.NotEqual(t, Granted, f.Answers[0].Vote, "%+v", test)
		require.Equal(t, test.nothing, f.Answers[0].LeftNothing, "%+v", test)
	}
}
