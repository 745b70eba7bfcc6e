package restartguard

import (
	"context"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe/script"
)

// Commands sends the guard's commands over the connection to an admitted server.
type Commands interface {
	// Get asks for the values of keys at once.
	Get(ctx context.Context, keys ...string) []Value
	// Run runs a script and returns the number that it replies. It loads the script if the server
	// does not have it.
	Run(ctx context.Context, s *script.Script, keys, args []string) (int64, error)
}

// Value is the value of a key, "" if there is none.
type Value struct {
	Text string
	Err  error // why it is not known
}

// kept is what a node keeps.
type kept struct {
	own    generation
	others map[string]int64
}

// Renew raises the node's generation, if it is durable, and has it keep those of the others. If the
// marker is not the server's any more, or the generation has fallen, the node has lost something,
// or another client knows of that. Then intact is false, and the connection is to be given up. It
// writes only if there is something to write: of many clients one raises the number. After an error
// nothing is known.
func (g *Guard) Renew(ctx context.Context, server Server, c Commands) (intact bool, err error) {
	generations, node := g.peers.generations, g.config.Node
	askedAt := time.Now()
	k, intact, err := g.kept(ctx, server, c)
	if err != nil || !intact {
		return false, err
	}
	if g.needsRenewal(server, k) {
		result, err := c.Run(ctx, script.Renew, []string{g.config.Marker, g.config.Generations},
			g.renewal(server))
		if err != nil || result != 1 {
			return false, err
		}
		if k, intact, err = g.kept(ctx, server, c); err != nil || !intact {
			return false, err
		}
	}
	generations.confirm(node, server.RunID, k.own)
	generations.hear(node, k.others, askedAt)
	return true, nil
}

// kept asks what the node keeps, and whether its marker is still the server's.
func (g *Guard) kept(ctx context.Context, server Server, c Commands) (k kept, intact bool,
	err error,
) {
	values := c.Get(ctx, g.config.Marker, g.config.Generations)
	marker, text := values[0], values[1]
	if marker.Err != nil || marker.Text != server.RunID {
		return k, false, marker.Err
	}
	k.own, k.others = parseGenerations(text.Text)
	return k, true, text.Err
}

// needsRenewal reports whether there is something to write: the node's number is to rise or has
// fallen, or it keeps less of another node than this client knows.
func (g *Guard) needsRenewal(server Server, k kept) bool {
	known := g.peers.generations.own(g.config.Node)
	if server.Durable && (k.own.id == "" || k.own.id == known.id && k.own.number <= known.number) {
		return true
	}
	for _, other := range g.peers.generations.except(g.config.Node) {
		number, has := k.others[other.id]
		if other.id != k.own.id && (!has || number < other.number) {
			return true
		}
	}
	return false
}

// renewal returns the arguments of script.Renew.
func (g *Guard) renewal(server Server) []string {
	known, fresh := g.peers.generations.own(g.config.Node), ""
	if server.Durable {
		fresh = newGenerationID()
	}
	loss := lossRecord{
		prefix: lossPrefix, lasts: g.config.MaxTTL + recordOutlasts, memoryID: server.memoryID,
	}
	args := []string{
		server.RunID, known.id, strconv.FormatInt(known.number, 10), fresh,
		loss.text(), loss.expiry(),
	}
	for _, other := range g.peers.generations.except(g.config.Node) {
		args = append(args, other.id, strconv.FormatInt(other.number, 10))
	}
	return args
}
