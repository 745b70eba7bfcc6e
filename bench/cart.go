package bench

// isCart reports whether each call asks for a hot key and others.
func (c Config) isCart() bool { return c.Scenario == Cart || c.Scenario == Combine }

// hasWaits reports whether the scenario is about the time that callers wait.
func (c Config) hasWaits() bool { return c.Scenario == Hot || c.isCart() }

// validateCart requires what the scenarios Cart and Combine need, and of other scenarios that they
// have none of it.
func (c Config) validateCart(require requirement) {
	if !c.isCart() {
		const remedy = "only the scenarios cart and combine have it; leave it 0"
		require(c.Hot == 0, "Hot", c.Hot, remedy)
		require(c.Others == 0, "Others", c.Others, remedy)
		require(c.Cold == 0, "Cold", c.Cold, remedy)
		return
	}
	require(c.Hot >= 1 && c.Hot <= maxKeys, "Hot", c.Hot, "give 1 to %d keys", maxKeys)
	require(c.Others >= 0 && c.Others <= c.Keys, "Others", c.Others,
		"give 0 to the %d keys of the key space, or a larger one", c.Keys)
	require(c.Cold >= 0 && c.Cold <= maxCallers-c.Callers, "Cold", c.Cold,
		"give 0 to %d callers", maxCallers-c.Callers)
}

// hotKeys returns how many keys the callers compete for, in the scenarios Hot and Cart.
func (c Config) hotKeys() int {
	if c.isCart() {
		return c.Hot
	}
	return c.Keys
}

// choose chooses the keys of the next call. In the scenario Cart the first of them is a hot key,
// unless the caller is cold; hot keys have the numbers after all other keys.
func (w *worker) choose() {
	cfg, others := w.load.cfg, w.chosen
	if cfg.isCart() && !w.cold {
		w.keys.Choose(w.chosen[:1], cfg.Hot)
		w.chosen[0] += cfg.Keys
		others = w.chosen[1:]
	}
	w.keys.Choose(others, cfg.Keys)
	for i, k := range w.chosen {
		w.names[i] = w.load.names[k]
	}
}
