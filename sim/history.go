package sim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/script"
)

// history is what was seen in one run.
type history struct {
	start time.Time

	mu         sync.Mutex // guards all below, and the holds; a leaf
	notes      []note
	holds      []*hold
	newest     map[string]*hold // by token
	violations []string
	notice     time.Time // until when the clients find the last suspension
}

// note is one line of the history.
type note struct {
	at        time.Duration // from the start
	who, what string
}

// hold is the time from the return of the call that acquired a lease until its holder gave it up or
// was told that it is over.
type hold struct {
	history *history
	who     string
	keys    []string
	lease   *lockpipe.Lease
	auto    bool // it is extended by itself
	fence   int64
	called  time.Time
	from    time.Time

	// Guarded by history.mu:
	until     time.Time // when it ends, as last told; zero when it was over
	end       time.Time // zero until Release was called or Done closed
	released  time.Time // when Release returned; zero until then
	extension []span    // confirmed extensions
	cut       cut       // by the last suspension
}

// cut is what a suspension has done to a lease that it ended, or will have ended before the client
// looks at its clock again. The zero value is none.
type cut struct {
	end      time.Time // of the lease
	deadline time.Time // when the holder is told at the latest
	// When the lease would have ended without any; an extension that waits may be sent until then.
	planned time.Time
}

// span is a call.
type span struct{ called, returned time.Time }

// suspensionNotice is how long a lease's context may go on after a suspension has ended the lease.
const suspensionNotice = 250 * time.Millisecond

func newHistory() *history { return &history{start: time.Now(), newest: map[string]*hold{}} }

func (h *history) note(who, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notes = append(h.notes, note{time.Since(h.start), who, what})
}

func (h *history) violation(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.violations = append(h.violations, fmt.Sprintf("at %v: ", time.Since(h.start))+
		fmt.Sprintf(format, args...))
}

// begin notes that a lease was acquired.
func (h *history) begin(who string, l *lockpipe.Lease, called time.Time, auto bool) *hold {
	now := time.Now()
	b := &hold{
		history: h, who: who, keys: l.Keys(), lease: l, auto: auto, fence: l.Fence(),
		called: called, from: now, until: l.Until(),
	}
	slices.Sort(b.keys)
	h.mu.Lock()
	b.noticed() // it may have been granted before the last suspension
	h.holds = append(h.holds, b)
	h.newest[l.Token()] = b
	h.mu.Unlock()
	context.AfterFunc(l.Context(), b.done)
	return b
}

// leaving looks at what a client sends: an extension of a lease that is over gives nodes its keys
// again that have lost them.
func (h *history) leaving(data []byte) {
	if !bytes.Contains(data, []byte(script.Extend.SHA)) {
		return
	}
	commands := resptest.NewReader(bytes.NewReader(data))
	for {
		args, err := resptest.ReadCommand(commands)
		if err != nil {
			return
		}
		if args[0] != "EVALSHA" || args[1] != script.Extend.SHA {
			continue
		}
		keys, _ := strconv.Atoi(args[2])
		for _, l := range lots(args[3:3+keys], args[3+keys:], 3) {
			h.late(l.token)
		}
	}
}

// late makes a violation of an extension that is sent now, where the lease of the token has run out
// before. One that was released goes on, with its token, with whoever it was handed to; and one
// that was found lost may have been about to be sent within its time: its release follows.
func (h *history) late(token string) {
	h.mu.Lock()
	b := h.newest[token]
	late := time.Duration(0)
	if b != nil && !b.end.IsZero() {
		late = time.Since(b.end)
		if planned := b.cut.planned; planned.After(b.end) {
			late = time.Since(planned)
		}
	}
	h.mu.Unlock()
	if late > 0 && errors.Is(b.lease.Err(), lockpipe.ErrExpired) {
		h.violation("an extension of %s on %v is sent %v after it ended", b.who, b.keys, late)
	}
}

// done is called when the lease's context ends.
func (b *hold) done() {
	now, why := time.Now(), context.Cause(b.lease.Context())
	b.history.mu.Lock()
	gave := !b.end.IsZero()
	if !gave {
		b.close(now)
	}
	late := !b.auto && !b.until.IsZero() && now.After(b.until)
	tardy := gave && b.end.Equal(b.cut.end) && now.After(b.cut.deadline)
	b.history.mu.Unlock()
	if tardy {
		b.history.violation("%s is told %v late that a suspension has ended its lease on %v (%v)",
			b.who, now.Sub(b.cut.deadline), b.keys, why)
	}
	if late && !gave {
		b.history.violation("%s is told %v late that its lease on %v is over (%v)", b.who,
			now.Sub(b.until), b.keys, why)
	}
	if !gave && !errors.Is(why, lockpipe.ErrExpired) && !errors.Is(why, lockpipe.ErrLost) &&
		!errors.Is(why, lockpipe.ErrClosed) {
		b.history.violation("%s: a lease on %v that was not released ends by %v", b.who, b.keys,
			why)
	}
}

// open returns the holds that have not ended.
func (h *history) open() (holds []*hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, b := range h.holds {
		if b.end.IsZero() {
			holds = append(holds, b)
		}
	}
	return holds
}

// suspended notes that all clients were suspended for d, when left of the lease was left. looks:
// its holder looks at it now, and believes what it sees. Others are told when the client looks at
// its clock.
func (b *hold) suspended(left, d time.Duration, looks bool) {
	over := left <= d
	if looks {
		over = b.lease.Err() != nil
	}
	now := time.Now()
	notice := now.Add(suspensionNotice)
	b.history.mu.Lock()
	defer b.history.mu.Unlock()
	b.history.notice = notice
	if !b.end.IsZero() {
		return
	}
	passed := b.cut.end.Before(now) && !now.After(b.cut.deadline)
	planned := b.cut.planned // an extension may have begun before several suspensions
	if without := now.Add(left); without.After(planned) {
		planned = without
	}
	switch {
	case over && passed: // since an earlier suspension, unless it was extended by itself after that
		b.cut.deadline = notice
	case left-d > suspensionNotice:
		b.cut = cut{}
	default:
		b.cut = cut{end: now.Add(max(0, left-d)), deadline: notice}
	}
	b.cut.planned = planned
	switch {
	case over:
		b.close(now)
	case !b.until.IsZero():
		if b.until = b.until.Add(-d); b.until.Before(notice) {
			b.until = notice
		}
	}
}

// ending notes that Release is about to be called.
func (b *hold) ending() {
	b.history.mu.Lock()
	defer b.history.mu.Unlock()
	if b.end.IsZero() {
		b.close(time.Now())
	}
}

// close ends the hold. One that a suspension has ended before the holder was told was over by then.
// history.mu is held.
func (b *hold) close(now time.Time) {
	b.end = now
	if b.cut.end.Before(now) && !now.After(b.cut.deadline) {
		b.end = b.cut.end
	}
}

// freed notes that Release has returned.
func (b *hold) freed(at time.Time) {
	b.history.mu.Lock()
	defer b.history.mu.Unlock()
	b.released = at
}

// extended notes the return of an extension.
func (b *hold) extended(called, returned time.Time, confirmed bool) {
	until := b.lease.Until()
	b.history.mu.Lock()
	defer b.history.mu.Unlock()
	if b.until = until; !until.IsZero() { // else cut says what there is to say
		b.cut = cut{}
		b.noticed()
	}
	if confirmed {
		b.extension = append(b.extension, span{called, returned})
	}
}

// noticed sets when the holder is notified at the latest, if the lease ends before the client has
// to look at its clock again. history.mu is held.
func (b *hold) noticed() {
	if notice := b.history.notice; !b.until.IsZero() && b.until.Before(notice) {
		b.cut = cut{b.until, notice, notice}
		b.until = notice
	}
}

// sorted returns the notes in an order that does not depend on the scheduler, where they have the
// same time.
func (h *history) sorted() []note {
	notes := slices.Clone(h.notes)
	slices.SortStableFunc(notes, func(a, b note) int {
		return cmp.Or(cmp.Compare(a.at, b.at),
			cmp.Compare(a.who, b.who))
	})
	return notes
}

// hash is a number for the whole history.
func (h *history) hash() uint64 {
	sum := fnv.New64a()
	for _, n := range h.sorted() {
		fmt.Fprintln(sum, n.at, n.who, n.what)
	}
	return sum.Sum64()
}
