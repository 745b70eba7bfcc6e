package node

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
)

// fenceCommand is what a command does with the highest numbers that the node knows.
//
// A node grants an acquire with a fence by two commands. SET, or the script for a set, takes the
// keys. Behind it on the same connection, ZADD GT CH raises each of their members to the first
// number. It must have raised all: its reply is how many. If it has raised fewer, none of its
// acquires has the node's vote, since nobody knows which were raised. So a ZADD has a few acquires
// only, whose members differ. Keys whose number was too low lately have a ZADD of their own. What
// is sent once more comes behind a ZADD with the same numbers, so it can't raise them again and has
// no vote.
//
// The last number of a range that is handed over inside the process follows in a ZADD of its own.
// An extension raises the last number too, ahead of itself: during rolling restarts a lease may
// outlive all nodes that granted it, and its number must not be forgotten.
type fenceCommand byte

const (
	vote  fenceCommand = iota + 1 // raises the first numbers of acquires
	raise                         // raises the last numbers
	look                          // reads the numbers after a vote that raised too few
)

// maxVote is the most acquires of one vote. With many more it costs no less, and more of them lose
// their vote with one whose number is too low.
const maxVote = 8

// FenceTooLowError is the vote of a node that knows a number that is not below the fence. It says
// nothing about a holder.
type FenceTooLowError struct {
	Seen int64 // the highest number there, or that of the attempt itself
}

// Error returns the number that was in the way.
func (e *FenceTooLowError) Error() string {
	if e.Seen >= ids.MaxFence {
		return fmt.Sprintf("a fence of %d was granted before, and there is none above it: the "+
			"key can't be taken with fencing until the nodes forget it", e.Seen)
	}
	return fmt.Sprintf("a fence of %d was granted before, which is not below that of this attempt",
		e.Seen)
}

// addFences adds the commands that raise numbers.
func (e *Encoding) addFences() {
	for rest := e.fenced; len(rest) > 0; {
		n := 0
		e.taken = e.taken[:0]
		isTaken := func(m uint16) bool { return slices.Contains(e.taken, m) }
		for alone := false; n < min(len(rest), maxVote) && !alone; n++ {
			o := rest[n].op
			alone = e.group.low.HasAny(o.Keys.All(), o.Sent)
			members := o.Keys.Fence().Members
			if n > 0 && (alone || slices.ContainsFunc(members, isTaken)) {
				break
			}
			e.taken = append(e.taken, members...)
		}
		e.addFence(vote, rest[:n])
		rest = rest[n:]
	}
	for i, s := range e.fenced {
		if f := s.op.Keys.Fence(); f.Numbers[0] != f.Numbers[1] {
			e.addFence(raise, e.fenced[i:i+1])
		}
	}
	for i := range e.raised {
		e.addFence(raise, e.raised[i:i+1])
	}
}

// addFence adds a command about the members of these operations.
func (e *Encoding) addFence(what fenceCommand, of []single) {
	c := command{fences: what, singles: of}
	e.commands = append(e.commands, c)
	set := of[0].op.Keys.Prefix() + ids.FencesKey
	if what == look {
		e.header(4 + c.members())
		e.texts("EVALSHA", script.Fences.SHA, "1")
		e.keys([]string{set})
	} else {
		e.header(4 + 2*c.members())
		e.texts("ZADD")
		e.keys([]string{set})
		e.texts("GT", "CH")
	}
	for _, s := range of {
		f := s.op.Keys.Fence()
		for _, m := range f.Members {
			if what != look {
				e.number(f.Numbers[what-vote])
			}
			e.number(int64(m))
		}
	}
}

// number adds a number to a command.
func (e *Encoding) number(n int64) {
	var memory [20]byte
	text := strconv.AppendInt(memory[:0], n, 10)
	e.bytes = append(resp.AppendHeader(e.bytes, '$', len(text)), text...)
	e.bytes = append(e.bytes, "\r\n"...)
}

// readFences takes the reply to a command about fences.
func (f *Flush) readFences(p *command, offset int, r *resp.Reply) {
	switch {
	case p.fences == look && r.Kind == '*':
		f.readLook(p, offset, r.Ints)
	case p.fences == look || r.Kind != ':':
		bad := resp.ProtocolError("ZADD replied with no number, or fences with no list")
		f.fail(p, offset, Answer{Replied: true, Err: bad})
	case p.fences == vote && int(r.Int) != p.members():
		f.failFences(p, offset)
	}
}

// members returns how many members the operations of a command have.
func (p *command) members() (n int) {
	for _, s := range p.singles {
		n += len(s.op.Keys.Fence().Members)
	}
	return n
}

// failFences takes a vote that has raised too few members.
func (f *Flush) failFences(p *command, offset int) {
	for _, s := range p.singles {
		seen := s.op.Keys.Fence().Numbers[0]
		f.failFenced(offset+s.index, Answer{Replied: true, Err: &FenceTooLowError{seen}})
		if !f.lastTry {
			f.tooLow = append(f.tooLow, single{s.op, offset + s.index})
		}
	}
}

// failFenced gives an operation the answer of a command about its fence. If the command that takes
// the keys has granted them, they are on the node.
func (f *Flush) failFenced(at int, r Answer) {
	before := &f.Answers[at]
	if before.Vote != Granted {
		before.Broken = before.Broken || r.Broken
		return
	}
	r.LeftNothing = false
	*before = r
}

// readLook takes the numbers of a look.
func (f *Flush) readLook(p *command, offset int, numbers []int64) {
	if len(numbers) != p.members() {
		return
	}
	for _, s := range p.singles {
		n := len(s.op.Keys.Fence().Members)
		var low *FenceTooLowError
		if err := f.Answers[offset+s.index].Err; errors.As(err, &low) {
			if seen := slices.Max(numbers[:n]); seen > low.Seen {
				low.Seen = seen
				f.node.group.low.Add(s.op.Keys.All()[0], time.Now())
			}
		}
		numbers = numbers[n:]
	}
}
