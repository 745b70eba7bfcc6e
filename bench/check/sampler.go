// Package check finds out whether locks are what they must be, without the client that took them:
// whether two callers hold one key, whether held leases live on the nodes, and whether a run left
// keys behind.
package check

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// sampleCallers is how many samples are taken at the same time.
	sampleCallers = 4
	// sampleInterval is the time between two samples of one of them: 200 a second in all.
	sampleInterval = 20 * time.Millisecond
)

// Lease is a lease in the view of its Client.
type Lease interface {
	Key() string
	Token() string
	Err() error // nil while it is held
}

// Samples is what a Sampler found.
type Samples struct {
	// Taken is how many samples were decided.
	Taken uint64
	// Missing is how many of them a quorum of the nodes did not confirm, and FirstMissing what the
	// nodes had of the first of these.
	Missing      uint64
	FirstMissing string
	// Unanswered is how often a node gave no answer to a sample that waited for it.
	Unanswered uint64
}

// Sampler looks up random leases on the nodes while they are held. A lease is missing if fewer than
// a quorum of its group's nodes have its key, with its token and a time to live above 0 and not
// above the TTL, although its Client held it before and after. A node that does not answer in time
// does not have it either.
//
// There is no false alarm while a quorum answers: a lease that is held must live on a quorum at
// every moment in between.
type Sampler struct {
	// set once
	pick    func() Lease
	groupOf func(key string) int
	groups  [][]*nodeProbe

	mu    sync.Mutex // guards found until Run returns
	found Samples
}

// NewSampler returns a Sampler of the leases that pick returns, one at each call. groups has the
// nodes of each group, and groupOf returns the index of a key's group. Several goroutines call pick
// and groupOf. ttl is the longest that a key may have to live. The Sampler waits for a node as long
// as Clients with this nodeTimeout, and a second at least.
func NewSampler(groups [][]Endpoint, groupOf func(key string) int,
	ttl, nodeTimeout time.Duration, pick func() Lease,
) *Sampler {
	patience := max(queryTimeout, nodeTimeout)
	s := &Sampler{pick: pick, groupOf: groupOf}
	for _, nodes := range groups {
		var probes []*nodeProbe
		for _, node := range nodes {
			probes = append(probes, newNodeProbe(node, ttl, patience))
		}
		s.groups = append(s.groups, probes)
	}
	return s
}

// Run takes samples until ctx ends, and returns what it found. Call it once.
func (s *Sampler) Run(ctx context.Context) Samples {
	var working sync.WaitGroup
	for _, p := range slices.Concat(s.groups...) {
		working.Go(func() { p.run(ctx) })
	}
	for range sampleCallers {
		working.Go(func() {
			tick := time.NewTicker(sampleInterval)
			defer tick.Stop()
			for {
				s.sample(ctx, s.pick())
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	working.Wait()
	return s.found
}

// sample looks one lease up on all nodes of its group at once, and waits until they have decided. A
// sample that ctx ended, or whose lease has ended, does not count.
func (s *Sampler) sample(ctx context.Context, lease Lease) {
	if lease.Err() != nil {
		return
	}
	decided := make(chan struct{})
	defer close(decided)
	probes := s.groups[s.groupOf(lease.Key())]
	quorum := len(probes)/2 + 1
	answers := make(chan answer, len(probes))
	q := query{key: lease.Key(), token: lease.Token(), decided: decided, answers: answers}
	for _, p := range probes {
		p.submit(q)
	}
	confirmed, refuted, unanswered := 0, "", uint64(0)
	seen := map[byte]bool{} // characters of nodes: one server has one vote
	for range probes {
		select {
		case a := <-answers:
			switch {
			case a.found == "" && seen[a.char]:
				refuted += fmt.Sprintf("; %s: is the server of another node", a.node)
			case a.found == "":
				confirmed++
				seen[a.char] = a.char != 0
			case !a.answered:
				unanswered++
				fallthrough
			default:
				refuted += fmt.Sprintf("; %s: %s", a.node, a.found)
			}
		case <-ctx.Done():
			return
		}
		if confirmed == quorum {
			break
		}
	}
	lives := confirmed >= quorum
	if ctx.Err() != nil || !lives && lease.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found.Taken++
	s.found.Unanswered += unanswered
	if lives {
		return
	}
	if s.found.Missing++; s.found.FirstMissing == "" {
		s.found.FirstMissing = q.key + refuted
	}
}
