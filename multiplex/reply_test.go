package multiplex

import (
	"errors"
	"fmt"
	"testing"

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
	large := new(Claim)
	large.Init("", keys, "t")
	broke := answer{broken: true, err: errors.New("reset by peer")}
	for name, others := range map[string][]answer{
		"alone":               {broke},
		"refused, then broke": {{vote: refused, replied: true}, broke},
		"denied, then broke": {{
			leftNothing: true, replied: true,
			err: errors.New("NOPERM"),
		}, broke},
		"broke, and the repeat unsent": {broke, {leftNothing: true, err: link.ErrNotConnected}},
		"broke, and the repeat denied": {broke, {
			leftNothing: true, replied: true,
			err: errors.New("NOPERM"),
		}},
		"granted, broke, repeat unsent": {{vote: granted, replied: true}, broke, {
			leftNothing: true,
			err:         link.ErrNotConnected,
		}},
		"unsent, and then broke as well": {{leftNothing: true, err: link.ErrNotConnected}, broke},
	} {
		t.Run(name, func(t *testing.T) {
			f := &flush{
				attempts: []*Attempt{{claim: large, kind: extend}},
				answers:  []answer{{vote: granted, replied: true}},
			}
			p := &command{script: script.Extend, call: &script.Call{Owners: []int{0}}}
			for _, r := range others {
				if r.vote != unknown { // as read leaves it
					f.answers[0] = r
					continue
				}
				f.fail(p, 0, r)
			}
			require.NotEqual(t, granted, f.answers[0].vote)
			require.True(t, f.answers[0].broken)
			require.False(t, f.answers[0].leftNothing)
		})
	}
}

// The goal: the same where the node refuses a later part: its vote is known, and the part that
// broke is still to come.
func TestReply_ARefusalDoesNotHideABrokenPart(t *testing.T) {
	f := &flush{
		attempts: []*Attempt{{claim: claim("k", "t"), kind: extend}},
		answers:  []answer{{broken: true, err: errors.New("reset by peer")}},
	}
	f.own.reset()
	f.own.add(0, f.attempts[0])
	f.own.end()
	f.sending = []part{{&f.own, 0}}
	// Of one set the first key is another's.
	f.OnReply(0, resp.Reply{Kind: resp.KindIntegers, Ints: []int64{0, 1, 1}})
	require.Equal(t, refused, f.answers[0].vote)
	require.True(t, f.answers[0].broken)
}
