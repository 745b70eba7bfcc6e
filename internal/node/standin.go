package node

// StandIn returns a Node.SendFlush for tests: the function answers the flush in place of a server.
// It is given what the node would send, one flush after another, in the order of the wire.
func StandIn(server func(operations []Operation, answers []Answer)) func(*Flush) {
	last := make(chan struct{}) // closed when the flush before was answered
	close(last)
	return func(f *Flush) {
		f.node.order.Lock()
		f.node.joinLine(f)
		f.build(nil)
		before, own := last, make(chan struct{})
		last = own
		f.node.order.Unlock()
		go func() {
			<-before
			f.answerBy(server)
			close(own)
			f.node.answered(f)
		}()
	}
}

// answerBy has the function answer what build has left to be sent.
func (f *Flush) answerBy(server func(operations []Operation, answers []Answer)) {
	var operations []Operation
	var at []int
	for i, r := range f.Answers {
		if r.Replied {
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
