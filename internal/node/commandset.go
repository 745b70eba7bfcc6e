package node

import (
	"strings"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
)

// addDELIFEQ adds the release of one key.
func (e *Encoding) addDELIFEQ(release []single) {
	c := release[0].op.Keys
	e.commands = append(e.commands, command{newer: link.DELIFEQ, singles: release})
	e.header(3)
	e.texts("DELIFEQ", c.All()[0])
	e.value(c.Token())
}

// errBadNewerReply is the error of a reply that is neither of the two that the newer commands have.
const errBadNewerReply = resp.ProtocolError("MSETEX or DELIFEQ replied with neither 0 nor 1")

// readNewer takes the reply to a newer command. To MSETEX, 0 says that it has set nothing, because
// some key is held. To DELIFEQ it says that the key is not ours.
func (f *Flush) readNewer(p *command, offset int, r *resp.Reply) {
	switch {
	case r.Kind != resp.KindInteger || r.Int != 0 && r.Int != 1:
		f.fail(p, offset, Answer{Replied: true, Err: errBadNewerReply})
	case p.newer == link.MSETEX && r.Int == 0:
		f.retryAlone(p, offset)
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
		f.retryAlone(p, offset)
		f.again.apart = true // a key that is forbidden has no third try
		return true
	}
	return false
}

// retryAlone has the operations of a newer command, which has done nothing, sent without it.
func (f *Flush) retryAlone(p *command, offset int) {
	for _, s := range p.singles {
		f.alone = append(f.alone, offset+s.index)
	}
}
