// Package sentinel knows which server is the master of one node, by what its sentinels say.
package sentinel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
)

const (
	// Grace is how long FindMaster waits for further sentinels when one has answered.
	Grace = 100 * time.Millisecond
	// AgreeWithin is how long sentinels need at most until all that reach each other name the new
	// master: each publishes what it knows every two seconds.
	AgreeWithin = 2 * time.Second
	// DeposedFor is for how long a client may use an old master after another client has seen the
	// new one. The sentinels have to agree, the client has to ask the next time, and its answer may
	// take AnswerTimeout. A quarantine lasts that much longer, so it also waits for what is
	// granted meanwhile.
	DeposedFor = AgreeWithin + endpoint.AskEvery + endpoint.AnswerTimeout
)

// Sentinels knows which server is the master of one node, if Sentinel watches that.
//
// Each sentinel has a goroutine with a connection of its own, which asks for the master again and
// again. All of them are asked, because a sentinel that was cut off from the others names the old
// master for as long as that lasts. The highest epoch wins: each failover has a higher one. An
// answer lasts for MaxTTL if its sentinel fails. So a stale sentinel does not lead the client back.
//
// When the master is another one than before, the client leaves the old one at once. The old one
// may still act as a master, and other clients lock on the new one when its quarantine is over.
//
// Rejected: subscribing to +switch-master. The message comes half a second earlier, may be missed,
// and a sentinel that is cut off never sends it. So the client has to ask anyway, and other clients
// wait for MaxTTL before they use the new master.
type Sentinels struct {
	all       []*sentinel
	reportTTL time.Duration // how long an answer lasts
	timeout   time.Duration // how long FindMaster waits for the first one: it may dial and ask

	mu      sync.Mutex    // guards all below; a leaf
	changed chan struct{} // closed when the next sentinel answers or fails
	reports []report      // the last one of each sentinel
	using   string        // the master that the owner connects to; "" before the first
	leave   context.CancelCauseFunc
}

// report is what one sentinel said last.
type report struct {
	askedAt time.Time // when it was asked, or earlier
	err     error     // why it did not answer then; nil if it did
	master  string    // host:port; "" if it never named any, or knows of none
	epoch   int64     // of the master's configuration; 0 if the sentinel does not show it
	namedAt time.Time // when it named the master
}

// New returns the sentinels of a node that has some. An answer of a sentinel that fails lasts
// for ttl. dial and logger are those of endpoint.NewDialer.
func New(
	e *endpoint.Endpoint, ttl time.Duration, dial endpoint.DialFunc, logger *slog.Logger,
) *Sentinels {
	all := &Sentinels{
		reportTTL: ttl, timeout: e.DialTimeout + endpoint.AnswerTimeout + endpoint.DialGrace,
		changed: make(chan struct{}), reports: make([]report, len(e.Sentinels)),
	}
	for i := range e.Sentinels {
		s := &e.Sentinels[i]
		all.all = append(all.all, &sentinel{
			endpoint.NewAsker(s, endpoint.NewLogins(s, nil, nil), dial, logger), i, e.MasterSet,
			false,
		})
	}
	return all
}

// Run starts the goroutines. They end with ctx, and wait returns when they have ended.
func (all *Sentinels) Run(ctx context.Context) (wait func()) {
	var running sync.WaitGroup
	for _, s := range all.all {
		running.Go(func() { s.run(ctx, all) })
	}
	return running.Wait
}

// FindMaster asks all sentinels. It returns the address of the master when all have answered, or
// soon after the first has.
func (all *Sentinels) FindMaster(
	ctx context.Context, leave context.CancelCauseFunc,
) (string, error) {
	since := time.Now()
	for _, s := range all.all {
		s.Want()
	}
	late := time.NewTimer(all.timeout)
	defer late.Stop()
	for first := true; ; {
		answers, open, changed := all.progress(since)
		if open == 0 {
			return all.decide(since, leave)
		}
		if answers > 0 && first {
			first = false
			late.Reset(Grace)
		}
		select {
		case <-changed:
		case <-late.C:
			return all.decide(since, leave)
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// progress returns how many sentinels have answered that were asked since then, how many may do so
// yet, and what is closed when the next one does.
func (all *Sentinels) progress(since time.Time) (answers, open int, changed <-chan struct{}) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, w := range all.reports {
		switch {
		case w.askedAt.Before(since):
			open++
		case w.err == nil:
			answers++
		}
	}
	return answers, open, all.changed
}

// decide returns the master by the reports, which the owner uses from now on, if a sentinel has
// answered that was asked since then. The error has a reason for each sentinel.
func (all *Sentinels) decide(since time.Time, leave context.CancelCauseFunc) (string, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	answered := false
	var reasons []string
	for i, w := range all.reports {
		answered = answered || w.err == nil && !w.askedAt.Before(since)
		err := w.err
		if err == nil {
			err = fmt.Errorf("sentinel %s: %w", all.all[i].Endpoint.Address, endpoint.ErrSilent)
		}
		reasons = append(reasons, err.Error())
	}
	if master := all.newest(); answered && master != "" {
		all.using, all.leave = master, leave
		return master, nil
	}
	return "", errors.New("no sentinel names the master: " + strings.Join(reasons, "; "))
}

// newest returns the master of the highest epoch; "" if no sentinel names any. mu is held.
func (all *Sentinels) newest() string {
	var best report
	for _, w := range all.reports {
		switch {
		case w.master == "" || w.err != nil && time.Since(w.namedAt) > all.reportTTL:
		case best.master == "" || w.epoch > best.epoch:
			best = w
		case w.epoch == best.epoch && w.master == all.using: // the client stays
			best = w
		}
	}
	return best.master
}

// takeReport takes what a sentinel says.
func (all *Sentinels) takeReport(place int, w report) {
	all.mu.Lock()
	defer all.mu.Unlock()
	var none *unknownSetError
	if before := all.reports[place]; w.err != nil && !errors.As(w.err, &none) {
		w.master, w.epoch, w.namedAt = before.master, before.epoch, before.namedAt
	}
	all.reports[place] = w
	if to := all.newest(); to != "" && to != all.using && all.leave != nil {
		all.leave(fmt.Errorf("the sentinels name %s as the master now, in place of %s", to,
			all.using))
	}
	close(all.changed)
	all.changed = make(chan struct{})
}

// Confirmed is always true: sentinels that were cut off are not noticed sooner.
func (all *Sentinels) Confirmed() bool { return true }
