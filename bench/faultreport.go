package bench

// FaultReport is what a run with faults tells beside what every run reports. Its fields stand in
// the JSON beside those of Report.
type FaultReport struct {
	// Faults are those that happened, in the order in which they began.
	Faults []FaultResult `json:"faults"`
	// KeysAtClose is how many keys of this run the nodes had just after the Clients were closed,
	// added up over the nodes. Where there were any, LeftoverKeys was counted a second after the
	// longest TTL.
	KeysAtClose int `json:"keys_at_close"`
}

// FaultResult is one fault that happened.
type FaultResult struct {
	// Fault is what was asked for, or drawn.
	Fault string `json:"fault"`
	// Action is what was done, and Node the number of the node that it was done to, from 1.
	Action string `json:"action"`
	Node   int    `json:"node"`
	// FromS and UntilS are when it began and when it was over, in seconds since the first call.
	FromS  float64 `json:"from_s"`
	UntilS float64 `json:"until_s"`
	// Error says what could not be done to the node.
	Error string `json:"error,omitempty"`
}
