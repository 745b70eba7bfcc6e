package link

import "github.com/lockpipe/lockpipe/internal/resp"

// CommandSet says which commands of newer servers a connection can use, as bits. All else is SET NX
// PX and the scripts, which every server has.
type CommandSet uint32

// The commands of newer servers.
const (
	// MSETEX NX PX takes several keys, all or none. Valkey has it since 9.1, and Redis since 8.4.
	MSETEX CommandSet = 1 << iota
	// DELIFEQ deletes one key if it has this value, for less than the script. Valkey has it since
	// 9.0.
	DELIFEQ
	// Tagged: keys begin with the node's tag. It is no command, but makes other bytes of all.
	Tagged
	// CommandSets is how many sets there are.
	CommandSets = 1 << iota
)

// Commands returns what the connection can use now. c may be nil.
func (c *Conn) Commands() CommandSet {
	if c == nil {
		return 0
	}
	return CommandSet(c.commands.Load())
}

// Allow has the connection use some commands. Only the handshake may call it.
func (c *Conn) Allow(commands CommandSet) { c.commands.Or(uint32(commands)) }

// Forbid has the connection use some commands no more.
func (c *Conn) Forbid(commands CommandSet) { c.commands.And(^uint32(commands)) }

// findCommands asks which of the commands the server has and the user may use. The questions write
// nothing: with XX, MSETEX sets only keys that exist, and this one does not. A server without the
// command, or whose user may not use it, answers with an error.
func (c *Conn) findCommands(none string) (steps []resp.Step) {
	ask := func(found CommandSet, command ...string) {
		steps = append(steps, resp.Step{Command: command, OnReply: func(v resp.Value) error {
			if v.Kind == ':' && v.Text == "0" {
				c.Allow(found)
			}
			return nil
		}})
	}
	ask(MSETEX, "MSETEX", "1", none, "none", "XX", "PX", "1")
	ask(DELIFEQ, "DELIFEQ", none, "none")
	return steps
}
