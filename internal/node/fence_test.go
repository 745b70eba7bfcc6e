package node

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// The goal: of the parts of a large set the highest fence key counts. If a part was refused or
// failed, that is the node's answer, whichever comes first.
func TestFence_TooLowInOnePartOfASet(t *testing.T) {
	grant := Answer{Vote: Granted, Replied: true, KeyIndex: -1}
	r := grant
	r.setFenceTooLow(5, true)
	require.Equal(t, Answer{LeftNothing: true, Replied: true, Err: &FenceTooLowError{5}}, r,
		"no vote, and nothing is left")
	r.setFenceTooLow(9, true)
	r.setFenceTooLow(7, true)
	require.Equal(t, &FenceTooLowError{9}, r.Err)

	refusal := Answer{Vote: Refused, Replied: true, KeyIndex: 3}
	r = refusal
	r.setFenceTooLow(5, false)
	require.Equal(t, refusal, r)
	failure := Answer{Broken: true, Err: errors.New("broken")}
	r = failure
	r.setFenceTooLow(5, false)
	require.Equal(t, failure, r)
}

// The goal: an extension that was granted is in doubt if the connection broke before the fence keys
// were raised, as when only its own script was loaded. An error of the server, which has left the
// fence keys as they were, is no vote.
func TestFence_AnExtensionNeedsItsKeys(t *testing.T) {
	grant := Answer{Vote: Granted, Replied: true, KeyIndex: -1}
	f := newFlushOf(newNode(), wanting(Extend, time.Minute, "k"))
	f.Answers[0] = grant
	p := &command{script: script.RaiseFence, call: &script.Call{Owners: []int{0}}}
	oom := Answer{LeftNothing: true, Replied: true, Err: errors.New("OOM")}
	f.fail(p, 0, oom)
	require.Equal(t, grant, f.Answers[0])
	f.fail(p, 0, Answer{Broken: true, Err: io.EOF})
	require.Equal(t, Answer{Broken: true, Err: io.EOF}, f.Answers[0])
}

// The goal: fence keys are raised before an extension can give a node its keys back, and only those
// of leases with a fence.
func TestFence_IsRaisedBeforeRefills(t *testing.T) {
	plain, fenced := wanting(Extend, time.Minute, "plain"), wanting(Extend, time.Minute, "fenced")
	fenced.op.Keys.SetFence(time.Now(), 5, 9)
	commands := built(newNode(), nil, plain, fenced).own.commands
	require.Len(t, commands, 2)
	require.Equal(t, []*script.Script{script.RaiseFence, script.Extend},
		[]*script.Script{commands[0].script, commands[1].script})
	require.Equal(t, []string{"lockpipe:fence:fenced"}, commands[0].call.Keys)
	require.Equal(t, []string{"1", "9"}, commands[0].call.Args)
	require.Equal(t, []string{"plain", "fenced"}, commands[1].call.Keys)
}

// The goal: if the fence keys were not raised, because the retry of that was not sent, the vote on
// the extension is unknown, and the node may have done it.
func TestFence_ARaiseThatWasNotRetriedLeavesItsExtensionInDoubt(t *testing.T) {
	fenced := wanting(Extend, time.Minute, "k")
	fenced.op.Keys.SetFence(time.Now(), 5, 9)
	f := built(newNode(), nil, fenced)
	f.OnReply(0, errorReply("NOSCRIPT No matching script."))
	f.OnReply(1, integerReply(1))
	require.Equal(t, Granted, f.Answers[0].Vote)
	f.buildRetry()
	f.trip.Commands = len(f.again.commands)
	f.failFrom(0, Answer{LeftNothing: true, Err: link.ErrNotConnected})
	require.Equal(t, Answer{Err: link.ErrNotConnected}, f.Answers[0])
}
