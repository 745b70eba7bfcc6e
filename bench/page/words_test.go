package page

import (
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe/bench"
	"github.com/stretchr/testify/require"
)

// Goal: the heading says in words what the callers did.
func TestTitle_IsInWords(t *testing.T) {
	for want, c := range map[string]struct {
		scenario bench.Scenario
		config   bench.ReportConfig
	}{
		"256 callers, each tries one of 100,000 keys": {
			bench.Single, bench.ReportConfig{Callers: 256, Keys: 100_000},
		},
		"8 callers, 100 of 1,000 keys a call as one lease": {
			bench.Batch, bench.ReportConfig{Callers: 8, Keys: 1000, Batch: 100},
		},
		"1 caller, 2 of 9 keys a call, with a lease for each": {
			bench.Each, bench.ReportConfig{Callers: 1, Keys: 9, Batch: 2},
		},
		"8 callers, all wait for one key": {
			bench.Hot, bench.ReportConfig{Callers: 8, Keys: 1},
		},
		"8 callers, each waits for one of 2 keys": {
			bench.Hot, bench.ReportConfig{Callers: 8, Keys: 2},
		},
		"8 callers, each waits for the hot key and 2 other keys as one lease": {
			bench.Cart, bench.ReportConfig{Callers: 8, Keys: 9, Hot: 1, Others: 2},
		},
		"0 leases, held by automatic extension": {bench.Hold, bench.ReportConfig{}},
		"scenario new":                          {"new", bench.ReportConfig{}},
	} {
		text := written(t, &bench.Report{Scenario: c.scenario, Config: c.config}, nil)
		require.Contains(t, text, "<h1>loadgen: "+want+"</h1>")
	}
}

// Goal: a reader who sees calls without a quorum finds what that means, also while a node is
// frozen.
func TestVerdict_ExplainsNoQuorum(t *testing.T) {
	const base, frozen = "No quorum: too few nodes", "A frozen node says neither."
	r := report()
	text := written(t, r, nil)
	require.Contains(t, text, base)
	require.Contains(t, text, frozen)
	r.FaultReport = nil
	text = written(t, r, nil)
	require.Contains(t, text, base)
	require.NotContains(t, text, frozen)
	r.NoQuorum = 0
	require.NotContains(t, written(t, r, nil), base)
}

// Goal: the line of other libraries is of the scenario that is most like the run, and a run that is
// like none says so.
func TestPeers_NearestScenarioIsShown(t *testing.T) {
	const file = `{"runs": [{"scenarios": ["64"], "when": "2026-11-23T06:32:07Z", "nodes": 5,
		"cpu_model": "a <processor>", "cpus": 2}], "scenarios": [
		{"scenario": "64", "callers": 64, "keys_per_call": 1, "contenders": [
			{"contender": "lockpipe", "locks_per_second": 78512},
			{"contender": "other", "locks_per_second": 9140.4,
				"lock_rests_on": "ONE node by design"}]},
		{"scenario": "512", "callers": 512, "keys_per_call": 1, "contenders": [
			{"contender": "lockpipe", "locks_per_second": 1}]}]}`
	r := report()
	r.Scenario, r.Config.Callers = bench.Single, 128
	line, err := Peers(strings.NewReader(file), r)
	require.NoError(t, err)
	require.Equal(t, "Measured apart, 64 callers with 1 key a call on 5 nodes (2 CPUs, a <processor>,"+
		" 23 November 2026), in keys/s: lockpipe 78,500; other 9,140 (a lock is on one node).", line)
	var page strings.Builder
	require.NoError(t, Write(&page, r, nil, line))
	require.Contains(t, page.String(), "a &lt;processor&gt;")

	r.Scenario = bench.Cart
	_, err = Peers(strings.NewReader(file), r)
	require.ErrorIs(t, err, ErrNoPeers)
	_, err = Peers(strings.NewReader("{"), r)
	require.Error(t, err)
}
