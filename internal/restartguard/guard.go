package restartguard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/servers"
)

var (
	errReplica = errors.New("READONLY: it is a replica of another server; the nodes have to be " +
		"independent masters")
	errNamedReplica = errors.New("READONLY: the sentinels name it as the master, and it is a " +
		"replica: a failover may be under way")
)

// Guard decides for one node whether a connection may be used. The goroutine that connects the node
// owns it, and lends it to Admit. Any goroutine may call Servers.
type Guard struct {
	config  Config
	peers   *Peers
	history nodeHistory
	// answered: some server has answered a handshake.
	answered bool
	warned   bool // that the node can't be guarded
}

// Server is an admitted server.
type Server struct {
	// RunID is what the marker is from now on; "" if the node is not guarded.
	RunID string
	// Durable: what the server has answered outlives its restart.
	Durable bool
	// Since is when the node got this server, if it may have been another node's before; else zero.
	Since time.Time

	memoryID string // see serverInfo
}

// Admit makes the handshake on a new connection, before anything else can use it. setup is what
// the client does there first. It goes out with the guard's first questions. The error is why the
// connection must not be used: a *Quarantine, a *servers.SameServerError, ctx's error if it ended,
// or what the server did. conn is closed if ctx ends. It has to be comparable. When it is closed,
// Servers().Closed is to be called, whatever Admit returns.
func (g *Guard) Admit(ctx context.Context, conn net.Conn, setup []resp.Step) (Server, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	server, err := g.examine(ctx, conn, setup)
	if !stop() {
		return Server{}, ctx.Err()
	}
	return server, err
}

// examine is Admit, as long as ctx lasts.
func (g *Guard) examine(ctx context.Context, conn net.Conn, setup []resp.Step) (Server, error) {
	c := resp.NewConn(conn)
	s, err := g.introduce(c, setup)
	g.answered = g.answered || err == nil
	if !s.allowsFirstUse() {
		g.peers.firstUse.ruleOut()
	}
	if err != nil {
		return Server{}, err
	}
	since, previousID, err := g.peers.servers.Take(s.runID, g.config.Node, conn)
	switch {
	case err != nil:
		return Server{}, err
	case g.config.Marker == "":
		return Server{Since: since}, nil
	case s.runID == "":
		if err := g.withoutRunID(s.infoErr); err != nil {
			return Server{}, err
		}
		return Server{Since: since}, g.onAdmit(c, conn)
	case s.replica:
		g.history.replicaRunID = s.runID
		if g.config.Replicated {
			return Server{}, errNamedReplica
		}
		return Server{}, errReplica
	}
	g.suspectReplicas(&s)
	d, err := g.decideWithPeers(ctx, c, &s)
	switch {
	case err != nil:
		return Server{}, err
	case !d.admit:
		g.peers.servers.Outlasts(conn)
		return Server{}, &Quarantine{Until: d.until, Reason: d.reason}
	}
	if err := g.complete(c, &s, d, previousID); err != nil {
		return Server{}, err
	}
	g.peers.servers.Admitted(conn, s.clientID)
	if err := g.onAdmit(c, conn); err != nil {
		return Server{}, err
	}
	return Server{RunID: s.runID, Durable: s.durable, Since: since, memoryID: s.memoryID}, nil
}

// introduce does the setup and asks the server what it is.
func (g *Guard) introduce(c *resp.Conn, setup []resp.Step) (serverInfo, error) {
	s, steps := unknownServer(), setup
	if marker := g.config.Marker; marker != "" {
		// The generations behind the marker: what was written for a new one is no fall.
		steps = append(append(steps, s.steps(marker)...), s.generationsStep(g.config.Generations))
	} else { // the run_id is of use, if it is shown
		steps = append(steps, resp.Step{
			Command: []string{"INFO", "server"},
			OnReply: func(v resp.Value) error {
				_ = s.readServer(v)
				return nil
			},
		})
	}
	s.uptimeAskedAt = time.Now()
	s.markerAskedAt = s.uptimeAskedAt
	err := c.Do(steps...)
	if s.unfit != nil { // which explains all other errors
		err = s.unfit
	}
	if err != nil {
		s.marker = "" // behind an error it may be that of another database
	}
	return s, err
}

// withoutRunID returns why a server without a run_id is not admitted; nil if it is. It can't be
// told from one that restarted.
func (g *Guard) withoutRunID(why error) error {
	switch {
	case g.history.runID != "":
		return fmt.Errorf("it does not show a run_id any more: %w", why)
	case g.config.Strict:
		return fmt.Errorf("its restarts can't be noticed (%w), and GuardStrict admits no such "+
			"server", why)
	}
	if !g.warned {
		g.warned = true
		g.config.Logger.Warn("lockpipe: node has no restart guard: a restart may let two callers "+
			"hold the same lock",
			slog.String("node", g.config.Name), slog.Any("error", why))
	}
	g.peers.firstUse.addUnguarded(g.config.Node)
	return nil
}

// suspectReplicas trusts no memory of a master with replicas, if another server may have voted
// since. Its own marker shows then that it lost nothing, and not that it has all locks.
func (g *Guard) suspectReplicas(s *serverInfo) {
	if !g.config.Replicated {
		return
	}
	// Neither its disk nor its age says what a replica has granted.
	s.aofRewritten, s.uptime = true, -1
	if before := g.history.runID; before == "" || before == s.runID {
		return
	}
	g.history.replicaRunID = s.runID
}

// complete writes what an admission needs, and records it. previousID is this client's former
// connection to the server: what a stopped server has not read from it must not take effect behind
// the releases on the new one, so the server ends it.
func (g *Guard) complete(c *resp.Conn, s *serverInfo, d decision, previousID string) error {
	var steps []resp.Step
	shownID := s.own.id
	if previousID != "" {
		steps = append(steps, resp.Step{Command: []string{"CLIENT", "KILL", "ID", previousID}})
	}
	if d.writeMarker {
		generations := ""
		if !d.keptMemory {
			generations = s.newGenerations(g.peers.generations.except(g.config.Node))
		}
		// Another client may have admitted the server at the same moment, so what is kept now is
		// read again.
		steps = append(steps, g.writeMarker(s, generations),
			s.generationsStep(g.config.Generations))
	}
	if err := c.Do(steps...); err != nil {
		return err
	}
	if shownID != s.own.id {
		g.peers.generations.end(g.config.Node, shownID)
	}
	g.peers.generations.confirm(g.config.Node, s.runID, s.own)
	g.peers.generations.hear(g.config.Node, s.others, s.markerAskedAt)
	g.peers.firstUse.ruleOut()
	g.history = g.history.afterAdmission()
	return nil
}

// onAdmit lets the client's own check of the server have the last word.
func (g *Guard) onAdmit(c *resp.Conn, conn net.Conn) error {
	if g.config.OnAdmit == nil {
		return nil
	}
	err := g.config.OnAdmit(c)
	var q *Quarantine
	if errors.As(err, &q) {
		g.peers.servers.Outlasts(conn)
	}
	return err
}

// Answered reports whether a server has answered a whole handshake, now or earlier.
func (g *Guard) Answered() bool { return g.answered }

// Marker returns the marker's key; "" if the guard is off.
func (g *Guard) Marker() string { return g.config.Marker }

// Servers returns which server is which node's. Any goroutine may use it.
func (g *Guard) Servers() *servers.Group { return g.peers.servers }

// ServerLeft records that the server was there until now, and its connection has ended.
func (g *Guard) ServerLeft() { g.history.lastSeen = time.Now() }

// ServerIsReplica records that the admitted server answered as a replica.
func (g *Guard) ServerIsReplica() { g.history.replicaRunID = g.history.runID }

// NodeDown records that no server of the node can be used, and not for a quarantine.
func (g *Guard) NodeDown() {
	g.peers.servers.GiveUp(g.config.Node)
	g.peers.firstUse.setDown(g.config.Node)
}
