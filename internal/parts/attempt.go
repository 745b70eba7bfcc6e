package parts

import (
	"context"
	"slices"
	"time"

	"github.com/lockpipe/lockpipe/multiplex"
)

// Attempt is one try to acquire, extend or release a claim: see multiplex.Attempt, which is one for
// a claim of one part. Of a claim of several parts it has an attempt for each.
type Attempt interface {
	// Wait returns the outcome: see multiplex.Attempt.Wait.
	Wait(ctx context.Context) multiplex.Outcome
	// FenceTooLow explains an acquire with a fence: see multiplex.Attempt.FenceTooLow.
	FenceTooLow() (seen int64, again bool)
	// Adoption explains an acquire that was to adopt keys: see multiplex.Attempt.Adoption.
	Adoption(seen *multiplex.Adoption)
}

// Acquire starts one attempt to take all keys of a new claim for ttl: see multiplex.Mux.Acquire.
// All parts are asked at once.
func (c *Claim) Acquire(ttl time.Duration, batchKeys int) Attempt {
	if !c.HasSeveral() {
		return c.at.mux.Acquire(&c.first, ttl, batchKeys)
	}
	return c.start(acquiring, func(p *one) {
		p.attempt = p.at.mux.Acquire(p.claim, ttl, batchKeys)
	})
}

// Extend starts one attempt to let all keys of a claim last for ttl: see multiplex.Mux.Extend. It
// is won when each part is, and held when any part is.
func (c *Claim) Extend(ttl time.Duration, sendBefore time.Time, minTimeout time.Duration,
	batchKeys int,
) Attempt {
	if !c.HasSeveral() {
		return c.at.mux.Extend(&c.first, ttl, sendBefore, minTimeout, batchKeys)
	}
	return c.start(extending, func(p *one) {
		p.attempt = p.at.mux.Extend(p.claim, ttl, sendBefore, minTimeout, batchKeys)
	})
}

// Release starts to delete the keys of a claim: see multiplex.Mux.Release. It is won when each part
// is.
func (c *Claim) Release(batchKeys int) Attempt {
	if !c.HasSeveral() {
		return c.at.mux.Release(&c.first, batchKeys)
	}
	return c.start(releasing, func(p *one) {
		p.attempt = p.at.mux.Release(p.claim, batchKeys)
	})
}

// Keep starts to keep the keys of a claim: see multiplex.Mux.Keep. It is won when each part is.
func (c *Claim) Keep(ttl time.Duration) Attempt {
	return c.start(releasing, func(p *one) { p.attempt = p.at.mux.Keep(p.claim, ttl) })
}

// kind is what an attempt does.
type kind uint8

const (
	acquiring kind = iota
	extending
	releasing
)

// several is an Attempt for a claim of several parts. It takes their outcomes one after the other.
// Only one goroutine may use it at a time, as it is with any caller that waits.
type several struct {
	claim *Claim
	kind  kind
	parts []one // the one that was started first is the first
	start func(p *one)

	next   int               // the part whose outcome is taken next
	failed multiplex.Outcome // the one that counts; the zero value while none has failed
}

// one is one part of an attempt.
type one struct {
	at      *Place
	claim   *multiplex.Claim
	attempt *multiplex.Attempt // nil: it starts when those before it are won
	won     bool
}

// start starts all parts of an attempt at once. If a group can't reach a quorum for its part of an
// extension, that is started alone: it fails at once, and the other groups are spared what is of no
// use. They are started if it does not fail.
func (c *Claim) start(k kind, start func(p *one)) *several {
	s := &several{claim: c, kind: k, start: start}
	for at, claim := range c.parts {
		s.parts = append(s.parts, one{at: at, claim: claim})
	}
	if k == extending {
		lacks := func(p one) bool { return !p.at.mux.QuorumReachable() }
		if lacking := slices.IndexFunc(s.parts, lacks); lacking >= 0 {
			s.parts[0], s.parts[lacking] = s.parts[lacking], s.parts[0]
			start(&s.parts[0])
			return s
		}
	}
	for i := range s.parts {
		start(&s.parts[i])
	}
	return s
}

// Wait returns the outcome of all parts. It waits for each until the rest is of no interest.
func (s *several) Wait(ctx context.Context) multiplex.Outcome {
	for ; s.next < len(s.parts) && !s.over(); s.next++ {
		p := &s.parts[s.next]
		if p.attempt == nil {
			s.start(p)
		}
		s.note(p, p.attempt.Wait(ctx))
	}
	return s.result()
}

// over reports whether the parts that are left change nothing. If another has a key, the attempt
// failed for that, whatever the others say. A part that was not started is not started after a
// failure.
func (s *several) over() bool {
	switch {
	case s.kind == releasing || s.failed.Result == 0:
		return false
	case s.failed.Result == multiplex.Held && !s.claim.Adopts():
		return true
	}
	return s.parts[s.next].attempt == nil
}

// note stores the outcome of a part. If the part had no quorum, Outcome.Keys gets one of its keys.
func (s *several) note(p *one, o multiplex.Outcome) {
	if o.Result == multiplex.NoQuorum {
		o.Keys = []string{p.claim.Key(0)}
	}
	switch p.won = o.Result == multiplex.Won; {
	case p.won:
	case s.failed.Result == 0, o.Result == multiplex.Held && s.failed.Result != multiplex.Held:
		s.failed = o
	}
}

// result returns the outcome of all parts, and undoes what the others did, if one has failed.
func (s *several) result() multiplex.Outcome {
	o := s.failed
	if o.Result == 0 {
		return multiplex.Outcome{Result: multiplex.Won}
	}
	// An extension that failed has marked its part: see Claim.MarkOutlives. A release continues;
	// repeated, it is waited for again.
	if s.kind == acquiring {
		for _, p := range s.parts {
			p.at.mux.Release(p.claim, s.claim.Len())
		}
	}
	return o
}

// FenceTooLow combines what the parts say: a higher fence may be granted if every part was won, or
// failed for its fence. What the won ones have is being released, and would refuse the next
// attempt.
func (s *several) FenceTooLow() (seen int64, again bool) {
	for _, p := range s.parts {
		if p.attempt == nil || p.won {
			continue
		}
		partSeen, partAgain := p.attempt.FenceTooLow()
		if !partAgain {
			return 0, false
		}
		seen, again = max(seen, partSeen), true
	}
	return seen, again
}
