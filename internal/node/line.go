package node

import "slices"

// The flushes of a node are in a line, in the order in which they were sent on any connection.
// Their answers are handled in that order. So if an answer of a claim is handled, everything that
// was sent before it for that claim was handled too.

// joinLine puts a flush behind those that were sent before. Node.order is held.
func (n *Node) joinLine(f *Flush) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.line = append(n.line, f)
}

// answered says that a flush is over, and handles it when those before it were handled. Only one
// goroutine at a time handles the flushes of the node.
func (n *Node) answered(f *Flush) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if f.isOver = true; n.handling {
		return
	}
	n.handling = true
	for len(n.line) > 0 && n.line[0].isOver {
		first := n.line[0]
		n.line = slices.Delete(n.line, 0, 1)
		n.mu.Unlock()
		n.handle(first)
		n.mu.Lock()
	}
	n.handling = false
}

// handle takes the answers of a flush, and its memory.
func (n *Node) handle(f *Flush) {
	n.countFailures(f.Answers)
	if f.Reading != nil {
		n.noteAnswered(f)
		n.noteAcquireErrors(f.Ops, f.Answers)
		n.takeAnswers(f)
	} else {
		for i, o := range f.Ops {
			o.Record(n.index, f.Answers[i])
		}
		close(f.recorded)
	}
	n.recycle(f)
}
