package lockpipe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// countALock is all that a Client counts for one lock.
func (m *meters) countALock(epoch time.Time) {
	o := callOptions{}
	m.granted(&o, epoch.Add(200*time.Microsecond), epoch)
	m.ended(ErrReleased, 200*time.Microsecond)
	m.released(nil)
}

// The goal: to count takes no memory, since every call does it.
func TestCountingTakesNoMemory(t *testing.T) {
	var m meters
	epoch := time.Now()
	require.Zero(t, testing.AllocsPerRun(100, func() { m.countALock(epoch) }))
}

// BenchmarkMeters is what counting costs for each lock where all processors do nothing else. A lock
// takes about 8 us of client CPU.
func BenchmarkMeters(b *testing.B) {
	var m meters
	epoch := time.Now()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.countALock(epoch)
		}
	})
}
