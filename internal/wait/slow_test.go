package wait

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/line"
	"github.com/stretchr/testify/require"
)

// event is something that the policy was told, or a look: what it was asked, and its answer.
type event struct {
	what           string // "begin", "yield", "continue", "failed", "look"
	at             time.Time
	key            string        // of a failure, or of a look at which the call goes by its line
	delay          time.Duration // likewise
	f              Facts
	did            Action
	starts         bool // a turn begins with this look
	placed, onTurn bool // at this look the place came, or it was the call's turn
	held           bool // at this look another was seen to have the key
}

// history is a policy that keeps no state. It searches all events for each decision.
type history []event

// last returns the index of the last event before i that is so; -1: none is.
func (h history) last(i int, is func(event) bool) int {
	for i--; i >= 0 && !is(h[i]); i-- {
	}
	return i
}

func isAttempt(e event) bool { return e.did.Kind == Attempt && e.what == "look" }
func isBlock(e event) bool   { return e.what == "failed" || e.key != "" }
func isPlaced(e event) bool  { return e.placed }

// futile returns how many attempts failed up to event i since the call last waited for a key that
// is held.
func (h history) futile(i int) (n int) {
	for j := h.last(i+1, func(e event) bool { return e.held }) + 1; j <= i; j++ {
		if h[j].what == "failed" {
			n++
		}
	}
	return n
}

// renewals returns how many places like that of look i came before it, without an attempt.
func (h history) renewals(i int) int {
	before := h.last(i, isPlaced)
	switch {
	case before < 0, h[i].f.Place.Free, h[i].f.Place.Before != h[before].f.Place.Before,
		h.last(i, isAttempt) >= before:
		return 0
	}
	return h.renewals(before) + 1
}

// until waits for an attempt at this time.
func (e *event) until(at time.Time) Action {
	if e.at.Before(at) {
		return Action{Kind: Wait, Delay: at.Sub(e.at)}
	}
	return Action{Kind: Attempt}
}

// look decides what the call does at the last event, a look.
func (h history) look(p *Policy) Action {
	i := len(h) - 1
	now, l := &h[i], h[i].f.Place
	looked := h.last(i, func(e event) bool { return e.what == "look" })
	begun := h.last(i, func(e event) bool { return e.what != "look" && e.what != "failed" })
	if looked < 0 || begun > looked {
		now.starts = true
		kind := ""
		if begun > looked {
			kind = h[begun].what
		}
		switch now.key, now.delay = now.f.Contended, p.MaxDelay; {
		case kind == "continue", kind == "begin" && l.First():
			now.key = ""
		case kind == "yield" && now.key == "":
			now.key = p.Key
		}
		if kind != "" && now.key == "" {
			return Action{Kind: Attempt}
		}
	}
	block := h.last(i+1, isBlock)
	if block < 0 {
		return Action{Kind: Attempt}
	}
	b := h[block]
	delay := b.delay
	if b.key == "" {
		delay = max(delay, time.Millisecond)
	}
	retryAt := b.at.Add(delay)
	if b.key == "" {
		return now.until(retryAt)
	}
	turn := func() Action {
		if now.onTurn = true; h.futile(i) >= 12 {
			return now.until(retryAt)
		}
		return Action{Kind: Attempt}
	}
	since := max(block, h.last(i, isAttempt))
	if h.last(i, func(e event) bool { return e.onTurn }) > since {
		return turn()
	}
	ask := Action{Kind: AskLine, Key: b.key, Node: p.Arbiter(b.key, h.futile(block)/4)}
	asked := h.last(i, func(e event) bool { return e.did.Kind == AskLine })
	if asked < since || asked == since && !isBlock(h[since]) || block == i {
		return ask
	}
	patience := max(delay, 60*time.Millisecond, min(8*delay, 2*time.Second))
	at := h.last(i, isPlaced)
	if at < asked {
		switch {
		case now.f.Asking:
			return now.until(h[asked].at.Add(patience))
		case l.Known:
			now.placed, at = true, i
		case h.last(i, isAttempt) < h.last(i+1, func(e event) bool { return e.starts }):
			return Action{Kind: Attempt}
		default:
			return now.until(retryAt)
		}
	}
	q := h[at].f.Place
	renewal := (60 + 50*time.Duration(q.Ahead)) * time.Millisecond << min(h.renewals(at), 5)
	if q.First() || renewal > time.Second {
		renewal = time.Second
	}
	next := h[at].at.Add(renewal)
	if poll := h[at].at.Add(delay * time.Duration(1+q.Ahead)); l.Silent && poll.Before(next) {
		next = poll
	}
	if !now.at.Before(next) {
		return ask
	}
	askAll, ends := b.at.Add(patience), l.First() && !l.Until.IsZero()
	switch {
	case l.Turn, ends && !now.at.Before(l.Until):
		return turn()
	case l.First() && !now.at.Before(askAll):
		return Action{Kind: Attempt}
	}
	if l.First() && askAll.Before(next) {
		next = askAll
	}
	if ends && l.Until.Before(next) {
		next = l.Until
	}
	now.held = l.Known && !l.Free && l.Token != now.f.Own
	return Action{Kind: Wait, Delay: next.Sub(now.at)}
}

// The goal: after any events the policy decides as a version that searches all of them.
func TestPolicy_AgainstASlowVersion(t *testing.T) {
	places := []line.Place{
		{},
		inTheLine,
		inTheLine,
		hasLeft,
		firstFree,
		firstHeld,
		firstGone,
		full,
		silent(inTheLine),
		silent(firstHeld),
		{Known: true, Ticket: 9, Before: 8, Ahead: 1},
		{Known: true, Ticket: 9, Until: at(second)},
		{Known: true, Ticket: 9, Token: "own"},
	}
	from := rand.Uint64()
	for seed := from; seed != from+1000; seed++ {
		r := rand.New(rand.NewPCG(seed, 0))
		p := &Policy{
			Key: "k", MaxDelay: 60 * ms,
			Arbiter: func(key string, skip int) *line.Node { return nodes[(len(key)+skip)%5] },
		}
		var h history
		now, place, attempting := time.Duration(0), places[0], false
		for range 300 {
			now += time.Duration(r.ExpFloat64() * float64(20*ms))
			switch n := r.IntN(40); {
			case attempting && n < 30:
				key := []string{"", "k", "k", "k", "kk"}[r.IntN(5)]
				delay := time.Duration(r.Int64N(int64(60 * ms)))
				p.Failed(at(now), key, delay)
				h = append(h, event{what: "failed", at: at(now), key: key, delay: delay})
				attempting = false
				continue
			case n == 30:
				p.Begin(false, false)
				h = append(h, event{what: "begin"})
			case n == 31:
				p.Begin(true, true)
				h = append(h, event{what: "yield"})
			case n == 32:
				p.Begin(true, false)
				h = append(h, event{what: "continue"})
			}
			if r.IntN(3) == 0 {
				place = places[r.IntN(len(places))]
			}
			f := Facts{Now: at(now), Own: "own", Place: place, Asking: r.IntN(4) == 0}
			f.Contended = []string{"", "", "k"}[r.IntN(3)]
			h = append(h, event{what: "look", at: at(now), f: f})
			last := &h[len(h)-1]
			last.did = p.Next(f)
			want := h.look(p)
			require.Equal(t, want, last.did, "seed %d, event %d", seed, len(h))
			attempting = want.Kind == Attempt
		}
	}
}
