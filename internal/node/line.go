package node

// placeInLine is the place of a flush among those of its node. Their answers are handled in the
// order in which they were sent. So if an answer of a claim is handled, everything that was sent
// before it for that claim was handled too.
type placeInLine struct {
	joined, follows bool
	next            *Flush        // the one behind it; guarded by Node.order
	turn            chan struct{} // of capacity 1: the one before it was handled
}

// joinLine puts a flush behind those that were sent before. Node.order is held.
func (n *Node) joinLine(f *Flush) {
	f.place.joined = true
	if f.place.follows = n.lastInLine != nil; f.place.follows {
		n.lastInLine.place.next = f
	}
	n.lastInLine = f
}

// awaitTurn returns when the answers before those of the flush were handled.
func (f *Flush) awaitTurn() {
	if f.place.follows {
		<-f.place.turn
	}
}

// leaveLine says that the answers of a flush were handled, if it joined.
func (n *Node) leaveLine(f *Flush) {
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
