package sim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/script"
)

// history records what happened in one run.
type history struct {
	start time.Time
	// How much later than its lease ends an extension may be sent, because goroutines stall between
	// the last look and the send; set before it is shared.
	stall time.Duration
	// place returns the node where a key counts, or -1 for that of its server, and the key as
	// callers know it with the prefix. voters is how many nodes there are. Set before it is shared.
	place  func(key string) (node int, name string)
	voters int

	mu          sync.Mutex // guards all below, and the holds; a leaf
	notes       []note
	holds       []*hold
	byToken     map[string]*hold // by token
	takings     takings
	handles     []handle      // the oldest first
	extended    map[sent]bool // extensions that nodes were sent
	violations  []string
	noticeUntil time.Time // by when the clients have noticed the last suspension
	suspended   time.Duration
}

// note is one line of the history.
type note struct {
	at        time.Duration // from the start
	who, what string
}

// hold is the time from the return of the call that acquired a lease until its holder calls Release
// or is notified that the lease has ended.
type hold struct {
	history *history
	who     string
	keys    []string
	lease   *lockpipe.Lease
	layout  clientLayout // of the client
	auto    bool         // it is extended automatically
	handed  bool         // another lease was handed off to it
	fence   int64
	called  time.Time
	from    time.Time

	// Guarded by history.mu:
	until      time.Time // when it ends, as last seen; zero when it has ended
	furthest   time.Time // the latest end that was seen, before an extension made it shorter
	end        time.Time // zero until Release was called or Done closed
	released   time.Time // when Release returned; zero until then
	extensions []span    // confirmed extensions
	failed     []span    // extensions that were not confirmed
	cut        cut       // by the last suspension
	began      time.Time // from, as nodes count
	// Until when nobody else may be granted the keys, as nodes count; zero unless they were kept.
	keptUntil time.Time
	// The token of the keys that it has adopted, which several holds may have had, one after the
	// other; "" for another call. Set once.
	adopts string
}

// cut is the effect of a suspension on a lease that ends in it, or before the client looks at its
// clock again. The zero value is none.
type cut struct {
	end      time.Time // of the lease
	deadline time.Time // by when the holder is notified
	// When the lease would have ended without a suspension; a waiting extension may be sent until
	// then.
	planned time.Time
}

// span is the time of a call.
type span struct{ called, returned time.Time }

// suspensionNotice is how long a lease's context may last after a suspension has ended the lease.
const suspensionNotice = 250 * time.Millisecond

func newHistory() *history {
	return &history{
		start: time.Now(), byToken: map[string]*hold{}, takings: newTakings(),
		extended: map[sent]bool{}, voters: nodes,
		place: func(key string) (int, string) { return none, key },
	}
}

func (h *history) note(who, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notes = append(h.notes, note{time.Since(h.start), who, what})
}

func (h *history) violation(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.violate(format, args...)
}

// violate is violation with mu held.
func (h *history) violate(format string, args ...any) {
	h.violations = append(h.violations, fmt.Sprintf("at %v: ", time.Since(h.start))+
		fmt.Sprintf(format, args...))
}

// startHold records that a lease was acquired.
func (h *history) startHold(who string, l *lockpipe.Lease, used clientLayout, called time.Time,
	auto bool,
) *hold {
	now := time.Now()
	b := &hold{
		history: h, who: who, keys: l.Keys(), lease: l, auto: auto, fence: l.Fence(),
		layout: used, called: called, from: now, until: l.Until(),
	}
	slices.Sort(b.keys)
	h.mu.Lock()
	b.began = now.Add(h.suspended)
	b.applyNotice() // it may have been granted before the last suspension
	_, b.handed = h.byToken[l.Token()]
	h.holds = append(h.holds, b)
	h.byToken[l.Token()] = b
	h.mu.Unlock()
	context.AfterFunc(l.Context(), b.onContextEnd)
	return b
}

// sent is a value that a node was sent. Nodes of two groups may be sent the same one.
type sent struct {
	node  int
	value string
}

// checkSent checks what a client sends to a node. An extension of a lease that has ended would put
// its keys back on nodes that have lost them. An acquire behind an extension of its lease would
// come too late for that.
func (h *history) checkSent(node int, data []byte) {
	commands := resptest.NewReader(bytes.NewReader(data))
	for {
		args, err := resptest.ReadCommand(commands)
		if err != nil {
			return
		}
		switch {
		case args[0] == "EVALSHA" && args[1] == script.Extend.SHA:
			for _, value := range values(args) {
				text, _ := ids.SplitValue(value)
				h.checkLateExtension(text)
				h.setExtended(sent{node, value})
			}
		case args[0] == "SET", args[0] == "MSETEX", args[0] == "EVALSHA" &&
			(args[1] == script.Acquire.SHA || args[1] == script.Adopt.SHA):
			for _, value := range values(args) {
				h.checkAcquire(sent{node, value})
			}
		}
	}
}

// values returns the values of lock keys in a command.
func values(args []string) (all []string) {
	for _, arg := range args {
		if _, node := ids.SplitValue(arg); node != 0 {
			all = append(all, arg)
		}
	}
	return all
}

// setExtended records that a node is sent an extension.
func (h *history) setExtended(of sent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.extended[of] = true
}

// checkAcquire records a violation if a node is sent an acquire behind an extension of its lease.
func (h *history) checkAcquire(of sent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.extended[of] {
		h.violate("node %d is sent an acquire of %s behind its extension", of.node, of.value)
	}
}

// checkLateExtension records a violation if an extension is sent now and the lease of the token has
// expired before. A released lease does not count: with its token it may have been handed off. One
// that was handed off may end before the lease that it was: a slow node may be sent an extension of
// that one, and the release behind it. A lost lease does not count either: its extension may have
// been about to be sent in time, and its release follows. Nor does one that its holder made shorter
// while an extension was on its way to a slow node: its release follows too.
func (h *history) checkLateExtension(token string) {
	h.mu.Lock()
	b := h.byToken[token]
	late := time.Duration(0)
	if b != nil && !b.end.IsZero() && !b.handed {
		late = time.Since(b.end)
		for _, in := range []time.Time{b.cut.planned, b.furthest} {
			late = min(late, time.Since(in))
		}
	}
	h.mu.Unlock()
	if late > h.stall && errors.Is(b.lease.Err(), lockpipe.ErrExpired) {
		h.violation("an extension of %s on %v is sent %v after it ended", b.who, b.keys, late)
	}
}

// onContextEnd is called when the lease's context ends.
func (b *hold) onContextEnd() {
	now, why := time.Now(), context.Cause(b.lease.Context())
	b.history.mu.Lock()
	hadEnded := !b.end.IsZero()
	if !hadEnded {
		b.markEnded(now)
	}
	late := !b.auto && !b.until.IsZero() && now.After(b.until)
	lateNotice := hadEnded && b.end.Equal(b.cut.end) && now.After(b.cut.deadline)
	b.history.mu.Unlock()
	if lateNotice {
		b.history.violation("%s is notified %v late that a suspension has ended its lease "+
			"on %v (%v)", b.who, now.Sub(b.cut.deadline), b.keys, why)
	}
	if late && !hadEnded {
		b.history.violation("%s is notified %v late that its lease on %v has ended (%v)", b.who,
			now.Sub(b.until), b.keys, why)
	}
	if !hadEnded && !errors.Is(why, lockpipe.ErrExpired) && !errors.Is(why, lockpipe.ErrLost) &&
		!errors.Is(why, lockpipe.ErrClosed) && !errors.Is(why, lockpipe.ErrKept) {
		b.history.violation("%s: a lease on %v that was not released ends by %v", b.who, b.keys,
			why)
	}
}

// openHolds returns the holds that have not ended.
func (h *history) openHolds() (holds []*hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.holds {
		if b.end.IsZero() {
			holds = append(holds, b)
		}
	}
	return holds
}

// recordSuspension records that all clients were suspended for d, when the lease had left to live.
// If looksAtLease is true, the holder looks at its lease now and believes what it sees. Other
// holders are notified when the client looks at its clock.
func (b *hold) recordSuspension(left, d time.Duration, looksAtLease bool) {
	over := left <= d
	if looksAtLease {
		over = b.lease.Err() != nil
	}
	now := time.Now()
	b.history.mu.Lock()
	defer b.history.mu.Unlock()
	notice := b.history.noticeUntil
	if !b.end.IsZero() {
		return
	}
	passed := b.cut.end.Before(now) && !now.After(b.cut.deadline)
	planned := b.cut.planned // an extension may have started before several suspensions
	if without := now.Add(left); without.After(planned) {
		planned = without
	}
	switch {
	case over && passed:
		// Since an earlier suspension, unless it was extended automatically after that.
		b.cut.deadline = notice
	case left-d > suspensionNotice:
		b.cut = cut{}
	default:
		b.cut = cut{end: now.Add(max(0, left-d)), deadline: notice}
	}
	b.cut.planned = planned
	switch {
	case over:
		b.markEnded(now)
	case !b.until.IsZero():
		if b.until = b.until.Add(-d); b.until.Before(notice) {
			b.until = notice
		}
	}
}

// endBeforeRelease records that Release is about to be called.
func (b *hold) endBeforeRelease() {
	b.history.mu.Lock()
	defer b.history.mu.Unlock()
	if b.end.IsZero() {
		b.markEnded(time.Now())
	}
}

// markEnded ends the hold. If a suspension ended the lease before the holder was notified, the hold
// ended then. history.mu is held.
func (b *hold) markEnded(now time.Time) {
	b.end = now
	if b.cut.end.Before(now) && !now.After(b.cut.deadline) {
		b.end = b.cut.end
	}
}

// nodesTime returns the time as nodes count it: it passes also while the clients are suspended.
func (h *history) nodesTime() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.suspended)
}

// passForNodes records that d has passed for the nodes while the clients were suspended.
func (h *history) passForNodes(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.suspended += d
	h.noticeUntil = time.Now().Add(suspensionNotice)
}

// recordKept records that Keep was confirmed.
func (b *hold) recordKept(until time.Time) {
	b.history.mu.Lock()
	defer b.history.mu.Unlock()
	b.keptUntil = until
}

// handle is the handle of a lease that others know, and the lease's token.
type handle struct{ text, token string }

// maxHandles is how many handles others know. Most are of leases that are over.
const maxHandles = 6

// publish lets others know the handle of a lease.
func (b *hold) publish() {
	b.history.mu.Lock()
	defer b.history.mu.Unlock()
	h := b.history
	h.handles = append(h.handles, handle{b.lease.Handle(), b.lease.Token()})
	h.handles = h.handles[max(0, len(h.handles)-maxHandles):]
}

// known returns the handles that others know.
func (h *history) known() []handle {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.handles)
}

// recordReleased records that Release has returned.
func (b *hold) recordReleased(at time.Time) {
	b.history.mu.Lock()
	defer b.history.mu.Unlock()
	b.released = at
}

// beginExtension records until when the lease lasts before an extension.
func (b *hold) beginExtension() {
	until := b.lease.Until()
	b.history.mu.Lock()
	defer b.history.mu.Unlock()
	if until.After(b.furthest) {
		b.furthest = until
	}
}

// recordExtension records the return of an extension.
func (b *hold) recordExtension(called, returned time.Time, confirmed bool) {
	until := b.lease.Until()
	b.history.mu.Lock()
	defer b.history.mu.Unlock()
	if b.until = until; !until.IsZero() { // else cut holds the end
		b.cut = cut{}
		b.applyNotice()
	}
	if confirmed {
		b.extensions = append(b.extensions, span{called, returned})
	} else {
		b.failed = append(b.failed, span{called, returned})
	}
}

// applyNotice sets by when the holder is notified, if the lease ends before the client has to look
// at its clock again. history.mu is held.
func (b *hold) applyNotice() {
	if notice := b.history.noticeUntil; !b.until.IsZero() && b.until.Before(notice) {
		b.cut = cut{b.until, notice, notice}
		b.until = notice
	}
}

// sortedNotes returns the notes by time. Notes of the same time are in an order that does not
// depend on the scheduler.
func (h *history) sortedNotes() []note {
	notes := slices.Clone(h.notes)
	slices.SortStableFunc(notes, func(a, b note) int {
		return cmp.Or(cmp.Compare(a.at, b.at),
			cmp.Compare(a.who, b.who))
	})
	return notes
}

// hash returns a number for the whole history.
func (h *history) hash() uint64 {
	sum := fnv.New64a()
	for _, n := range h.sortedNotes() {
		fmt.Fprintln(sum, n.at, n.who, n.what)
	}
	return sum.Sum64()
}
