package node

// StandIn returns a Node.SendFlush for tests: the function answers the flush in place of a server.
// It is given what the node would send, one flush after another, in the order of the wire.
func StandIn(server func(operations []Operation, answers []Answer)) func(*Flush) {
	return func(f *Flush) {
		f.node.order.Lock()
		f.node.joinLine(f)
		f.build(nil)
		f.node.order.Unlock()
		f.awaitTurn()
		f.Counts = true
		var operations []Operation
		var at []int
		for i, r := range f.Answers {
			if r.Replied { // as build leaves what it sends
				operations, at = append(operations, f.Ops[i]), append(at, i)
			}
		}
		if len(operations) == 0 {
			return
		}
		answers := make([]Answer, len(operations))
		server(operations, answers)
		for k, r := range answers {
			f.Answers[at[k]] = r
			f.Counts = f.Counts && r.Replied
		}
	}
}
