package main

import (
	"slices"
	"time"
)

// percentile returns the nearest-rank percentile of sorted samples, 0 of none.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

// jain returns Jain's index of fairness of what each of several got, 0 if they got nothing.
func jain(shares []float64) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	return ratio(sum*sum, float64(len(shares))*squares)
}

// median returns the middle value, of an even number the mean of the two middle ones, 0 of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// summary is one contestant's line: medians over its rounds.
type summary struct {
	Contender string `json:"contender"`
	Where     string `json:"lock_rests_on"`
	// PerSecond is the median of the rounds' locks per second; Lowest and Highest are the extremes.
	PerSecond float64 `json:"locks_per_second"`
	Lowest    float64 `json:"lowest"`
	Highest   float64 `json:"highest"`
	// Ratio is PerSecond over the baseline's PerSecond: a ratio of medians. 0 if the baseline
	// has none.
	Ratio      float64 `json:"ratio"`
	P50        float64 `json:"p50_us"`
	P99        float64 `json:"p99_us"`
	Max        float64 `json:"max_us"`
	CPUPerLock float64 `json:"client_cpu_us_per_lock"`
	ReleaseP50 float64 `json:"release_p50_us,omitempty"`
	ReleaseP99 float64 `json:"release_p99_us,omitempty"`
	MinShare   float64 `json:"min_share,omitempty"`
	Jain       float64 `json:"jain,omitempty"`
	WorstP99   float64 `json:"worst_p99_us,omitempty"`
	// MallocsPerLock counts the client's allocations; one of them is the key's name.
	MallocsPerLock float64 `json:"allocs_per_lock"`
	// ClientCores and ServerCores are how many processors the client and all nodes together kept
	// busy, 0 if nodes don't report it.
	ClientCores float64 `json:"client_cores"`
	ServerCores float64 `json:"server_cores"`
	Errors      int     `json:"errors"`
	AnError     string  `json:"an_error,omitempty"`
	// Left counts the keys that were still on the nodes some seconds after the last round; -1 if
	// nobody looked.
	Left   int     `json:"keys_left"`
	Rounds []round `json:"rounds"`
}

func summarize(c contestant, rounds []round, left int) summary {
	each := func(f func(round) float64) []float64 {
		values := make([]float64, len(rounds))
		for i, r := range rounds {
			values[i] = f(r)
		}
		return values
	}
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	s := summary{Contender: c.label, Where: c.where, Left: left, Rounds: rounds}
	if speeds := each(round.perSecond); len(speeds) > 0 {
		s.PerSecond, s.Lowest, s.Highest = median(speeds), slices.Min(speeds), slices.Max(speeds)
	}
	s.P50 = median(each(func(r round) float64 { return micros(r.P50) }))
	s.P99 = median(each(func(r round) float64 { return micros(r.P99) }))
	s.CPUPerLock = median(each(round.cpuPerLock))
	s.ReleaseP50 = median(each(func(r round) float64 { return micros(r.ReleaseP50) }))
	s.ReleaseP99 = median(each(func(r round) float64 { return micros(r.ReleaseP99) }))
	s.MallocsPerLock = median(each(round.mallocsPerLock))
	s.ClientCores, s.ServerCores = median(each(round.clientCores)), median(each(round.serverCores))
	s.MinShare = median(each(func(r round) float64 { return r.MinShare }))
	s.Jain = median(each(func(r round) float64 { return r.Jain }))
	s.WorstP99 = median(each(func(r round) float64 { return micros(r.WorstP99) }))
	for _, r := range rounds {
		s.Max = max(s.Max, micros(r.Max))
		s.Errors += r.Errors
		if s.AnError == "" {
			s.AnError = r.AnError
		}
	}
	return s
}

// compare fills in the ratios against the line called base, or against the first line if there
// is none, and returns the name of the line that it took.
func compare(lines []summary, base string) string {
	if len(lines) == 0 {
		return ""
	}
	i := max(slices.IndexFunc(lines, func(s summary) bool { return s.Contender == base }), 0)
	for k := range lines {
		lines[k].Ratio = 0
		if lines[i].PerSecond > 0 {
			lines[k].Ratio = lines[k].PerSecond / lines[i].PerSecond
		}
	}
	return lines[i].Contender
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
