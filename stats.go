package lockpipe

// Stats are counts since New, but for Held and PendingReleases.
type Stats struct {
	// Flushes is the number of flushes to the nodes.
	Flushes uint64
	// Operations is the number of operations that they carried: an acquire on five nodes counts
	// five times.
	Operations uint64
	// Attempts is the number of attempts to acquire that were sent to the nodes.
	Attempts uint64
	// SplitVotes is the number of attempts that failed because contenders divided the votes: the
	// nodes that granted and those that refused were a quorum together. Perhaps no contender got
	// one.
	SplitVotes uint64
	// PendingReleases is the number of releases that are kept now for nodes that could not answer
	// them, added up over the nodes.
	PendingReleases int
	// DroppedReleases is the number of releases that were kept and then dropped, because their keys
	// had expired or too many were kept for a node.
	DroppedReleases uint64
	// Handovers is the number of leases that were handed to a waiting caller of this Client instead
	// of being released.
	Handovers uint64
	// Held is the number of leases that are held now.
	Held int
	// Extended is the number of extensions that a quorum confirmed, automatic ones and those of
	// Lease.Extend.
	Extended uint64
	// Expired and Lost are the numbers of leases that ended by ErrExpired and ErrLost.
	Expired, Lost uint64
	// CallbackPanics is the number of panics in OnLost and in functions given to AcquireAsync.
	CallbackPanics uint64
	// DroppedCallbacks is the number of lost or expired leases for which OnLost was not called,
	// because too many calls of it were waiting.
	DroppedCallbacks uint64
}

// Stats returns the counts.
func (c *Client) Stats() Stats {
	nodes := c.mux.Stats()
	leases := c.leases.Stats()
	return Stats{
		Flushes: nodes.Flushes, Operations: nodes.Operations,
		Attempts: nodes.Attempts, SplitVotes: nodes.SplitVotes, Handovers: c.handovers.Load(),
		PendingReleases: nodes.PendingReleases, DroppedReleases: nodes.DroppedReleases,
		Held: leases.Held, Extended: leases.Extended, Expired: leases.Expired, Lost: leases.Lost,
		CallbackPanics: c.callbacks.Panics(), DroppedCallbacks: c.callbacks.Dropped(),
	}
}
