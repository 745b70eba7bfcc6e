package memorynode

// fencesModel is the script that reads the highest numbers that a node knows.
func fencesModel(n *Node, keys, members []string) []int64 {
	scores := make([]int64, len(members))
	e, _ := n.entry(keys[0])
	for i, member := range members {
		scores[i] = int64(e.scores[member])
	}
	return scores
}
