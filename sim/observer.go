package sim

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/sim/simrand"
)

// looks are the commands of programs that only look.
var looks = []string{
	"ACL", "AUTH", "CLIENT", "CLUSTER", "CONFIG", "GET", "HELLO", "HGETALL", "INFO", "PING", "PTTL",
	"ROLE", "SELECT", "TIME",
}

// observe looks at the nodes now and then, without a client, until the run ends.
func (r *run) observe(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 11))
	for r.plan.observes && r.sleep(around(rng, 2*time.Second)) {
		r.inspect(time.Second)
		r.lookByClients(false)
	}
}

// lookByClients lets all clients look at keys and nodes. If they inspect nodes too, that makes
// connections that faults would take for those that vote.
func (r *run) lookByClients(inspects bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, p := range r.processes {
		c := p.currentClient()
		c.Nodes()
		_, _ = c.Peek(ctx, []string{"k0", "k1"})
		if inspects {
			_, _ = c.Inspect(ctx)
		}
	}
}

// inspect looks at the nodes as a program that has no client.
func (r *run) inspect(timeout time.Duration) {
	var links []*link
	never := &atomicTime{}
	for i, n := range r.nodes {
		seed := simrand.Hash(r.seed, 3, uint64(i))
		l := newLink(seed, r.plan, n, never, r.frozenUntil[i])
		l.server, l.onSend = r.serving[i], r.checkLook
		links = append(links, l)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cfg := lockpipe.Config{
		Prefix: prefix, Nodes: r.entries, MaxTTL: r.plan.clientMaxTTL,
		TTL: r.plan.clientMaxTTL, RestartGuard: r.plan.guard,
		Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			return links[slices.Index(r.addresses, address)].dial(ctx, 0)
		},
	}
	_, _ = lockpipe.Inspect(ctx, cfg)
}

// checkLook looks at what is sent by a program that only looks.
func (r *run) checkLook(data []byte) {
	commands := resptest.NewReader(bytes.NewReader(data))
	for {
		args, err := resptest.ReadCommand(commands)
		if err != nil {
			return
		}
		if !slices.Contains(looks, args[0]) {
			r.history.violation("a look sends %q", args)
		}
	}
}

// expectNoChange wants that do leaves the guard's keys and the layouts as they are.
func (r *run) expectNoChange(who string, do func()) {
	if !r.plan.observes {
		return
	}
	before := r.ownKeys(who == "Inspect")
	waits := func(text string) bool { return strings.Contains(text, ":") }
	if who == "clients" && slices.ContainsFunc(before, waits) {
		return // a wait may end meanwhile, and the clients' handshakes write then
	}
	do()
	if after := r.ownKeys(who == "Inspect"); !slices.Equal(before, after) {
		r.history.violation("a look by %s changes %v to %v", who, before, after)
	}
}

// ownKeys returns the guard's keys. With layouts, which clients renew, it returns these too.
func (r *run) ownKeys(layouts bool) (all []string) {
	for i := range r.history.voters {
		text, _ := r.guardKey(i)
		all = append(all, text)
		if layouts && r.cluster == nil {
			text, until := r.server(i).KeyUntil(prefix + ids.LayoutsKey)
			all = append(all, fmt.Sprint(text, until))
		}
	}
	return all
}
