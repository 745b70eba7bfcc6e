package node

import (
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/refusals"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
)

// maxTogether is the most acquires of one key that one MSETEX has. More would hardly save anything,
// and if one key is held, all of them are sent once more.
const maxTogether = 16

// together has the acquires of an encoding that are for MSETEX, which takes all its keys or none:
// single keys together, and each set by itself. It costs the server about two thirds of SET or of
// the script. But it does not say which key is held. Then its acquires are sent once more, alone.
// So keys that were refused lately are left out: each would cost all others a second trip.
//
// No key is in two of the acquires: MSETEX NX would set it twice, and grant both.
type together struct {
	singles []single // of one key each, all with the same TTL
	sets    []single // of several keys
	keys    map[string]struct{}
}

func (t *together) reset() {
	clear(t.singles)
	clear(t.sets)
	t.singles, t.sets = t.singles[:0], t.sets[:0]
	clear(t.keys)
}

// add takes an acquire without a fence, if its keys are probably free: they are not among those
// that were refused. It returns false if the acquire is to have commands of its own.
func (t *together) add(i int, o *Op, refused *refusals.Keys) bool {
	keys := o.Keys.All()
	if len(keys) > script.MaxKeys || refused.HasAny(keys, o.Sent) {
		return false
	}
	if t.keys == nil {
		t.keys = make(map[string]struct{})
	}
	before := len(t.keys)
	for _, key := range keys {
		t.keys[key] = struct{}{}
	}
	switch {
	case len(t.keys) != before+len(keys):
		return false
	case len(keys) > 1:
		t.sets = append(t.sets, single{o, i})
	case len(t.singles) > 0 && t.singles[0].op.TTL != o.TTL:
		return false
	default:
		t.singles = append(t.singles, single{o, i})
	}
	return true
}

// addTogether makes a command of each set, and of every maxTogether single keys.
func (e *Encoding) addTogether() {
	for rest := e.together.singles; len(rest) > 0; {
		n := min(len(rest), maxTogether)
		e.addMSETEX(rest[:n])
		rest = rest[n:]
	}
	for i := range e.together.sets {
		e.addMSETEX(e.together.sets[i : i+1])
	}
}

// addMSETEX adds the command that takes the keys of all these acquires, or none.
func (e *Encoding) addMSETEX(acquires []single) {
	if len(acquires) == 1 && acquires[0].op.Keys.Len() == 1 {
		e.addSET(acquires)
		return
	}
	count := 0
	for _, s := range acquires {
		count += s.op.Keys.Len()
	}
	e.commands = append(e.commands, command{newer: link.MSETEX, singles: acquires})
	e.header(2 + 2*count + 3)
	e.texts("MSETEX", strconv.Itoa(count))
	for _, s := range acquires {
		for _, key := range s.op.Keys.All() {
			e.keys([]string{key})
			e.value(s.op.Keys.Token())
		}
	}
	e.texts("NX", "PX", acquires[0].op.TTL)
}

// noteRefused remembers a key that the server says is held, if it matters for its commands.
func (f *Flush) noteRefused(at, key int) {
	if o := f.Ops[at].Op(); o.Kind == Acquire && f.set&link.MSETEX != 0 {
		f.node.group.refused.Add(o.Keys.All()[key], time.Now())
	}
}

// addDELIFEQ adds the release of one key.
func (e *Encoding) addDELIFEQ(release []single) {
	c := release[0].op.Keys
	e.commands = append(e.commands, command{newer: link.DELIFEQ, singles: release})
	e.header(3)
	e.texts("DELIFEQ")
	e.keys(c.All()[:1])
	e.value(c.Token())
}

// errBadNewerReply is the error of a reply that is neither of the two that the newer commands have.
const errBadNewerReply = resp.ProtocolError("MSETEX or DELIFEQ replied with neither 0 nor 1")

// readNewer takes the reply to a newer command. To MSETEX, 0 says that it has set nothing, because
// some key is held. To DELIFEQ it says that the key is not ours.
func (f *Flush) readNewer(p *command, offset int, r *resp.Reply) {
	switch {
	case r.Kind != ':' || r.Int != 0 && r.Int != 1:
		f.fail(p, offset, Answer{Replied: true, Err: errBadNewerReply})
	case p.newer == link.MSETEX && r.Int == 0:
		f.sendAlone(p, offset)
	case r.Int == 0:
		f.Answers[offset+p.singles[0].index] = gone
	}
}

// gone is the answer to a release of keys that the node did not have for its token.
var gone = Answer{Vote: Refused, LeftNothing: true, Replied: true, KeyIndex: -1}

// readNewerError takes an error that the server answered to a newer command, if it is no failure.
// A key of another type is not ours. If the user may not use the command, or not with one of its
// keys, each operation is sent once more without it, and the connection uses it no more. So one
// caller's forbidden key neither fails the others, nor costs each of their rounds a second trip.
func (f *Flush) readNewerError(p *command, offset int, text string) (handled bool) {
	code, _, _ := strings.Cut(text, " ")
	switch {
	case p.newer == link.DELIFEQ && code == "WRONGTYPE":
		f.Answers[offset+p.singles[0].index] = gone
		return true
	case p.newer != 0 && code == "NOPERM":
		f.conn.Forbid(p.newer)
		f.sendAlone(p, offset)
		return true
	}
	return false
}

// sendAlone has each operation of a command that has done nothing sent once more, in commands of
// its own that every server has. So what the server says then is of that operation: a key that is
// forbidden has no third try.
func (f *Flush) sendAlone(p *command, offset int) {
	for _, s := range p.singles {
		f.again = append(f.again, offset+s.index)
	}
	if p.call != nil {
		for _, at := range p.call.Owners {
			f.again = append(f.again, offset+at)
		}
	}
}
