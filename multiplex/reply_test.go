package multiplex

import (
	"errors"
	"fmt"
	"testing"

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
		"broke, and the repeat unsent": {broke, {leftNothing: true, err: errNotConnected}},
		"broke, and the repeat denied": {broke, {
			leftNothing: true, replied: true,
			err: errors.New("NOPERM"),
		}},
		"granted, broke, repeat unsent": {{vote: granted, replied: true}, broke, {
			leftNothing: true,
			err:         errNotConnected,
		}},
		"unsent, and then broke as well": {{leftNothing: true, err: errNotConnected}, broke},
	} {
		t.Run(name, func(t *testing.T) {
			attempts, answers := []*Attempt{{claim: large, kind: extend}},
				[]answer{{vote: granted, replied: true}}
			p := command{script: script.Extend, call: script.Call{Owners: []int{0}}}
			for _, r := range others {
				if r.vote != unknown { // as read leaves it
					answers[0] = r
					continue
				}
				p.failAll(r, attempts, answers)
			}
			require.NotEqual(t, granted, answers[0].vote)
			require.True(t, answers[0].broken)
			require.False(t, answers[0].leftNothing)
		})
	}
}

// The goal: the same where the node refuses a later part: its vote is known, and the part that
// broke is still to come.
func TestReply_ARefusalDoesNotHideABrokenPart(t *testing.T) {
	onStage(t, 1, func(t *testing.T, m *Mux, actors []*actor) {
		// Of one set the first key is another's.
		actors[0].play(map[string]string{"EVALSHA": "*3\r\n:0\r\n:1\r\n:1\r\n"})
		n, c := m.nodes[0], claim("k", "t")
		attempts, answers := []*Attempt{{claim: c, kind: extend}},
			[]answer{{broken: true, err: errors.New("reset by peer")}}
		var plan script.Plan
		plan.Reset(script.Extend)
		plan.Add(0, script.Set{Keys: c.keys(), Token: "t", TTL: "1000"})
		p := command{script: script.Extend, call: plan.Calls()[0]}
		message, err := n.client.Do(t.Context(), n.build(&p, attempts)).ToMessage()
		require.NoError(t, err)
		new(flushScratch).readReply(&p, &message, false, attempts, answers)
		require.Equal(t, refused, answers[0].vote)
		require.True(t, answers[0].broken)
		actors[0].play(nil)
	})
}
