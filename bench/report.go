package bench

import (
	"time"

	"github.com/lockpipe/lockpipe/bench/batches"
	"github.com/lockpipe/lockpipe/bench/faults"
	"github.com/lockpipe/lockpipe/bench/fleet"
	"github.com/lockpipe/lockpipe/bench/nodes"
	"github.com/lockpipe/lockpipe/bench/series"
)

// Report is the outcome of a run. Locks are counted in keys: a lease over 100 keys is 100 acquired
// and 100 released. Acquired = Released + Expired + Lost + those of Errors that are releases. Calls
// that the end of the run cut off while they waited are in none of the counts.
type Report struct {
	// Version is that of lockpipe, as the build recorded it.
	Version string `json:"version"`
	// Scenario is what each caller did.
	Scenario Scenario `json:"scenario"`
	// Backend is "redis-server", "in-process" or "external".
	Backend string `json:"backend"`
	// NodesNote says in two sentences what nodes in this process are, and how a user gets servers
	// instead. It is empty with other nodes.
	NodesNote string `json:"nodes_note,omitempty"`
	// Nodes is how many nodes the locks were taken on.
	Nodes int `json:"nodes"`
	// Config is what was asked for.
	Config ReportConfig `json:"config"`
	// DurationS is the time in seconds from the first call until the last release.
	DurationS float64 `json:"duration_s"`
	// Acquired is how many keys were granted.
	Acquired uint64 `json:"acquired"`
	// Released is how many of them a quorum confirmed as released.
	Released uint64 `json:"released"`
	// Refused is how many keys were asked for and held by another.
	Refused uint64 `json:"refused"`
	// NoQuorum is how many keys were asked for, and not granted for another reason than a holder.
	NoQuorum uint64 `json:"no_quorum"`
	// Expired is how many keys were granted for a time that had run out when they were to be
	// released.
	Expired uint64 `json:"expired"`
	// Lost is how many keys were granted and then found gone before their time had run out. In the
	// scenario Hold it is how many leases ended before their release in any way, and Expired is 0.
	Lost uint64 `json:"lost"`
	// Errors is how many keys were in calls that failed in another way, and in releases that were
	// not confirmed.
	Errors uint64 `json:"errors"`
	// FirstError is the text of one of them.
	FirstError string `json:"first_error,omitempty"`
	// Unserved is how many calls of an open loop were due, and found no free caller before the end.
	Unserved uint64 `json:"unserved"`
	// Violations is how often a key was granted to a caller while another caller's lease on it was
	// valid and not released. In the scenario Combine it is how often two batches had a key at the
	// same time, or a call got the result of another item.
	Violations uint64 `json:"violations"`
	// FenceRegressions is, with fencing, how often a valid lease on a key had a fence that was not
	// above those of all earlier leases on it.
	FenceRegressions uint64 `json:"fence_regressions"`
	// LeftoverKeys is how many keys of this run the nodes still had after the Clients were closed,
	// added up over the nodes.
	LeftoverKeys int `json:"leftover_keys"`
	// LocksPerS is Acquired per second of DurationS.
	LocksPerS float64 `json:"locks_per_s"`
	// AcquireMs is how long the calls took that were granted at least one key, in an open loop from
	// when they were due.
	AcquireMs series.Latency `json:"acquire_ms"`
	// ReleaseMs is how long their releases took, from the call itself.
	ReleaseMs series.Latency `json:"release_ms"`
	// ClientCPUUsPerLock is the CPU time in microseconds that this process used from the first call
	// until the last release, per key acquired. It includes the choice of keys and the measurement.
	// It is nil with backend "in-process", where CPUUsPerLockWithNodes has the sum with the nodes.
	ClientCPUUsPerLock    *float64 `json:"client_cpu_us_per_lock,omitempty"`
	CPUUsPerLockWithNodes *float64 `json:"cpu_us_per_lock_with_nodes,omitempty"`
	// ServerCPUUsPerLock is the CPU time in microseconds that the busiest redis-server used in the
	// same time, per key acquired on all nodes, and ServerCPUShare is its part of one CPU, from 0
	// to 1. Only a run without faults that starts its servers has them.
	ServerCPUUsPerLock float64 `json:"busiest_server_cpu_us_per_lock,omitempty"`
	ServerCPUShare     float64 `json:"busiest_server_cpu_share,omitempty"`
	// AllocsPerLock is the number of allocations in the same time, of the same work, per key
	// acquired. It is nil with backend "in-process", as ClientCPUUsPerLock is.
	AllocsPerLock          *float64 `json:"allocs_per_lock,omitempty"`
	AllocsPerLockWithNodes *float64 `json:"allocs_per_lock_with_nodes,omitempty"`
	// OpsPerFlush is how many lock operations shared one flush to a node, on average.
	OpsPerFlush float64 `json:"ops_per_flush"`
	// ErrorsByKind counts calls, releases included, that failed for another reason than a holder,
	// by what was wrong: the first word of a node's answer, or a short text. A call counts once for
	// each kind that its nodes reported.
	ErrorsByKind map[string]uint64 `json:"errors_by_kind,omitempty"`
	// GoroutinesBefore is how many goroutines there were before the Clients were made.
	// GoroutinesMost is the most at the same time during the load, callers included, and
	// GoroutinesAfter is how many there were after the Clients were closed. Nodes in this process
	// have goroutines too.
	GoroutinesBefore int `json:"goroutines_before"`
	GoroutinesMost   int `json:"goroutines_most"`
	GoroutinesAfter  int `json:"goroutines_after"`
	// Started is when the first call was made, by the wall clock.
	Started time.Time `json:"started,omitzero"`
	// Series is the run over time.
	Series *series.Series `json:"series,omitempty"`
	// Move is the report of the scenario Move, and nil in others.
	Move *fleet.Report `json:"move,omitempty"`
	// FaultReport is the rest of the report of a run with faults, and nil in others.
	*FaultReport
	// HoldReport is the rest of the report of the scenario Hold, and nil in others.
	*HoldReport
	// HotReport is the rest of the report of Hot, Cart and Combine, and nil in others.
	*HotReport
	// Batches is the rest of the report of the scenario Combine, and nil in others. WaitMs is there
	// the time from a call until the work of its batch began.
	*batches.Report
}

// FaultReport is the part of a Report that only a run with faults has. The JSON has its fields next
// to those of Report.
type FaultReport struct {
	// Faults are those that happened, in the order in which they began.
	Faults []faults.Result `json:"faults"`
	// KeysAtClose is how many keys of this run the nodes had just after the Clients were closed,
	// added up over the nodes. LeftoverKeys are those that outlived the longest TTL by a second.
	KeysAtClose int `json:"keys_at_close"`
}

// ReportConfig is the Config of a run, as far as it can be repeated. Nodes has neither users nor
// passwords.
type ReportConfig struct {
	// Nodes is "local:N", "inprocess:N", "cluster:N", or the addresses of external nodes with
	// commas between them.
	Nodes string `json:"nodes"`
	// Groups is how many groups of one size the nodes were divided into, in their order.
	Groups int `json:"groups"`
	// Callers is how many goroutines called at the same time, without those of Cold.
	Callers int `json:"callers"`
	// Clients is how many Clients shared the callers.
	Clients int `json:"clients"`
	// DurationS is how long the run was to last, in seconds.
	DurationS float64 `json:"duration_s"`
	// Rate is calls a second, or 0 for a closed loop.
	Rate float64 `json:"rate"`
	// Keys is the size of the key space: in the scenario Hot the number of hot keys, in Hold that
	// of leases. In Cart the hot keys are not among them.
	Keys int `json:"keys"`
	// Batch is the number of keys a call: 1 in the scenarios Single and Hot, and in Cart 1 and
	// Others.
	Batch int `json:"batch"`
	// Hot is the number of hot keys of the scenario Cart, Others is how many other keys its callers
	// ask for in a call, and Cold is the number of its cold callers.
	Hot    int `json:"hot,omitempty"`
	Others int `json:"others,omitempty"`
	Cold   int `json:"cold,omitempty"`
	// HoldMs is how long a caller kept what it was granted, in milliseconds: in the scenario Hold
	// the duration.
	HoldMs float64 `json:"hold_ms"`
	// WorkMs is the time for each item of a batch in addition, in the scenario Combine.
	WorkMs float64 `json:"work_ms,omitempty"`
	// AutoExtendMs is the longest time for which the Clients extended each lease automatically, in
	// milliseconds.
	AutoExtendMs float64 `json:"auto_extend_ms"`
	// Fencing is whether every lock was taken with fencing.
	Fencing bool `json:"fencing,omitempty"`
	// TTLMs is the lease time in milliseconds.
	TTLMs float64 `json:"ttl_ms"`
	// Seed is the seed of the choice of keys.
	Seed uint64 `json:"seed"`
	// Faults is what was to happen to nodes, and FaultSeed is the seed of the random ones.
	Faults    string `json:"faults,omitempty"`
	FaultSeed uint64 `json:"fault_seed,omitempty"`
	// Prefix is what every key of the run began with.
	Prefix string `json:"prefix"`
}

// Safe reports whether the run showed no two holders of one key at the same time, no key that was
// left behind, no fence that was not above earlier ones and, in the scenario Hold, no lease that
// was lost or missing.
func (r *Report) Safe() bool {
	kept := r.HoldReport == nil || r.Lost == 0 && r.Missing == 0
	return kept && r.Violations == 0 && r.FenceRegressions == 0 && r.LeftoverKeys == 0
}

// InProcess reports whether the nodes were in this process. Then nobody knows which part of the
// process's CPU time, memory and allocations is that of the Clients.
func (r *Report) InProcess() bool { return r.Backend == nodes.InProcess }

// reportConfig returns the ReportConfig of what withScenario returned.
func reportConfig(cfg Config, plan nodes.Plan, prefix string) ReportConfig {
	return ReportConfig{
		Nodes:        plan.String(),
		Groups:       cfg.Groups,
		Callers:      cfg.Callers,
		Clients:      cfg.Clients,
		DurationS:    cfg.Duration.Seconds(),
		Rate:         cfg.Rate,
		Keys:         cfg.Keys,
		Batch:        cfg.perCall(),
		Hot:          cfg.Hot,
		Others:       cfg.Others,
		Cold:         cfg.Cold,
		HoldMs:       series.Milliseconds(cfg.Hold),
		WorkMs:       series.Milliseconds(cfg.Work),
		AutoExtendMs: series.Milliseconds(cfg.AutoExtend),
		Fencing:      cfg.Fencing,
		TTLMs:        series.Milliseconds(cfg.TTL),
		Seed:         cfg.Seed,
		Faults:       cfg.Faults,
		FaultSeed:    cfg.FaultSeed,
		Prefix:       prefix,
	}
}

// fill enters what was measured. r.Backend must be known.
func (r *Report) fill(m measured) {
	r.Started, r.DurationS, r.Series = m.started.Round(0), m.elapsed.Seconds(), m.series
	r.Acquired = m.acquired
	r.Released = m.counts.Released
	r.Refused = m.counts.Refused
	r.NoQuorum = m.counts.NoQuorum
	r.Expired = m.counts.Expired
	r.Lost = m.counts.Lost
	r.Errors = m.counts.Errors
	if m.counts.firstError != nil {
		r.FirstError = m.counts.firstError.Error()
	}
	r.ErrorsByKind = m.counts.byKind
	r.Unserved = m.unserved
	r.Violations, r.FenceRegressions = m.violations, m.backward
	r.HotReport, r.Report, r.Move = m.hot, m.combine, m.move
	r.AcquireMs, r.ReleaseMs = m.acquire, m.release
	r.LocksPerS = per(float64(m.acquired), r.DurationS)
	cpu := per(float64(m.used.CPU)/float64(time.Microsecond), float64(m.acquired))
	allocs := per(float64(m.used.Allocs), float64(m.acquired))
	if r.InProcess() {
		r.CPUUsPerLockWithNodes, r.AllocsPerLockWithNodes = &cpu, &allocs
	} else {
		r.ClientCPUUsPerLock, r.AllocsPerLock = &cpu, &allocs
	}
}

// per returns a quotient, or 0 if there is nothing to divide by.
func per(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
