package bench

// Series is a run over time, in at most a few hundred intervals of one length, whatever the run lasted. The counts of all intervals
// together are those of the Report.
type Series struct {
	// StepS is the length of the intervals in seconds: 0.1, and more in longer runs.
	StepS float64 `json:"step_s"`
	// Intervals are those from the first call until the last release, in order and without a gap.
	Intervals []Interval `json:"intervals"`
	// AcquireHistogram, WaitHistogram and ReleaseHistogram are how the times that AcquireMs, WaitMs and ReleaseMs sum up are distributed,
	// from the shortest to the longest; waits are of the scenario Hot only.
	AcquireHistogram []Bucket `json:"acquire_histogram,omitempty"`
	WaitHistogram    []Bucket `json:"wait_histogram,omitempty"`
	ReleaseHistogram []Bucket `json:"release_histogram,omitempty"`
}

// Interval is what happened in one part of a run. Counts are of keys, as in Report, at the moment when a call returned.
type Interval struct {
	// AtS is when it began, in seconds since the first call, and LengthS how long it is: that of the last one differs from StepS.
	AtS     float64 `json:"at_s"`
	LengthS float64 `json:"length_s"`
	Tally
	// AcquireMs, WaitMs and ReleaseMs are what the Report has by these names, of the calls that returned in the interval.
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
	// Extended is how many extensions the Clients counted, automatic ones.
	Extended uint64 `json:"extended,omitempty"`
}

// Spread is a distribution in milliseconds, precise to 6 %. It is all zero where nothing was measured.
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

// Bucket is how many calls took a time from FromMs to before ToMs, in milliseconds. Each bucket begins where the one before ends.
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
