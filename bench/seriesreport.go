package bench

// Series is a run over time, in at most a few hundred intervals of one length, whatever the run
// lasted. The counts of all intervals together are those of the Report.
type Series struct {
	// StepS is the length of the intervals in seconds: 0.1, and more in longer runs.
	StepS float64 `json:"step_s"`
	// Intervals are those from the first call until the last release, in order and without a gap.
	Intervals []Interval `json:"intervals"`
	// AcquireHistogram, WaitHistogram and ReleaseHistogram are how the times that AcquireMs, WaitMs
	// and ReleaseMs sum up are distributed, from the shortest to the longest; waits are of the
	// scenario Hot only.
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
	// Flushes is how many trips were made to it, Operations what they carried, Connects how often
	// it came up, and Disconnects how often it did not stay so.
	Flushes     uint64 `json:"flushes"`
	Operations  uint64 `json:"operations"`
	Connects    uint64 `json:"connects"`
	Disconnects uint64 `json:"disconnects"`
	// FlushMs is how long the trips took that ended, as nearly as lockpipe.NodeStats tells; Max is
	// an upper bound, of at most 10 s.
	FlushMs Spread `json:"flush_ms"`
	// Failures is how many operations it had no vote for, by the reason, as lockpipe.NodeFailures
	// has them; reasons without any are left out.
	Failures map[string]uint64 `json:"failures,omitempty"`
	// FlushesEach, FlushP50MsEach, FlushP99MsEach and FailuresEach are the trips, how long they
	// took, and the failures in each of the intervals of the Series.
	FlushesEach    []uint64  `json:"flushes_each"`
	FlushP50MsEach []float64 `json:"flush_p50_ms_each"`
	FlushP99MsEach []float64 `json:"flush_p99_ms_each"`
	FailuresEach   []uint64  `json:"failures_each"`
}

// Interval is what happened in one part of a run. Counts are of keys, as in Report, at the moment
// when a call returned.
type Interval struct {
	// AtS is when it began, in seconds since the first call, and LengthS how long it is: that of
	// the last one differs from StepS.
	AtS     float64 `json:"at_s"`
	LengthS float64 `json:"length_s"`
	Tally
	// AcquireMs, WaitMs and ReleaseMs are what the Report has by these names, of the calls that
	// returned in the interval.
	AcquireMs Spread `json:"acquire_ms,omitzero"`
	WaitMs    Spread `json:"wait_ms,omitzero"`
	ReleaseMs Spread `json:"release_ms,omitzero"`
}

// Tally has the counts that Report has by the same names.
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

// Spread is a distribution in milliseconds, precise to 6 %. It is all zero where nothing was
// measured.
type Spread struct {
	// Calls is of how many.
	Calls uint64 `json:"calls"`
	// P50, P90 and P99 are what so many of 100 did not exceed.
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	// Max is the slowest.
	Max float64 `json:"max"`
}

// Bucket is how many calls took a time from FromMs to before ToMs, in milliseconds. Each bucket
// begins where the one before ends.
type Bucket struct {
	FromMs float64 `json:"from_ms"`
	ToMs   float64 `json:"to_ms"`
	Calls  uint64  `json:"calls"`
}

// less is what t has more than before.
func (t Tally) less(before Tally) Tally {
	t.Acquired -= before.Acquired
	t.Released -= before.Released
	t.Refused -= before.Refused
	t.NoQuorum -= before.NoQuorum
	t.Expired -= before.Expired
	t.Lost -= before.Lost
	t.Errors -= before.Errors
	t.Extended -= before.Extended
	return t
}

func (t *Tally) add(more Tally) {
	t.Acquired += more.Acquired
	t.Released += more.Released
	t.Refused += more.Refused
	t.NoQuorum += more.NoQuorum
	t.Expired += more.Expired
	t.Lost += more.Lost
	t.Errors += more.Errors
	t.Extended += more.Extended
}
