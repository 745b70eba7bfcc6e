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
}

// note is one line of the history.
type note struct {
	at        time.Duration // from the start
	who, what string
}

// hold is the time from the return of the call that acquired a lease until its holder gave it up or was told that it is over.
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
}

// span is a call.
type span struct{ called, returned time.Time }

func newHistory() *history { return &history{start: time.Now(), newest: map[string]*hold{}} }

func (h *history) note(who, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.notes = append(h.notes, note{time.Since(h.start), who, what})
}

func (h *history) violation(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.violations = append(h.violations, fmt.Sprintf("at %v: ", time.Since(h.start))+fmt.Sprintf(format, args...))
}

// begin notes that a lease was acquired.
func (h *history) begin(who string, l *lockpipe.Lease, called time.Time, auto bool) *hold {
	now := time.Now()
	b := &hold{history: h, who: who, keys: l.Keys(), lease: l, auto: auto, fence: l.Fence(), called: called, from: now, until: l.Until()}
	slices.Sort(b.keys)
	h.mu.Lock()
	h.holds = append(h.holds, b)
	h.newest[l.Token()] = b
	h.mu.Unlock()
	context.AfterFunc(l.Context(), b.done)
	return b
}

// leaving looks at what a client sends: an extension of a lease that is over gives nodes its keys again that have lost them.
func (h *history) leaving(data []byte) {
	for bytes.Contains(data, []byte(script.Extend.SHA)) {
		args, size := parse(data)
		if args == nil {
			return
		}
		data = data[size:]
		if args[0] != "EVALSHA" || args[1] != script.Extend.SHA {
			continue
		}
		keys, _ := strconv.Atoi(args[2])
		for _, l := range lots(args[3:3+keys], args[3+keys:], 3) {
			h.late(l.token)
		}
	}
}

// late makes a violation of an extension that is sent now, where the lease of the token has run out before. One that was released goes on,
// with its token, with whoever it was handed to; and one that was found lost may have been about to be sent within its time: its release follows.
func (h *history) late(token string) {
	h.mu.Lock()
	b := h.newest[token]
	late := time.Duration(0)
	if b != nil && !b.end.IsZero() {
		late = time.Since(b.end)
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
		b.end = now
	}
	late := !b.auto && !b.until.IsZero() && now.After(b.until)
	b.history.mu.Unlock()
	if late && !gave {
		b.history.violation("%s is told %v late that its lease on %v is over (%v)", b.who, now.Sub(b.until), b.keys, why)
	}
	if !gave && !errors.Is(why, lockpipe.ErrExpired) && !errors.Is(why, lockpipe.ErrLost) && !errors.Is(why, lockpipe.ErrClosed) {
		b.history.violation("%s: a lease on %v that was not released ends by %v", b.who, b.keys, why)
	}
}

// ending notes that Release is about to be called.
func (b *hold) ending() {
	b.history.mu.Lock()
	defer b.history.mu.Unlock()
	if b.end.IsZero() {
		b.end = time.Now()
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
	b.until = until
	if confirmed {
		b.extension = append(b.extension, span{called, returned})
	}
}

// sorted returns the notes in an order that does not depend on the scheduler, where they have the same time.
func (h *history) sorted() []note {
	notes := slices.Clone(h.notes)
	slices.SortStableFunc(notes, func(a, b note) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.who, b.who)) })
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
