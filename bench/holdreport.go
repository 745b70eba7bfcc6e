package bench

// HoldReport is what the scenario Hold found beside what every scenario reports. Its fields stand
// in the JSON beside those of Report.
type HoldReport struct {
	// Leases is how many leases were taken, and held at once.
	Leases int `json:"leases"`
	// ExtensionsPerS is how many extensions a second were confirmed while all leases were held.
	ExtensionsPerS float64 `json:"extensions_per_s"`
	// ClientRSSBytesPerLease is by how many bytes the resident set of this process grew from just
	// before the first lease to its largest while all were held, per lease: everything that the
	// Clients keep for a lease, names of keys included, what is the same for any number of leases,
	// the garbage that Go's default settings (GOGC=100, no memory limit) leave until the next
	// collection, and of the measurement itself 8 bytes and the series of the report, some 300
	// bytes for each of its intervals and nodes. With backend "in-process" the nodes' memory is in
	// it too. 0 where the system does not tell.
	ClientRSSBytesPerLease float64 `json:"client_rss_bytes_per_lease"`
	// ClientCPUCores is the CPU time of this process per time while all leases were held, sampling
	// included: 0.5 is half of one core. With backend "in-process" the nodes are in it too.
	ClientCPUCores float64 `json:"client_cpu_cores"`
	// Samples is how many leases, chosen at random, were looked up on the nodes.
	Samples uint64 `json:"samples"`
	// Dead is how many of them were not confirmed by a quorum of the nodes, although the Client
	// held them to be valid before and after: the nodes had another value, no key, no or a too long
	// time to live, or did not answer within a second.
	Dead uint64 `json:"dead"`
	// FirstDead is what the nodes said of one of these.
	FirstDead string `json:"first_dead,omitempty"`
	// Unanswered is how often a node gave no answer to a sample, as far as the sample depended on
	// it.
	Unanswered uint64 `json:"unanswered"`
	// TakeS is how long it took in seconds to take all leases.
	TakeS float64 `json:"take_s"`
	// KeepS is how long all leases were held, in seconds.
	KeepS float64 `json:"keep_s"`
	// GiveS is how long it took in seconds to release all leases.
	GiveS float64 `json:"give_s"`
}
