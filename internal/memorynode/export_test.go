package memorynode

// KeysInMemory returns how many keys the node has, expired ones included.
func (n *Node) KeysInMemory() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.keys)
}
