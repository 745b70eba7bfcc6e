package bench

// HoldReport is the part of a Report that only the scenario Hold has. The JSON has its fields next
// to those of Report.
type HoldReport struct {
	// Leases is how many leases were taken, and held at the same time.
	Leases int `json:"leases"`
	// ExtensionsPerS is how many extensions a second were confirmed while all leases were held.
	ExtensionsPerS float64 `json:"extensions_per_s"`
	// ClientRSSBytesPerLease is how much the resident set of this process grew for each lease, from
	// just before the first lease to its largest while all were held. It includes all that the
	// Clients keep for a lease, the names of keys, what is the same for any number of leases, and
	// the garbage that Go's default settings (GOGC=100, no memory limit) leave until the next
	// collection. The measurement itself adds 8 bytes a lease and the series of the report, some
	// 300 bytes for each of its intervals and nodes. It is 0 if the system does not report it, and
	// nil with backend "in-process", where RSSBytesPerLeaseWithNodes has the sum with the nodes.
	ClientRSSBytesPerLease    *float64 `json:"client_rss_bytes_per_lease,omitempty"`
	RSSBytesPerLeaseWithNodes *float64 `json:"rss_bytes_per_lease_with_nodes,omitempty"`
	// ClientCPUCores is the CPU time of this process per time while all leases were held, sampling
	// included: 0.5 is half of one core. It is nil with backend "in-process", as the memory is.
	ClientCPUCores    *float64 `json:"client_cpu_cores,omitempty"`
	CPUCoresWithNodes *float64 `json:"cpu_cores_with_nodes,omitempty"`
	// Samples is how many leases, chosen at random, were looked up on the nodes.
	Samples uint64 `json:"samples"`
	// Missing is how many of them a quorum of the nodes did not confirm, although the Client held
	// them to be valid before and after. The nodes had another value, no key, or no or a too long
	// time to live, or did not answer within a second.
	Missing uint64 `json:"dead"`
	// FirstMissing is what the nodes had of one of these.
	FirstMissing string `json:"first_dead,omitempty"`
	// Unanswered is how often a node gave no answer to a sample that waited for it.
	Unanswered uint64 `json:"unanswered"`
	// TakeS is how long it took in seconds to take all leases.
	TakeS float64 `json:"take_s"`
	// KeepS is how long all leases were held, in seconds.
	KeepS float64 `json:"keep_s"`
	// GiveS is how long it took in seconds to release all leases.
	GiveS float64 `json:"give_s"`
}

// includeNodes says that the nodes are in what was measured of this process.
func (h *HoldReport) includeNodes() {
	h.RSSBytesPerLeaseWithNodes, h.ClientRSSBytesPerLease = h.ClientRSSBytesPerLease, nil
	h.CPUCoresWithNodes, h.ClientCPUCores = h.ClientCPUCores, nil
}
