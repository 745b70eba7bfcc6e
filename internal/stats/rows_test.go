package stats

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: each outcome has one row, also if it has not occurred.
func TestRows_HaveEachOutcomeOnce(t *testing.T) {
	type name struct {
		what, kind string
		outcome    Outcome
	}
	seen := make(map[name]bool)
	new(Counters).Rows(func(what, kind string, o Outcome, count uint64, took Snapshot) {
		n := name{what, kind, o}
		require.False(t, seen[n], "%v is there twice", n)
		seen[n] = true
		require.Zero(t, count)
		require.Zero(t, took.Total())
	})
	require.Len(t, seen, len(kinds)*(1+len(callFailures))+1+len(attemptFailures)+
		len(endOutcomes)+len(extensionOutcomes)+len(releaseOutcomes))
}

// The goal: what is counted once is in each row that it belongs to, and in no other.
func TestRows_HaveWhatWasCounted(t *testing.T) {
	var c Counters
	c.countALock()
	c.Failures[Each][Held].Add(3)
	c.Extensions[Lost].Add(1)
	counts, durations := make(map[string]uint64), make(map[string]time.Duration)
	c.Rows(func(what, kind string, o Outcome, count uint64, took Snapshot) {
		if count > 0 {
			row := what + " " + kind + " " + o.String()
			counts[row], durations[row] = count, took.Sum
		}
	})
	require.Equal(t, map[string]uint64{
		"call try granted": 1, "call each held": 3, "attempt  granted": 1, "lease  released": 1,
		"extension  lost": 1, "release  confirmed": 1,
	}, counts)
	const took = 200 * time.Microsecond
	require.Equal(t, map[string]time.Duration{
		"call try granted": took, "call each held": 0, "attempt  granted": took,
		"lease  released": took, "extension  lost": 0, "release  confirmed": 0,
	}, durations)
}
