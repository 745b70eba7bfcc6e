package calls

import (
	"math"
	"time"
)

// Pacer is the timetable of an open loop: how many calls a second become due. It is pure: what
// happens in the run does not change it.
type Pacer float64

// Due returns when call n, counted from 0, is due after the start.
func (p Pacer) Due(n uint64) time.Duration {
	return time.Duration(float64(n) / float64(p) * float64(time.Second))
}

// Count returns how many calls are due before d: those n for which Due(n) < d.
func (p Pacer) Count(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	n := uint64(math.Ceil(d.Seconds() * float64(p)))
	// Rounding may be one call off either way.
	for n > 0 && p.Due(n-1) >= d {
		n--
	}
	for p.Due(n) < d {
		n++
	}
	return n
}
