package multiplex

import (
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
	"github.com/redis/rueidis"
)

// deleteCommand is how a server deletes a key that has a given value. All ways replicate and notify
// of the deletion alike. It belongs to a connection and not to a node: behind the same address an
// older server may be next.
type deleteCommand int32

const (
	viaScript  deleteCommand = iota
	viaDELEX                 // Redis from 8.4 on
	viaDELIFEQ               // Valkey from 9.0 on
)

// maxSingleReleases is the most single keys in one flush that are released by a command each. If
// there are more, the script releases them. The sum is that of maxSingleAcquires.
const maxSingleReleases = maxSingleAcquires

// probeDeletes asks which commands the server has and the user may use, with the name of a key that
// is not there. Whatever else it answers, the script will do. If it has both commands, the shorter
// one counts.
func probeDeletes(none string, found func(deleteCommand)) []resp.Step {
	does := func(d deleteCommand) func(resp.Value) error {
		return func(r resp.Value) error {
			if r.Kind == ':' && r.Text == "0" {
				found(d)
			}
			return nil
		}
	}
	return []resp.Step{
		{Command: []string{"DELEX", none, "IFEQ", "none"}, OnReply: does(viaDELEX)},
		{Command: []string{"DELIFEQ", none, "none"}, OnReply: does(viaDELIFEQ)},
	}
}

// build builds the command that deletes a key that has this value.
func (d deleteCommand) build(b rueidis.Builder, key, value string) rueidis.Completed {
	if d == viaDELEX {
		return b.Arbitrary("DELEX").Keys(key).Args("IFEQ", value).Build()
	}
	return b.Arbitrary("DELIFEQ").Keys(key).Args(value).Build()
}

// deleted reports whether the reply says that the key does not have that value any more.
func deleted(r rueidis.RedisResult) bool {
	n, err := r.ToInt64()
	return err == nil && (n == 0 || n == 1)
}

// fallbackCommands appends the releases for which the server's own command was of no use. The
// command is unknown or forbidden meanwhile. Or the key has another type, which is an error for the
// command, and for the script just not the claim's key. Each is sent alone, so that one that fails
// again fails alone.
func fallbackCommands(commands []command, p *script.Plan) []command {
	for _, c := range p.Calls() {
		for _, alone := range c.Split() {
			commands = append(commands, command{script: p.Script(), call: alone})
		}
	}
	return commands
}
