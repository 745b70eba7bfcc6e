package preflight

// checkOther reports a node whose name leads to two servers. Clients that reach different ones do
// not exclude each other.
func (f *findings) checkOther(node *Facts) {
	verb := "answered"
	switch {
	case node.Other.RunID == "":
		return
	case node.Other.Votes:
		verb = "votes"
	}
	f.errorf("leads to more than one server (run_id %s %s, run_id %s answered), and clients that "+
		"reach different ones do not exclude each other: give each server a name of its own, and "+
		"let no Service, load balancer or rolling update put two behind one name",
		node.Other.RunID, verb, node.RunID())
}

// checkPairs reports nodes that are not independent: their votes are one. It compares each node
// with those before it, and reports it once.
func (f *findings) checkPairs(nodes []Facts) {
	for j := range nodes {
		for i := range j {
			if f.checkPair(&nodes[i], &nodes[j]) {
				break
			}
		}
	}
}

// checkPair reports whether it has found something. Two servers know each other's addresses in
// their own network, which may not be that of the client. So the identity of their data counts too.
func (f *findings) checkPair(a, b *Facts) bool {
	const advice = "their votes are not independent; list masters only"
	aMaster, _ := a.master()
	bMaster, _ := b.master()
	data := a.Info["master_replid"]
	switch {
	case sameServer(a, b):
		if b.isVoting() && !a.isVoting() {
			a, b = b, a // the finding is about the node that is down because of it
		}
		f.node = b.Node
		if a.SlotOf > 0 && b.SlotOf > 0 {
			f.errorf("is on the server of %s (run_id %s), and one server has one vote: move one of "+
				"the slots to another master (CLUSTER SETSLOT, MIGRATE)", a.Node, a.RunID())
			return true
		}
		f.errorf("is the same server as %s (run_id %s), which is listed as well, and one server "+
			"has one vote: list it once", a.Node, a.RunID())
	case bMaster == a.Node:
		f.node = b.Node
		f.errorf("is a replica of %s, which is listed as well: %s", a.Node, advice)
	case aMaster == b.Node:
		f.node = a.Node
		f.errorf("is a replica of %s, which is listed as well: %s", b.Node, advice)
	case data != "" && data == b.Info["master_replid"]:
		f.node = b.Node
		f.errorf("has the same data as %s (master_replid), so one is a replica of the other, or "+
			"both of a third: %s", a.Node, advice)
	default:
		return false
	}
	return true
}

// sameServer reports whether two nodes are one server.
func sameServer(a, b *Facts) bool { return a.RunID() != "" && a.RunID() == b.RunID() }
