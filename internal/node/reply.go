package node

import (
	"errors"
	"strings"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
)

// inScriptMarker is in the text of errors that came up while a script ran.
const inScriptMarker = "script: "

// classifyError returns the answer that an error of the server stands for.
func classifyError(text string) Answer {
	code, _, _ := strings.Cut(text, " ")
	// Some servers also say NOPERM of a command inside a script, which may have written before.
	nothing := resp.Rejected(code) &&
		(code != "NOPERM" || !strings.Contains(text, inScriptMarker))
	return Answer{LeftNothing: nothing, Replied: true, Err: errors.New(text)}
}

// errBadSetReply is the error of a reply that is neither of the two that SET NX has.
const errBadSetReply = resp.ProtocolError("SET replied with neither OK nor null")

// OnReply takes the reply to one command.
func (f *Flush) OnReply(i int, r resp.Reply) {
	f.replied = i + 1
	if f.reads && i == f.trip.Commands-1 {
		if r.Kind != '$' || string(r.Text) != f.conn.Server.Memory {
			f.conn.Abandon() // so nothing of the trip counts
		}
		return
	}
	p, offset := f.command(i)
	if r.Kind == '-' {
		f.readError(p, offset, strings.TrimPrefix(string(r.Text), "ERR "))
		return
	}
	switch {
	case p.newer != 0:
		f.readNewer(p, offset, &r)
		return
	case p.fences != 0:
		f.readFences(p, offset, &r)
		return
	case p.script == nil && r.Kind == '_':
		at := offset + p.singles[0].index
		f.Answers[at] = Answer{Vote: Refused, LeftNothing: true, Replied: true}
		f.noteRefused(at, 0)
		return
	case p.script == nil:
		if r.Kind != '+' || string(r.Text) != "OK" {
			f.fail(p, offset, Answer{Replied: true, Err: errBadSetReply})
		}
		return
	case p.call == nil:
		return
	}
	numbers := r.Ints
	if r.Kind == ':' {
		numbers = []int64{r.Int}
	}
	refusals, err := script.Decode(numbers, p.call)
	if err != nil {
		f.fail(p, offset, Answer{Replied: true, Err: resp.ProtocolError(err.Error())})
		return
	}
	for _, r := range refusals {
		f.readRefusal(p, offset, r)
	}
}

// readError takes an error of the server.
func (f *Flush) readError(p *command, offset int, text string) {
	switch {
	case f.readNewerError(p, offset, text):
	case p.script != nil && p.call == nil:
		f.loadErr = errors.New(text)
	case !f.lastTry && p.call != nil && (p.noPermission(text) || isNoScript(text)):
		// If one of several callers' keys is forbidden, that must not fail the others.
		f.sendAlone(p, offset)
	default:
		failure := classifyError(text)
		if f.loadErr != nil && isNoScript(text) {
			failure.Err = f.loadErr
		}
		failure.Err = f.node.Link.Hide(failure.Err)
		f.fail(p, offset, failure)
	}
}

// readRefusal takes one set that a script refused.
func (f *Flush) readRefusal(p *command, offset int, r script.Refusal) {
	at := offset + p.call.Owners[r.Set]
	if f.Ops[at].Op().Kind == Release && f.Answers[at].Vote == Unknown {
		return // another part of the keys may still be there
	}
	// If a set fits into one call, nothing of it was taken. Of a larger one other calls may have
	// taken parts.
	nothing := p.script != script.Extend && f.Ops[at].Op().calls() == 1
	key := int32(-1)
	if r.Key != script.Refilled {
		key = int32(p.call.Offset[r.Set] + r.Key)
		f.noteRefused(at, int(key))
	}
	f.Answers[at] = Answer{
		Vote: Refused, LeftNothing: nothing, Replied: true,
		Broken: f.Answers[at].Broken, KeyIndex: key,
	}
}

// fail gives every operation of a command that failed the same answer.
//
// A node that refused a part of a set has refused the set. But a release has to know of each part
// that its keys are gone. If a connection breaks under a part, the node may still do that part,
// whatever happens to the other parts.
func (f *Flush) fail(p *command, offset int, r Answer) {
	if p.call != nil {
		for _, at := range p.call.Owners {
			f.failOne(offset+at, r)
		}
		return
	}
	for _, s := range p.singles {
		switch p.fences {
		case look:
		case 0:
			f.failOne(offset+s.index, r)
		default:
			f.failFenced(offset+s.index, r)
		}
	}
}

// failOne gives one operation the answer of a command that failed.
func (f *Flush) failOne(at int, r Answer) {
	before := &f.Answers[at]
	r.Broken = r.Broken || before.Broken
	if before.Vote == Refused && f.Ops[at].Op().Kind != Release {
		before.Broken = r.Broken
		return
	}
	r.LeftNothing = r.LeftNothing && f.Ops[at].Op().calls() == 1
	*before = r
}

// calls returns how many script calls the operation's keys need.
func (o *Op) calls() int { return (o.Keys.Len() + script.MaxKeys - 1) / script.MaxKeys }

// noPermission reports whether the server refused the call because of one of its keys, before it
// ran the script.
func (p *command) noPermission(text string) bool {
	return len(p.call.Owners) > 1 && strings.HasPrefix(text, "NOPERM") &&
		!strings.Contains(text, inScriptMarker)
}

// isNoScript reports whether an error says that the server does not have the script.
func isNoScript(text string) bool { return strings.HasPrefix(text, "NOSCRIPT") }
