package ids

// Keys are the keys of one claim, and the token in their values on the nodes. Init makes them,
// once, and SetFence may follow. Nothing else changes, and they must not be copied.
type Keys struct {
	buf    string    // the token, and behind it the only key with its prefix
	single [1]string // the only key
	cold   *coldKeys
	prefix int32 // length of the prefix of each key
}

// coldKeys is what a single key without a fence does not need.
type coldKeys struct {
	keys  []string // with the prefix, if there are several
	fence Fence    // without Members: there is none
	kept  []string // nil without Adopt
}

// Init sets the keys, each behind prefix, and the token, which ends with suffix. The keys must
// differ from each other.
func (k *Keys) Init(prefix string, keys []string, token, suffix string) {
	k.prefix = int32(len(prefix))
	if len(keys) == 1 {
		k.buf = token + suffix + prefix + keys[0] // one piece of memory for both
		k.single[0] = k.buf[len(token)+len(suffix):]
		return
	}
	k.buf = token + suffix // a copy: token itself stays on the caller's stack
	k.cold = &coldKeys{keys: make([]string, len(keys))}
	for i, key := range keys {
		k.cold.keys[i] = prefix + key
	}
}

// Adopt has an acquire of the keys take those that were kept with this token: see script.Set.
func (k *Keys) Adopt(token, takes string) {
	if k.cold == nil {
		k.cold = new(coldKeys)
	}
	k.cold.kept = []string{Marked(token), takes}
}

// Kept returns what Adopt has set, for script.Set; nil without it.
func (k *Keys) Kept() []string {
	if k.cold == nil {
		return nil
	}
	return k.cold.kept
}

// Token returns the token.
func (k *Keys) Token() string { return k.buf[:len(k.buf)-len(k.single[0])] }

// All returns the keys, with the prefix.
func (k *Keys) All() []string {
	if k.cold != nil && k.cold.keys != nil {
		return k.cold.keys
	}
	return k.single[:]
}

// Len returns the number of keys.
func (k *Keys) Len() int { return len(k.All()) }

// Weight is how many keys of up to 511 bytes the keys are worth. So what bounds the keys of a trip,
// and of all that waits for a node, bounds their bytes too.
func (k *Keys) Weight() (weight int) {
	for _, key := range k.All() {
		weight += 1 + len(key)/512
	}
	return weight
}

// Prefix returns what each key begins with.
func (k *Keys) Prefix() string { return k.All()[0][:k.prefix] }

// Key returns the key at i, without the prefix.
func (k *Keys) Key(i int) string { return k.All()[i][k.prefix:] }

// Fence returns what SetFence has set; nil without it.
func (k *Keys) Fence() *Fence {
	if k.cold == nil || k.cold.fence.Members == nil {
		return nil
	}
	return &k.cold.fence
}
