package ids

// Distinct returns keys without repetitions, in order. It returns keys itself if there are none.
func Distinct(keys []string) []string {
	if len(keys) == 1 {
		return keys
	}
	seen := make(map[string]struct{}, len(keys))
	for i, k := range keys {
		if seen[k] = struct{}{}; len(seen) == i+1 {
			continue
		}
		once := append([]string(nil), keys[:i]...) // the first repetition is at i
		for _, k := range keys[i+1:] {
			if _, twice := seen[k]; !twice {
				seen[k] = struct{}{}
				once = append(once, k)
			}
		}
		return once
	}
	return keys
}
