package node

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// reading is a trip through a log.
type reading struct{ looks bool }

func (r *reading) MustLook() bool { return r.looks }

// parts returns how many rounds are sent as they were made for all nodes, and how many commands
// were made for the node alone.
func (f *Flush) parts() (shared, own int) {
	for _, p := range f.sending {
		if slices.Contains(f.made, p.Encoding) {
			own += len(p.commands)
		} else {
			shared++
		}
	}
	return shared, own
}

// The goal: a node is sent what was made for all nodes, unless some operation may have to be left
// out there, or nothing was made for its commands. What some nodes alone are sent comes behind it.
func TestFlush_SendsWhatIsMadeForAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, now := newNode(), time.Now()
		for name, c := range map[string]struct {
			looks      bool
			set        link.CommandSet
			sendBefore time.Time
			want       bool
		}{
			"usual":          {want: true},
			"in time":        {sendBefore: now, want: true},
			"too late":       {sendBefore: now.Add(-1)},
			"must look":      {looks: true},
			"other commands": {set: link.DELIFEQ},
		} {
			shared := wanting(Acquire, time.Minute, "shared")
			own := wanting(Acquire, time.Minute, "own")
			own.op.Directed = true
			var r Round
			r.Shared[0], r.SendBefore = n.group.newEncoding(0, false), c.sendBefore
			r.Shared.Add(0, &shared.op)
			r.Shared.End()
			f := n.NewFlush(&reading{c.looks})
			r.Size = 2
			f.AddRound(&r)
			f.Add(shared, true)
			f.Add(own, true)
			conn := new(link.Conn)
			conn.Allow(c.set)
			f.build(conn)
			rounds, commands := f.parts()
			if c.want {
				require.Equal(t, []int{1, 1}, []int{rounds, commands}, name)
				require.Equal(t, []string{"SET"}, names(t, f.made[0]))
			} else {
				require.Equal(t, []int{0, 2}, []int{rounds, commands}, name)
			}
		}
	})
}

// The goal: what a node alone is sent keeps the order of the rounds. In each round it comes before
// what all nodes are sent, which may want the keys that it releases. The extension or the release
// of a claim is in a later round than its acquire.
func TestFlush_KeepsTheOrderOfTheRounds(t *testing.T) {
	n := newNode()
	operations := []*fake{
		wanting(Acquire, time.Minute, "a"), wanting(Acquire, time.Minute, "x"), // a round
		wanting(Acquire, time.Minute, "b"), wanting(Release, 0, "a"), wanting(Release, 0, "b"),
		wanting(Extend, time.Minute, "x"), // the last round
	}
	for _, i := range []int{1, 3, 4} {
		operations[i].op.Directed = true
	}
	f := n.NewFlush(&reading{})
	for _, round := range [][]int{{0, 1}, {2, 3, 4}, {5}} {
		var r Round
		r.Shared[0] = n.group.newEncoding(0, false)
		for at, i := range round {
			if f.Add(operations[i], i != 4); !operations[i].op.Directed {
				r.Shared[0].add(at, &operations[i].op)
			}
		}
		r.Shared.End()
		r.Size = len(round)
		f.AddRound(&r)
	}
	f.build(&link.Conn{})
	var sent []string
	for _, p := range f.sending {
		for i := range p.commands {
			if c := &p.commands[i]; c.script == nil {
				sent = append(sent, "SET "+c.singles[0].op.Keys.All()[0])
			} else {
				sent = append(sent, c.script.Name+fmt.Sprint(c.call.Keys))
			}
		}
	}
	require.Equal(t, []string{"SET x", "SET a", "release[a]", "SET b", "extend[x]"}, sent)
	rounds, own := f.parts()
	require.Equal(t, []int{3, 2}, []int{rounds, own})
	n.recycle(f)
	require.Empty(t, f.made)
}

// The goal: an operation that is of no use any more is not sent, and left nothing.
func TestFlush_DoesNotSendWhatIsOfNoUse(t *testing.T) {
	var operations []*fake
	for _, k := range []Kind{Acquire, Extend, Release} {
		for i, why := range []error{nil, ErrQueuedTooLong, ErrSuperseded} {
			key := fmt.Sprint(k, i)
			for _, keys := range [][]string{{key}, {key + "a", key + "b"}} {
				o := wanting(k, time.Minute, keys...)
				o.skip = why
				operations = append(operations, o)
			}
		}
	}
	f, sent := built(newNode(), nil, operations...), map[string]bool{}
	for _, p := range f.sending[0].commands {
		if p.script == nil {
			sent[p.singles[0].op.Keys.All()[0]] = true
			continue
		}
		for _, key := range p.call.Keys {
			sent[key] = true
		}
	}
	for i, o := range operations {
		want := Answer{Vote: Granted, Replied: true, KeyIndex: -1}
		if o.skip != nil {
			want = Answer{LeftNothing: true, Err: o.skip}
		}
		require.Equal(t, want, f.Answers[i])
		for _, key := range o.op.Keys.All() {
			require.Equal(t, o.skip == nil, sent[key], key)
		}
	}
}

// The goal: before a command is sent once more, because its script was missing, its operations are
// checked again. Those that are of no use by then are not sent and left nothing. The others are
// sent.
func TestFlush_DoesNotRetryWhatIsOfNoUse(t *testing.T) {
	var operations []*fake
	for i := range 3 {
		for _, k := range []Kind{Extend, Release} {
			operations = append(operations, wanting(k, time.Minute, fmt.Sprint(k, i)))
		}
	}
	f := built(newNode(), nil, operations...)
	for i := range f.sending[0].commands {
		f.OnReply(i, errorReply("NOSCRIPT No matching script."))
	}
	again := func() (keys []string) {
		f.buildRetry()
		for _, p := range f.sending[0].commands {
			if p.call != nil {
				keys = append(keys, p.call.Keys...)
			}
		}
		return keys
	}
	require.ElementsMatch(t, []string{"1 0", "1 1", "1 2", "2 0", "2 1", "2 2"}, again())
	operations[2].skip = ErrQueuedTooLong
	require.ElementsMatch(t, []string{"1 0", "1 2", "2 0", "2 1", "2 2"}, again())
	for i, o := range operations {
		if o.skip != nil {
			require.Equal(t, Answer{LeftNothing: true, Err: ErrQueuedTooLong}, f.Answers[i])
		} else {
			require.NoError(t, f.Answers[i].Err)
		}
	}
}

// The goal: if votes do not count, what was not sent still left nothing, and what was answered is
// in doubt.
func TestFlush_InvalidatesRepliesOnly(t *testing.T) {
	unsent := Answer{LeftNothing: true, Err: link.ErrNotConnected}
	broke := Answer{Broken: true, Err: ErrConnectionLost}
	done := Answer{Vote: Granted, Replied: true, KeyIndex: -1}
	answers := []Answer{unsent, broke, done, {Vote: Refused, LeftNothing: true, Replied: true}}
	invalidate(answers, link.ErrDataLoss)
	doubtful := Answer{Broken: true, Err: link.ErrDataLoss}
	require.Equal(t, []Answer{unsent, broke, doubtful, doubtful}, answers)
}

// The goal: a large set is sent again if the server has done nothing of it. Otherwise the node may
// hold a part, and is in doubt. That also holds if what is sent again gets no answer, or is of no
// use any more.
func TestFlush_ALargeSetIsSentAgainAsAWhole(t *testing.T) {
	keys := make([]string, 2*script.MaxKeys+1)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	const noScript = "NOSCRIPT No matching script."
	for _, test := range []struct {
		kind         Kind
		done, broken bool // the first part, and the last
		skip         error
		commands     int
	}{
		{Acquire, false, false, nil, 4}, // a load and all parts
		{Release, false, false, nil, 4},
		{Acquire, false, false, ErrSuperseded, 0},
		{Acquire, true, false, nil, 0},
		{Release, true, false, nil, 0},
		{Acquire, true, true, nil, 0},
		{Acquire, true, true, ErrSuperseded, 0},
	} {
		o := wanting(test.kind, time.Minute, keys...)
		f := built(newNode(), nil, o)
		require.Len(t, f.sending[0].commands, 3)
		if test.done {
			f.OnReply(0, integerReply(1))
		} else {
			f.OnReply(0, errorReply(noScript))
		}
		f.OnReply(1, errorReply(noScript))
		if f.trip.Commands = 3; test.broken {
			f.failFrom(2, Answer{Broken: true, Err: ErrConnectionLost})
		} else {
			f.OnReply(2, errorReply(noScript))
		}
		o.skip = test.skip
		f.buildRetry()
		f.trip.Commands = len(f.sending[0].commands)
		require.Equal(t, test.commands, f.trip.Commands, test)
		f.failFrom(0, Answer{LeftNothing: true, Err: link.ErrNotConnected})
		require.Equal(t, Unknown, f.Answers[0].Vote, test)
		require.False(t, f.Answers[0].LeftNothing, test)
		require.Equal(t, test.broken, f.Answers[0].Broken, test)
	}
}

// The goal: a release of a large set is answered when the node has answered each part. A part whose
// keys are gone says nothing of a part that failed, in either order.
func TestFlush_AReleaseNeedsEachPart(t *testing.T) {
	keys := make([]string, script.MaxKeys+1)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	for failed := range 2 {
		f := built(newNode(), nil, wanting(Release, time.Minute, keys...))
		for i := range 2 {
			if i == failed {
				f.OnReply(i, errorReply("MISCONF no writes here"))
			} else {
				f.OnReply(i, resp.Reply{Kind: '*', Ints: []int64{0, 1, 0}})
			}
		}
		require.Equal(t, Unknown, f.Answers[0].Vote)
	}
}
