package ids

// Weight returns the weight of a name for a key. Of several names the one with the highest weight
// is chosen. If a name is added or taken away, only the keys move that go to it or were there
// (rendezvous hashing, Thaler and Ravishankar 1998). The weight is the same in every process and
// every version: where locks are depends on it.
func Weight(key, name string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	h := uint64(offset)
	for _, text := range [...]string{key, "\x00", name} {
		for i := range len(text) {
			h = (h ^ uint64(text[i])) * prime
		}
	}
	h ^= h >> 33 // the last bytes alone would hardly change the order
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
