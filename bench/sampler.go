package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe"
)

const (
	// samplers is how many samples are under way at once.
	samplers = 4
	// sampleEvery is the time between two samples of one sampler: 200 a second in all.
	sampleEvery = 20 * time.Millisecond
)

// sampler looks up random leases on the nodes while they are held. A lease is dead where fewer than
// a quorum of the nodes have its key with its token and a time to live that is above 0 and not
// above the TTL, although its Client said before and after the look that it is held. A node that
// does not answer in time has not got it either.
//
// There is no false alarm while a quorum answers: a lease that is held must live on a quorum at
// every moment in between.
type sampler struct {
	// set once
	leases  []*lockpipe.Lease // all of them there
	probers []*prober
	quorum  int

	mu         sync.Mutex // guards all below until run returns
	samples    uint64     // those that ended with a verdict
	dead       uint64
	unanswered uint64 // nodes without an answer in these samples, as far as it was waited for
	firstDead  string // what the first dead lease looked like
}

func newSampler(nodes []endpoint, leases []*lockpipe.Lease, ttl time.Duration) *sampler {
	s := &sampler{leases: leases, quorum: len(nodes)/2 + 1}
	for _, node := range nodes {
		s.probers = append(s.probers, newProber(node, ttl))
	}
	return s
}

// run samples until ctx ends.
func (s *sampler) run(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	for _, p := range s.probers {
		working.Go(func() { p.run(ctx) })
	}
	for range samplers {
		working.Go(func() {
			tick := time.NewTicker(sampleEvery)
			defer tick.Stop()
			for {
				s.sample(ctx, s.leases[rand.IntN(len(s.leases))])
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
			}
		})
	}
}

// sample looks one lease up on all nodes at once, and waits until they have decided. One that ctx
// cut off, or whose lease is over, does not count.
func (s *sampler) sample(ctx context.Context, lease *lockpipe.Lease) {
	if lease.Err() != nil {
		return
	}
	decided := make(chan struct{})
	defer close(decided)
	answers := make(chan answer, len(s.probers))
	q := question{key: lease.Key(), token: lease.Token(), decided: decided, answers: answers}
	for _, p := range s.probers {
		p.ask(q)
	}
	confirmed, refuted, unanswered := 0, "", uint64(0)
	for range s.probers {
		select {
		case a := <-answers:
			switch {
			case a.found == "":
				confirmed++
			case !a.answered:
				unanswered++
				fallthrough
			default:
				refuted += fmt.Sprintf("; %s: %s", a.node, a.found)
			}
		case <-ctx.Done():
			return
		}
		if confirmed == s.quorum {
			break
		}
	}
	alive := confirmed >= s.quorum
	if ctx.Err() != nil || !alive && lease.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.samples++
	s.unanswered += unanswered
	if alive {
		return
	}
	if s.dead++; s.firstDead == "" {
		s.firstDead = q.key + refuted
	}
}
