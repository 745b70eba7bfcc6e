package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/figures"
)

// ErrNoPeers means that no measurement of other libraries is like the run.
var ErrNoPeers = errors.New("no scenario of bench/peers is like this run")

// measurements is what bench/peers writes.
type measurements struct {
	Runs []struct {
		Scenarios []string  `json:"scenarios"`
		When      time.Time `json:"when"`
		CPUModel  string    `json:"cpu_model"`
		CPUs      int       `json:"cpus"`
		Nodes     int       `json:"nodes"`
	} `json:"runs"`
	Scenarios []measurement `json:"scenarios"`
}

type measurement struct {
	Scenario   string `json:"scenario"`
	Callers    int    `json:"callers"`
	Keys       int    `json:"keys_per_call"`
	Contenders []struct {
		Contender string  `json:"contender"`
		PerSecond float64 `json:"locks_per_second"`
		Where     string  `json:"lock_rests_on"`
	} `json:"contenders"`
}

// peersLike has the scenarios of bench/peers that are like one of loadgen.
var peersLike = map[bench.Scenario][]string{
	bench.Single: {"one", "64", "512"}, bench.Batch: {"batch"}, bench.Each: {"batch"},
	bench.Hot: {"hot"},
}

// Peers reads a file of bench/peers, and returns a line with what other libraries did in the
// scenario that is most like the run. It returns ErrNoPeers if there is none, or an error if the
// file is of another kind.
func Peers(file io.Reader, r *bench.Report) (string, error) {
	var all measurements
	if err := json.NewDecoder(file).Decode(&all); err != nil {
		return "", err
	}
	var best *measurement
	distance := func(m *measurement) float64 {
		return math.Abs(math.Log(float64(max(m.Callers, 1)) / float64(max(r.Config.Callers, 1))))
	}
	for i := range all.Scenarios {
		m := &all.Scenarios[i]
		if slices.Contains(peersLike[r.Scenario], m.Scenario) &&
			(best == nil || distance(m) < distance(best)) {
			best = m
		}
	}
	if best == nil || len(best.Contenders) == 0 {
		return "", ErrNoPeers
	}
	where := ""
	for _, run := range all.Runs {
		if slices.Contains(run.Scenarios, best.Scenario) {
			where = fmt.Sprintf(" on %s (%d CPUs, %s, %s)", figures.Plural(run.Nodes, "node"),
				run.CPUs, run.CPUModel, run.When.Format("2 January 2006"))
		}
	}
	var each []string
	for _, c := range best.Contenders {
		text := c.Contender + " " + figures.SignificantThousands(c.PerSecond)
		if strings.HasPrefix(c.Where, "ONE ") {
			text += " (a lock is on one node)"
		}
		each = append(each, text)
	}
	return fmt.Sprintf("Measured apart, %s with %s a call%s, in keys/s: %s.",
		figures.Plural(best.Callers, "caller"), figures.Plural(best.Keys, "key"), where,
		strings.Join(each, "; ")), nil
}
