package batch

// Draft has operations that leave together: nothing else joins their round. If they are heavier
// than MaxWeight, they are several rounds, one behind the other. An operation can be cancelled from
// Append on, as any other. A draft that has operations must be submitted: Close waits for it. It
// belongs to one goroutine, and can be used again after Submit.
type Draft[Op, State any] struct {
	log    *Log[Op, State]
	rounds []*Round[Op, State] // guarded by the log's mu, because they are open
}

// Draft returns an empty draft.
func (l *Log[Op, State]) Draft() *Draft[Op, State] { return &Draft[Op, State]{log: l} }

// Append is Log.Append, but the operation waits for Submit. Its place in the log is behind
// everything that was appended before Submit.
func (d *Draft[Op, State]) Append(op *Op, readers uint64) (Place[Op, State], error) {
	return d.log.append(op, readers, d)
}

// Submit puts the operations that were not cancelled into the log. Of the functions of Config, it
// calls only Emptied and OverlapAt.
func (d *Draft[Op, State]) Submit() {
	l := d.log
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range d.rounds {
		if r.live > 0 {
			l.open = append(l.open, r)
		} else if l.cfg.Emptied != nil {
			l.cfg.Emptied(r)
		}
	}
	clear(d.rounds)
	d.rounds = d.rounds[:0]
	l.advance()
}
