package stats

// Rows calls row for all that was counted, also for each outcome that has not occurred: how often
// one thing had one outcome, a call of a kind, an attempt, a lease, an extension or a release. took
// is the time of a call until its grant, that of an attempt, or that for which a lease was held.
// Calls that failed, extensions and releases have none.
func (c *Counters) Rows(
	row func(what, kind string, o Outcome, count uint64, took Snapshot),
) {
	timed := func(what, kind string, o Outcome, took Snapshot) {
		row(what, kind, o, took.Total(), took)
	}
	granted := c.Attempts[Granted].Snapshot()
	for k, kind := range kinds {
		took := c.Grants[k].Snapshot()
		timed("call", kind, Granted, took)
		for _, o := range callFailures {
			row("call", kind, o, c.Failures[k][o].Load(), Snapshot{})
		}
		// A Try or an Each call makes one attempt, which is not counted twice, to spare the usual
		// call a part of its cost.
		if Call(k) == Try || Call(k) == Each {
			granted = granted.Add(took)
		}
	}
	timed("attempt", "", Granted, granted)
	for _, o := range attemptFailures {
		timed("attempt", "", o, c.Attempts[o].Snapshot())
	}
	for _, o := range endOutcomes {
		timed("lease", "", o, c.Holds[o].Snapshot())
	}
	for _, o := range extensionOutcomes {
		row("extension", "", o, c.Extensions[o].Load(), Snapshot{})
	}
	for _, o := range releaseOutcomes {
		row("release", "", o, c.Releases[o].Load(), Snapshot{})
	}
}
