package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe/internal/fleet"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
)

const (
	// maxWrites is how often one handshake writes the key, at most.
	maxWrites = 10
	// maxLeft is how many former memories of a node are remembered.
	maxLeft = 16
)

var (
	errReplica = errors.New("READONLY: it is a replica of another server; the nodes have to be " +
		"independent masters")
	errNamedReplica = errors.New("READONLY: it is named as the master, and it is a replica: a " +
		"failover may be under way")
)

// Config describes one node to its Guard.
type Config struct {
	// Node is the node's number, and Name its address in the log.
	Node int
	Name string
	// Key is the guard's key. Without it the guard is off: then every server is admitted.
	Key string
	// Strict: there is no first use, and a server without a run_id is refused.
	Strict bool
	// Extra is how much longer than MaxTTL the node waits: not 0 if others name its master.
	Extra time.Duration
	// InCluster: the node is a slot of a Redis Cluster.
	InCluster bool
	// Layouts is the node in the client's fleet. The guard leaves the client's layout entry on a
	// server before it may vote.
	Layouts *fleet.Node
	Logger  *slog.Logger
}

// Guard decides for one node whether a connection may be used. The goroutine that connects the node
// owns it, and lends it to Admit.
type Guard struct {
	config Config
	peers  *Peers

	answered bool // some server has answered a handshake
	warned   bool // that the node can't be guarded

	memory   string   // that the node had last
	left     []string // memories that it had before, oldest first
	returned bool     // it has one of these again, and no record of that yet
	sawKey   bool     // it had a name, or a record that is no new one
	reason   string   // of its quarantine
	waits    waiting
	server   Server // that was admitted last
}

// waiting is the record that a node has.
type waiting struct {
	nonce string
	since time.Time     // when the client saw it first
	age   time.Duration // then
	over  time.Time     // when the client saw first that it is old enough; zero: not yet
}

// Server is an admitted server.
type Server struct {
	RunID string // "" if it does not show one
	// Memory is what the guard's key is; "" if the node is not guarded.
	Memory   string
	clientID string // the server's number of the connection
}

// HasMemory reports whether a server that shows this in INFO replication is a master, and has the
// memory that Memory names.
func (s Server) HasMemory(info string) bool {
	now := server{runID: s.RunID}
	return now.readReplication(resp.Value{Kind: '$', Text: info}) == nil && !now.replica &&
		now.owns(s.Memory)
}

// Guard returns the guard of one node. All guards are made before one of them is used.
func (p *Peers) Guard(c Config) *Guard {
	g := &Guard{config: c, peers: p}
	p.guards[c.Node] = g
	if c.Strict {
		p.first.stage = over
	}
	return g
}

// Admit makes the handshake on a new connection, before anything else can use it. setup is what
// the client does there first. It goes out with the guard's first questions. The error is why the
// connection must not be used: a *Quarantine, ctx's error if it ended, or what the server did. conn
// is closed if ctx ends.
func (g *Guard) Admit(ctx context.Context, conn net.Conn, setup []resp.Step) (Server, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	server, err := g.examine(ctx, resp.NewConn(conn), setup)
	if !stop() {
		return Server{}, ctx.Err()
	}
	return server, err
}

// examine is Admit, as long as ctx lasts.
func (g *Guard) examine(ctx context.Context, c *resp.Conn, setup []resp.Step) (Server, error) {
	s, err := g.introduce(c, setup)
	g.answered = g.answered || err == nil
	guarded := g.config.Key != "" && s.server.runID != ""
	switch {
	case s.server.replica && g.config.Extra > 0: // which explains all other errors
		return Server{}, errNamedReplica
	case s.server.replica:
		return Server{}, errReplica
	case err != nil:
		return Server{}, err
	case g.config.Key != "" && !guarded:
		if err := g.withoutRunID(s.server.infoErr); err != nil {
			return Server{}, err
		}
	}
	if guarded {
		g.meet(&s)
	}
	if err := g.config.Layouts.Admit(c, s.server.runID); err != nil {
		return Server{}, err
	}
	admitted := Server{RunID: s.server.runID, clientID: s.server.clientID}
	if guarded {
		if err := g.settle(ctx, c, &s); err != nil {
			return Server{}, err
		}
		admitted.Memory = s.text
	}
	return admitted, g.endFormer(c, admitted)
}

// introduce does the setup, asks the server what it is, and reads the key.
func (g *Guard) introduce(c *resp.Conn, setup []resp.Step) (s sight, err error) {
	steps := slices.Concat(setup, s.server.steps())
	if g.config.Key != "" {
		steps = append(steps, g.read(&s)...)
	} else { // the run_id is of use, if it is shown
		steps[len(steps)-2].OnReply = func(v resp.Value) error {
			_ = s.server.readServer(v)
			return nil
		}
	}
	err = c.Do(steps...)
	if s.server.unfit == ErrInCluster && g.config.InCluster {
		s.server.unfit = nil
	}
	if s.server.unfit != nil { // which explains all other errors
		err = s.server.unfit
	}
	return s, err
}

// read reads the key, and then for how long it lasts: if another client replaces it in between, it
// looks younger.
func (g *Guard) read(s *sight) []resp.Step {
	s.at = time.Now()
	text := func(v resp.Value) error {
		s.text, _ = v.AsString()
		if err := v.Err(); err != nil {
			return fmt.Errorf("the restart guard's key %q can't be read: %w", g.config.Key, err)
		}
		return nil
	}
	left := func(v resp.Value) error {
		ms, _ := strconv.ParseInt(v.Text, 10, 64) // after an error it counts as without an end
		s.left = time.Duration(ms) * time.Millisecond
		return nil
	}
	return []resp.Step{
		{Command: []string{"GET", g.config.Key}, OnReply: text},
		{Command: []string{"PTTL", g.config.Key}, OnReply: left},
	}
}

// withoutRunID returns why a server without a run_id is not admitted; nil if it is. It can't be
// told from one that restarted.
func (g *Guard) withoutRunID(why error) error {
	switch {
	case g.memory != "":
		return fmt.Errorf("it does not show a run_id any more: %w", why)
	case g.config.Strict:
		return fmt.Errorf("GuardStrict admits no such server: its restarts go unnoticed: %w", why)
	}
	if !g.warned {
		g.warned = true
		g.config.Logger.Warn("lockpipe: node has no restart guard: a restart may let two callers "+
			"hold the same lock",
			slog.String("node", g.config.Name), slog.Any("error", why))
	}
	g.peers.mu.Lock()
	defer g.peers.mu.Unlock()
	g.peers.first.without(g.config.Node, time.Now())
	return nil
}

// settle does what the rules say until the server votes. The error is a *Quarantine if it does not
// yet.
func (g *Guard) settle(ctx context.Context, c *resp.Conn, s *sight) error {
	until, pause := time.Now().Add(firstUseTimeout), lookAgain
	if end, ok := ctx.Deadline(); ok && end.Before(until.Add(firstUseTimeout)) {
		until = time.Now().Add(time.Until(end) / 2) // what comes behind it needs time as well
	}
	for writes := 0; ; {
		d, looksAgain := g.decide(s)
		switch {
		case d.action == vote:
			g.reason = ""
			return nil
		case d.action == wait && looksAgain && time.Now().Before(until):
			Sleep(ctx, pause)
			pause = pause * 5 / 4
			if err := g.config.Layouts.Admit(c, s.server.runID); err != nil {
				return err
			}
			if err := c.Do(g.read(s)...); err != nil {
				return err
			}
			continue
		case d.action == wait:
			return g.quarantine(d)
		}
		if writes++; writes > maxWrites {
			return fmt.Errorf("the restart guard's key %q changes all the time", g.config.Key)
		}
		if err := g.write(c, s, d); err != nil {
			return err
		}
	}
}

// meet notes which memory the node has now: see rule e.
func (g *Guard) meet(s *sight) {
	before := g.memory
	if before != "" && !s.server.owns(before) {
		g.sawKey = g.sawKey || g.config.Extra > 0 // the other server was used, maybe by others
		g.left = append(g.left, before)
		g.left = g.left[max(0, len(g.left)-maxLeft):]
		if i := slices.IndexFunc(g.left, s.server.owns); i >= 0 {
			g.left, g.returned = slices.Delete(g.left, i, i+1), true
			if !g.config.InCluster { // a slot may come back
				g.config.Logger.Error("lockpipe: node's name leads to more than one server, so locks "+
					"may fail to exclude each other: give each server a name of its own",
					slog.String("node", g.config.Name))
			}
		}
	}
	g.memory = s.server.memory
	if _, isRecord := parse(s.text); s.text != "" && !isRecord && !plain(s.text) {
		g.config.Logger.Warn("lockpipe: node has a foreign value in the restart guard's key",
			slog.String("node", g.config.Name), slog.String("key", g.config.Key))
	}
	if g.reason == "" || before != g.memory {
		g.reason = g.reasonFor(s, before)
	}
}

// decide decides by what the node shows and what the client knows. looksAgain: it may be the first
// use, of this client or of another one; or the wait is over, and others are just being heard.
func (g *Guard) decide(s *sight) (d decision, looksAgain bool) {
	p, node, now := g.peers, g.config.Node, time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	r, isRecord := parse(s.text)
	if s.text != "" && (!isRecord || r.kind == isLost) {
		if g.sawKey = true; p.knows.IsZero() {
			p.knows = now
		}
		p.first.ruleOut(node, now)
	}
	if isRecord && g.waits.nonce != r.nonce {
		g.waits = waiting{nonce: r.nonce, since: now, age: age(s.left)}
	}
	d = decide(s, &known{
		returned: g.returned,
		lost: g.config.Strict || g.sawKey ||
			!p.knows.IsZero() && now.Sub(p.knows) >= halfWritten,
		wait: p.longest(node, g.config.Extra), heard: p.hasHeard(node, g.waits.over, now),
		seenFor: g.waits.age + s.at.Sub(g.waits.since),
	})
	if d.action == wait && d.left == 0 { // W is computed again now
		if g.waits.over.IsZero() {
			g.waits.over = now
		}
		p.askOthers(node)
	}
	if d.action == wait && r.kind == isNew && p.first.look(node, s.text, s.at, now) {
		d = decision{action: admit}
	}
	return d, r.kind == isNew || d.left == 0
}

// quarantine returns why the server does not vote yet.
func (g *Guard) quarantine(d decision) error {
	q := &Quarantine{Until: time.Now().Add(d.left), Reason: g.reason}
	if d.left == 0 {
		q.Reason = reasonSilent
	}
	g.peers.mu.Lock()
	defer g.peers.mu.Unlock()
	if g.peers.first.stage < admits {
		q.Reason = g.peers.first.reason(g.peers.guards)
	}
	return q
}

// write writes the key if it still is what was seen, and reads what it is then.
func (g *Guard) write(c *resp.Conn, s *sight, d decision) error {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	text, lasts, most := d.record.text(), []string{"PX", ms(recordLasts)}, ""
	switch d.action {
	case change:
		lasts = []string{"KEEPTTL", ""}
	case admit:
		text, lasts = s.server.memory, []string{"", ""}
		if d.most > 0 {
			most = ms(d.most)
		}
	}
	wrote := false
	onReply := func(v resp.Value) error {
		wrote = v.Kind == ':' && v.Text == "1"
		if err := v.Err(); err != nil {
			return fmt.Errorf("the restart guard's key %q can't be written: %w", g.config.Key, err)
		}
		return nil
	}
	command := []string{"EVALSHA", script.Guard.SHA, "1", g.config.Key, s.text, text}
	step := resp.Step{Command: append(append(command, lasts...), most), OnReply: onReply}
	if err := c.Do(append([]resp.Step{step}, g.read(s)...)...); err != nil {
		return err
	}
	if wrote && d.action == begin {
		g.returned = false
	}
	return nil
}

// endFormer has the server end this client's former connection to it: what a stopped server has not
// read from it must not take effect behind the releases on the new one.
func (g *Guard) endFormer(c *resp.Conn, admitted Server) error {
	former := g.server
	if former.clientID != "" && former.RunID != "" && former.RunID == admitted.RunID {
		kill := resp.Step{Command: []string{"CLIENT", "KILL", "ID", former.clientID}}
		if err := c.Do(kill); err != nil {
			return err
		}
	}
	g.server = admitted
	return nil
}

// Answered reports whether a server has answered a whole handshake, now or earlier.
func (g *Guard) Answered() bool { return g.answered }

// Left records that the node does not vote any more.
func (g *Guard) Left() {
	g.peers.setUp(g.config.Node, false)
	g.config.Layouts.Left()
}

// Sleep returns after d or when ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}
