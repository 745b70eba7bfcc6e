package multiplex

import (
	"strings"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
)

// usedSets returns the sets for which a round is encoded: those of the nodes that are connected, or
// the empty one. A node that connects later, or whose set has changed by then, encodes the round
// for itself.
func (m *Mux) usedSets() (used [link.CommandSets]bool) {
	connected := false
	for _, n := range m.nodes {
		if set, is := n.newer(); is {
			used[set], connected = true, true
		}
	}
	used[0] = used[0] || !connected
	return used
}

// newerCommands returns the newer commands that the node can use, if it is connected.
func (n *node) newerCommands() (set link.CommandSet, connected bool) {
	return n.link.Current().Commands(), n.link.State().IsConnected()
}

// addDELIFEQ adds the release of one key.
func (e *encoding) addDELIFEQ(release []single) {
	c := release[0].attempt.claim
	e.commands = append(e.commands, command{newer: link.DELIFEQ, attempts: release})
	e.bytes = resp.AppendCommand(e.bytes, "DELIFEQ", c.keys()[0], c.Token())
}

// errBadNewerReply is the error of a reply that is neither of the two that the newer commands have.
const errBadNewerReply = resp.ProtocolError("MSETEX or DELIFEQ replied with neither 0 nor 1")

// readNewer takes the reply to a newer command. To MSETEX, 0 says that it has set nothing, because
// some key is held. To DELIFEQ it says that the key is not ours, which is as good as deleted.
func (f *flush) readNewer(p *command, offset int, r *resp.Reply) {
	switch {
	case r.Kind != resp.KindInteger || r.Int != 0 && r.Int != 1:
		f.fail(p, offset, answer{replied: true, err: errBadNewerReply})
	case p.newer == link.MSETEX && r.Int == 0:
		f.retryAlone(p, offset)
	}
}

// readNewerError takes an error that the server answered to a newer command, if it is no failure.
// A key of another type is not ours. If the user may not use the command, or not with one of its
// keys, each attempt is sent once more without it, and the connection uses it no more. So one
// caller's forbidden key neither fails the others, nor costs each of their rounds a second trip.
func (f *flush) readNewerError(p *command, offset int, text string) (handled bool) {
	code, _, _ := strings.Cut(text, " ")
	switch {
	case p.newer == link.DELIFEQ && code == "WRONGTYPE":
		return true
	case p.newer != 0 && code == "NOPERM":
		f.conn.Forbid(p.newer)
		f.retryAlone(p, offset)
		f.again.apart = true // a key that is forbidden has no third try
		return true
	}
	return false
}

// retryAlone has the attempts of a newer command, which has done nothing, sent without it.
func (f *flush) retryAlone(p *command, offset int) {
	for _, s := range p.attempts {
		f.alone = append(f.alone, offset+s.index)
	}
}
