package node

// A flush has a place among those of its node: a number, counted from 1. Their answers are handled
// in the order in which they were sent. So if an answer of a claim is handled, everything that was
// sent before it for that claim was handled too.

// joinLine puts a flush behind those that were sent before. Node.order is held.
func (n *Node) joinLine(f *Flush) {
	n.places++
	f.place = n.places
}

// awaitTurn returns when the answers before those of the flush were handled.
func (f *Flush) awaitTurn() {
	n := f.node
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.handled != f.place-1 {
		n.nextTurn.Wait()
	}
}

// leaveLine says that the answers of a flush were handled, if it joined.
func (n *Node) leaveLine(f *Flush) {
	if f.place == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handled, f.place = f.place, 0
	n.nextTurn.Broadcast()
}
