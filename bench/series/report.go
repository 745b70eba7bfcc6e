package series

// Series is a run over time, in at most a few hundred intervals of one length, for a run of any
// length. The counts of all intervals together are those of the whole run.
type Series struct {
	// StepS is the length of the intervals in seconds: 0.1, and more in longer runs.
	StepS float64 `json:"step_s"`
	// Intervals are those from the first call until the last release, in order and without a gap.
	Intervals []Interval `json:"intervals"`
	// AcquireHistogram, WaitHistogram and ReleaseHistogram are the distributions of the times that
	// the report sums up as AcquireMs, WaitMs and ReleaseMs, from the shortest to the longest. Only
	// the scenarios Hot and Cart have waits. Those of Cart's cold callers are not among them.
	AcquireHistogram []Bucket `json:"acquire_histogram,omitempty"`
	WaitHistogram    []Bucket `json:"wait_histogram,omitempty"`
	ReleaseHistogram []Bucket `json:"release_histogram,omitempty"`
	// Nodes is what each node did, in the order of the configuration, as all Clients together have
	// seen it.
	Nodes []NodeSeries `json:"nodes,omitempty"`
}

// NodeSeries is what one node did during a run: from the first call until the last release.
type NodeSeries struct {
	// Node is its address.
	Node string `json:"node"`
	// Flushes is how many flushes were sent to it, and Operations how many operations they carried.
	// Connects is how often it came up, and Disconnects how often it went down again.
	Flushes     uint64 `json:"flushes"`
	Operations  uint64 `json:"operations"`
	Connects    uint64 `json:"connects"`
	Disconnects uint64 `json:"disconnects"`
	// FlushMs is how long the flushes took that ended, as precisely as lockpipe.NodeStats has it.
	// Max is an upper bound, of at most 10 s.
	FlushMs Spread `json:"flush_ms"`
	// Failures is how many operations it had no vote for, by the reason, as lockpipe.NodeFailures
	// names them. Reasons without any are left out.
	Failures map[string]uint64 `json:"failures,omitempty"`
	// FlushesEach, FlushP50MsEach, FlushP99MsEach and FailuresEach are the flushes, their times and
	// the failures in each of the intervals of the Series.
	FlushesEach    []uint64  `json:"flushes_each"`
	FlushP50MsEach []float64 `json:"flush_p50_ms_each"`
	FlushP99MsEach []float64 `json:"flush_p99_ms_each"`
	FailuresEach   []uint64  `json:"failures_each"`
}

// Interval is what happened in one part of a run. Counts are of keys, at the moment when a call
// returned.
type Interval struct {
	// AtS is when it began, in seconds since the first call. LengthS is its length, which differs
	// from StepS in the last interval.
	AtS     float64 `json:"at_s"`
	LengthS float64 `json:"length_s"`
	Tally
	// AcquireMs, WaitMs and ReleaseMs are what the report has by these names, of the calls that
	// returned in the interval.
	AcquireMs Spread `json:"acquire_ms,omitzero"`
	WaitMs    Spread `json:"wait_ms,omitzero"`
	ReleaseMs Spread `json:"release_ms,omitzero"`
}

// Tally has the counts that the report has by the same names.
type Tally struct {
	Acquired uint64 `json:"acquired,omitempty"`
	Released uint64 `json:"released,omitempty"`
	Refused  uint64 `json:"refused,omitempty"`
	NoQuorum uint64 `json:"no_quorum,omitempty"`
	Expired  uint64 `json:"expired,omitempty"`
	Lost     uint64 `json:"lost,omitempty"`
	Errors   uint64 `json:"errors,omitempty"`
	// Extended is how many extensions a quorum confirmed.
	Extended uint64 `json:"extended,omitempty"`
}

// Latency is a distribution in milliseconds, precise to three digits, from 1 microsecond to 60
// seconds. It is all zero if nothing was measured.
type Latency struct {
	// P50 is the median: half of the calls took no longer.
	P50 float64 `json:"p50"`
	// P90 is the time that 9 of 10 calls did not exceed.
	P90 float64 `json:"p90"`
	// P99 is the time that 99 of 100 calls did not exceed.
	P99 float64 `json:"p99"`
	// P999 is the time that 999 of 1000 calls did not exceed.
	P999 float64 `json:"p999"`
	// Max is the slowest call.
	Max float64 `json:"max"`
	// Mean is the arithmetic mean.
	Mean float64 `json:"mean"`
}

// Spread is a distribution in milliseconds, precise to 6 %. It is all zero if nothing was measured.
type Spread struct {
	// Calls is how many calls were measured.
	Calls uint64 `json:"calls"`
	// P50, P90 and P99 are the times that this many of 100 calls did not exceed.
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	// Max is the slowest call.
	Max float64 `json:"max"`
}

// Bucket is how many calls took a time from FromMs to before ToMs, in milliseconds. Each bucket
// begins where the previous one ends.
type Bucket struct {
	FromMs float64 `json:"from_ms"`
	ToMs   float64 `json:"to_ms"`
	Calls  uint64  `json:"calls"`
}

// minus returns what t has more than before.
func (t Tally) minus(before Tally) Tally {
	return t.with(before, func(a, b uint64) uint64 { return a - b })
}

// Add adds the counts of another Tally.
func (t *Tally) Add(more Tally) {
	*t = t.with(more, func(a, b uint64) uint64 { return a + b })
}

// with combines each count with that of another Tally.
func (t Tally) with(other Tally, combine func(a, b uint64) uint64) Tally {
	return Tally{
		Acquired: combine(t.Acquired, other.Acquired),
		Released: combine(t.Released, other.Released),
		Refused:  combine(t.Refused, other.Refused),
		NoQuorum: combine(t.NoQuorum, other.NoQuorum),
		Expired:  combine(t.Expired, other.Expired),
		Lost:     combine(t.Lost, other.Lost),
		Errors:   combine(t.Errors, other.Errors),
		Extended: combine(t.Extended, other.Extended),
	}
}
