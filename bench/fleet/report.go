package fleet

import (
	"time"

	"github.com/lockpipe/lockpipe/bench/series"
)

// Phase is a part of a move.
type Phase int

const (
	// OldAlone is while all Clients use the old layout alone.
	OldAlone Phase = iota
	// RollingToBoth is while they are replaced, until the last of them has ended.
	RollingToBoth
	// BothNeeded is while all Clients need both layouts.
	BothNeeded
	// RollingToNew is while these Clients are replaced, until the last of them has ended.
	RollingToNew
	// NewAlone is after that.
	NewAlone
	phaseCount
)

// String returns the phase as reports name it.
func (p Phase) String() string {
	return [...]string{"old alone", "rolling to both", "both", "rolling to new", "new alone"}[p]
}

// Report is what a move did to the callers.
type Report struct {
	// Replaced is how many Clients were replaced by another one.
	Replaced int `json:"replaced"`
	// Calls is how many acquiring calls returned and how many leases were released, and Failed how
	// many of these calls and releases failed. Calls that the end of the run cut off do not count.
	Calls  uint64 `json:"calls"`
	Failed uint64 `json:"failed"`
	// BothOverOld is the p99 of the waits while both layouts were needed, over that with the old
	// layout alone. It is 0 if there is no such wait.
	BothOverOld float64 `json:"both_p99_over_old_p99"`
	// Phases are those that the run has reached, in their order.
	Phases []PhaseReport `json:"phases"`
}

// PhaseReport is about the calls that returned in one phase.
type PhaseReport struct {
	// Phase is its name.
	Phase string `json:"phase"`
	// FromS and UntilS are when it began and ended, in seconds since the first call.
	FromS  float64 `json:"from_s"`
	UntilS float64 `json:"until_s"`
	// Locks is how many locks were granted, and LocksPerS how many a second.
	Locks     uint64  `json:"locks"`
	LocksPerS float64 `json:"locks_per_s"`
	// Failed is how many calls and releases failed.
	Failed uint64 `json:"failed"`
	// WaitMs is how long the calls waited that were granted, and ReleaseMs how long the releases
	// took.
	WaitMs    series.Latency `json:"wait_ms"`
	ReleaseMs series.Latency `json:"release_ms"`
}

// record is what happened in one phase. Mover.mu guards it.
type record struct {
	from, until    time.Duration // since Mover.start
	calls, granted uint64
	failed         uint64
	waits          series.Histogram
	releases       series.Histogram
}

func newRecord() record {
	return record{waits: series.NewHistogram(), releases: series.NewHistogram()}
}

// enterPhase ends the present phase.
func (m *Mover) enterPhase(next Phase) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := time.Since(m.start)
	m.records[m.phase].until = at
	m.phase = next
	m.records[next].from = at
}

// recordAcquire counts an acquiring call that returned now.
func (m *Mover) recordAcquire(took time.Duration, granted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.records[m.phase]
	r.calls++
	if !granted {
		r.failed++
		return
	}
	r.granted++
	r.waits.Record(took)
}

// recordRelease counts a release that ended now.
func (m *Mover) recordRelease(took time.Duration, released bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.records[m.phase]
	r.calls++
	if !released {
		r.failed++
	}
	r.releases.Record(took)
}

// Report returns what the move did. Call it after Stop.
func (m *Mover) Report() *Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := &Report{Replaced: m.replaced}
	for p := OldAlone; p <= m.phase; p++ {
		r := &m.records[p]
		if p > OldAlone && r.from == 0 {
			continue // it was left out
		}
		one := PhaseReport{
			Phase: p.String(), FromS: r.from.Seconds(), UntilS: r.until.Seconds(),
			Locks: r.granted, Failed: r.failed, WaitMs: r.waits.Latency(),
			ReleaseMs: r.releases.Latency(),
		}
		if length := one.UntilS - one.FromS; length > 0 {
			one.LocksPerS = float64(r.granted) / length
		}
		all.Calls += r.calls
		all.Failed += r.failed
		all.Phases = append(all.Phases, one)
	}
	both, old := &m.records[BothNeeded], &m.records[OldAlone]
	if both.granted > 0 && old.granted > 0 {
		all.BothOverOld = both.waits.Latency().P99 / old.waits.Latency().P99
	}
	return all
}
