package stats

// Row is how often one thing had one outcome.
type Row struct {
	What    string // call, attempt, lease, extension or release
	Kind    string // of a call
	Outcome Outcome
	Count   uint64
	// Of a call its time until the grant, of an attempt the time that it took, of a lease the time
	// for which it was held. Calls that failed, extensions and releases have none.
	Durations Snapshot
}

// Rows returns what was counted, also each outcome that has not occurred.
func (c *Counters) Rows() []Row {
	var rows []Row
	for k, kind := range kinds {
		for _, o := range callOutcomes {
			r := Row{What: "call", Kind: kind, Outcome: o, Count: c.failures[k][o].Load()}
			if o == Granted {
				r.Durations = c.grants[k].Snapshot()
				r.Count = r.Durations.Total()
			}
			rows = append(rows, r)
		}
	}
	for _, o := range attemptOutcomes {
		rows = append(rows, timed("attempt", o, c.attemptsOf(o)))
	}
	for _, o := range endOutcomes {
		rows = append(rows, timed("lease", o, c.holds[o].Snapshot()))
	}
	for _, o := range extensionOutcomes {
		rows = append(rows, Row{What: "extension", Outcome: o, Count: c.extensions[o].Load()})
	}
	for _, o := range releaseOutcomes {
		rows = append(rows, Row{What: "release", Outcome: o, Count: c.releases[o].Load()})
	}
	return rows
}

// Leases returns how many extensions were confirmed, and how many leases have expired or were lost.
func (c *Counters) Leases() (extended, expired, lost uint64) {
	return c.extensions[Confirmed].Load(), c.holds[Expired].Snapshot().Total(),
		c.holds[Lost].Snapshot().Total()
}

// timed returns a row of which each count has a duration.
func timed(what string, o Outcome, took Snapshot) Row {
	return Row{What: what, Outcome: o, Count: took.Total(), Durations: took}
}

// attemptsOf returns the attempts with an outcome. A Try or an Each call makes one attempt, which
// is not counted twice, to spare the usual call a part of its cost.
func (c *Counters) attemptsOf(o Outcome) Snapshot {
	s := c.attempts[o].Snapshot()
	if o == Granted {
		s = s.Add(c.grants[Try].Snapshot()).Add(c.grants[Each].Snapshot())
	}
	return s
}
