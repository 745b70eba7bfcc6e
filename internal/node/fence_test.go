package node

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// withFence returns an operation that asks for the numbers from first to last.
func withFence(k Kind, first, last int64, keys ...string) *fake {
	o := wanting(k, time.Minute, keys...)
	o.op.Keys.SetFence(first, last)
	return o
}

// tooLow is the answer of a node that knows a number that is not below the fence. The keys are on
// the node.
func tooLow(seen int64) Answer {
	return Answer{Replied: true, Err: &FenceTooLowError{seen}}
}

func okReply() resp.Reply { return resp.Reply{Kind: '+', Text: []byte("OK")} }

// The goal: the numbers of an acquire are behind all that may take its keys, and those of an
// extension ahead of what may give a node its keys back. Others have none.
func TestFence_IsRaisedInTheRightPlace(t *testing.T) {
	plain, held := wanting(Extend, time.Minute, "plain"), withFence(Extend, 5, 9, "held")
	one, set := withFence(Acquire, 7, 7, "one"), withFence(Acquire, 8, 9, "a", "b")
	commands := built(newNode(), nil, plain, held, one, set).sending[0].commands
	var kinds []string
	for _, c := range commands {
		switch {
		case c.script != nil:
			kinds = append(kinds, c.script.Name)
		case c.fences != 0:
			kinds = append(kinds, fmt.Sprint("fences ", c.fences))
		default:
			kinds = append(kinds, "SET")
		}
	}
	require.Equal(t, []string{
		"SET", "acquire", fmt.Sprint("fences ", vote), fmt.Sprint("fences ", raise),
		fmt.Sprint("fences ", raise), "extend",
	}, kinds)
}

// The goal: a vote has the node's grant only if it raised all members. Otherwise none of its
// acquires has, and the keys are there. A set that was refused stays so.
func TestFence_AVoteRaisesAllOrCountsForNone(t *testing.T) {
	held := Answer{Vote: Refused, LeftNothing: true, Replied: true}
	for raised, want := range map[int64][]Answer{
		3: {{Vote: Granted, Replied: true, KeyIndex: -1}, held},
		2: {tooLow(7), held},
	} {
		f := built(newNode(), nil, withFence(Acquire, 7, 7, "a"), withFence(Acquire, 8, 8, "b"),
			withFence(Acquire, 9, 9, "c"))
		f.OnReply(0, okReply())
		f.OnReply(1, resp.Reply{Kind: '_'})
		f.OnReply(2, okReply())
		f.OnReply(3, integerReply(raised))
		require.Equal(t, want, f.Answers[:2], raised)
		require.Equal(t, raised == 3, f.Answers[2].Vote == Granted)
	}
}

// The goal: after a vote that raised too few the node says what it knows. A key whose number was
// too low has a vote of its own from then on, so that it costs others nothing.
func TestFence_ALookFindsWhatWasTooLow(t *testing.T) {
	n := newNode()
	f := built(n, nil, withFence(Acquire, 7, 7, "a"), withFence(Acquire, 8, 8, "b"))
	f.OnReply(0, okReply())
	f.OnReply(1, okReply())
	f.OnReply(2, integerReply(1))
	f.buildRetry()
	f.trip.Commands = len(f.sending[0].commands)
	require.Equal(t, 2, f.trip.Commands)
	require.Same(t, script.Fences, f.sending[0].commands[0].script)
	f.OnReply(0, okReply())
	f.OnReply(1, resp.Reply{Kind: '*', Ints: []int64{7, 5000}})
	require.Equal(t, []Answer{tooLow(7), tooLow(5000)}, f.Answers)

	var votes [][]string
	for _, c := range built(n, nil, withFence(Acquire, 9, 9, "c"), withFence(Acquire, 9, 9, "d"),
		withFence(Acquire, 9, 9, "b"), withFence(Acquire, 9, 9, "e")).sending[0].commands {
		var keys []string
		for _, s := range c.singles {
			keys = append(keys, s.op.Keys.Key(0))
		}
		if c.fences == vote {
			votes = append(votes, keys)
		}
	}
	require.Equal(t, [][]string{{"c", "d"}, {"b"}, {"e"}}, votes)
}

// The goal: keys that share a member are in different votes, since a command changes it once.
func TestFence_NoMemberIsTwiceInAVote(t *testing.T) {
	const same1, same2 = "k21", "k301"
	require.Equal(t, ids.FenceMember(same1), ids.FenceMember(same2))
	sizes := []int(nil)
	f := built(newNode(), nil, withFence(Acquire, 7, 7, same1), withFence(Acquire, 8, 8, same2),
		withFence(Acquire, 9, 9, same1, same2))
	for _, c := range f.sending[0].commands {
		if c.fences == vote {
			sizes = append(sizes, c.members())
		}
	}
	require.Equal(t, []int{1, 1, 1}, sizes)
}

// The goal: a set that is sent once more, because its script had to be loaded, has no vote: its
// number was raised ahead of it.
func TestFence_WhatIsSentOnceMoreHasNoVote(t *testing.T) {
	f := built(newNode(), nil, withFence(Acquire, 7, 7, "a", "b"))
	f.OnReply(0, errorReply("NOSCRIPT No matching script."))
	f.OnReply(1, integerReply(2))
	require.Equal(t, Granted, f.Answers[0].Vote)
	f.buildRetry()
	f.trip.Commands = len(f.sending[0].commands)
	require.Equal(t, 3, f.trip.Commands)
	f.OnReply(0, okReply())
	f.OnReply(1, integerReply(1))
	f.OnReply(2, integerReply(0)) // the members have the number already
	require.Equal(t, []Answer{tooLow(7)}, f.Answers)
}

// The goal: an operation whose number was not raised for certain is in doubt, whatever the command
// for its keys did.
func TestFence_AnOperationNeedsItsNumber(t *testing.T) {
	for _, k := range []Kind{Acquire, Extend} {
		for _, failure := range []Answer{
			{LeftNothing: true, Replied: true, Err: errors.New("WRONGTYPE")},
			{Broken: true, Err: io.EOF},
			{LeftNothing: true, Err: link.ErrNotConnected},
		} {
			f := built(newNode(), nil, withFence(k, 7, 7, "k"))
			f.Answers[0] = Answer{Vote: Granted, Replied: true, KeyIndex: -1}
			for i := range f.sending[0].commands {
				if p := &f.sending[0].commands[i]; p.fences != 0 {
					f.fail(p, 0, failure)
				}
			}
			failure.LeftNothing = false
			require.Equal(t, failure, f.Answers[0])
		}
	}
}
