package lease

import "time"

// While leases have time, few of them are extended at once: hundreds keep the nodes busy for longer than an acquire takes, and whoever acquires
// meanwhile waits for that. What is due and has time is extended so; but where the nearest deadline is near, or what is due was not all sent within
// a moment, because it is too much for that or because something hangs, everything goes at once until nothing is left.
const (
	// fewLeases is how many are extended at once while there is time, in one batch.
	fewLeases = 64
	// calm is for how long that is enough.
	calm = 20 * time.Millisecond
	// ample is the time that the nearest deadline is away then, at least: many times calm, and shorter TTLs never wait for others.
	ample = time.Second
)

// pace is how many batches may be under way, and how many leases may be in one. Something is ready; mu is held.
func (m *Manager) pace(now instant) (batches, leases int) {
	if now < m.since.after(calm) && m.ready[0].at > now.after(ample) {
		return 1, fewLeases
	}
	return maxBatches, maxBatch
}
