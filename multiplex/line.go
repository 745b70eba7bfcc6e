package multiplex

// placeInLine is the place of a flush among those of its node. Their answers are handled in the
// order in which they were sent. So if an answer of a claim is handled, everything that was sent
// before it for that claim was handled too.
type placeInLine struct {
	joined, follows bool
	next            *flush        // the one behind it; guarded by node.order
	turn            chan struct{} // of capacity 1: the one before it was handled
}

// joinLine puts a flush behind those that were sent before. node.order is held.
func (n *node) joinLine(f *flush) {
	f.place.joined = true
	if f.place.follows = n.lastInLine != nil; f.place.follows {
		n.lastInLine.place.next = f
	}
	n.lastInLine = f
}

// awaitTurn returns when the answers before those of the flush were handled.
func (f *flush) awaitTurn() {
	if f.place.follows {
		<-f.place.turn
	}
}

// leaveLine says that the answers of a flush were handled, if it joined.
func (n *node) leaveLine(f *flush) {
	if !f.place.joined {
		return
	}
	n.order.Lock()
	defer n.order.Unlock()
	if n.lastInLine == f {
		n.lastInLine = nil
	}
	if f.place.next != nil {
		f.place.next.place.turn <- struct{}{}
	}
	f.place.joined, f.place.follows, f.place.next = false, false, nil
}
