package multiplex

import (
	"sync/atomic"
	"time"
)

// How many keys must wait before they leave beside a flush that is under way; see batch.Config.
// Beside a near node the two ends' work is what takes time, and a flush of few keys costs more of
// it than the wait saves. To a far one the way is, which costs no work.
const (
	nearThreshold = 128
	farThreshold  = 8
	// farFrom is several times what a trip within a data centre's rack takes, and what the work for
	// a small flush does.
	farRTT = 500 * time.Microsecond
)

// distance is how far a node is: the fastest trip since it was connected, in which there is hardly
// any work. Zero before the first.
type rtt struct{ fastest atomic.Int64 }

func (d *rtt) reset() { d.fastest.Store(0) }

// travelled takes the time of a trip.
func (d *rtt) observe(trip time.Duration) {
	for {
		fastest := d.fastest.Load()
		if fastest != 0 && fastest <= int64(trip) ||
			d.fastest.CompareAndSwap(fastest, int64(trip)) {
			return
		}
	}
}

func (d *rtt) overlapThreshold() int {
	if d.fastest.Load() >= int64(farRTT) {
		return farThreshold
	}
	return nearThreshold
}
