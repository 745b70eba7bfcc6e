package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// moveSlot moves a slot of the clients to another master, as redis-cli --cluster reshard does: its
// keys come along, one after the other. Then the new owner knows that it is, and the former owner
// hears of it later.
func (c *redisCluster) moveSlot(rng *rand.Rand) {
	slot, to := rng.IntN(len(c.tags)), c.anyMaster(rng)
	pause, tells := around(rng, 20*time.Millisecond), rng.IntN(2) == 0
	if rng.IntN(2) == 0 {
		pause *= 20
	}
	from, ok := c.beginMove(slot, to)
	if !ok {
		return
	}
	c.run.history.note("nemesis", fmt.Sprint("slot ", slot, " moves from ", from, " to ", to))
	for goesOn := true; c.moveKeys(slot, from, to, 1+rng.IntN(4), goesOn); {
		goesOn = c.run.sleep(around(rng, pause))
	}
	c.run.sleep(around(rng, pause))
	c.endMove(slot, from, to)
	if tells && c.run.sleep(around(rng, pause)) {
		c.tell(from, to)
	}
	c.run.history.note("nemesis", fmt.Sprint("slot ", slot, " has moved to ", to, ": ", c.views()))
}

// beginMove has a slot moved to a server that can have it.
func (c *redisCluster) beginMove(slot, to int) (from int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.servers[to]
	from = t.owners[slot]
	if t.masters[to] != none || from == to || from == none || !c.hears(from, to) {
		return from, false
	}
	f := c.servers[from]
	if _, moves := f.migrating[slot]; moves || f.owners[slot] != from || t.importing[slot] {
		return from, false
	}
	f.migrating[slot], t.importing[slot] = to, true
	return from, true
}

// moveKeys moves some keys of a slot, if the servers reach each other or the run does not go on. It
// returns false if none is left, or if nothing comes of the move.
func (c *redisCluster) moveKeys(slot, from, to, count int, goesOn bool) (left bool) {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.mu.Lock()
	succeeds, able := c.mayMove(slot, from, to), c.hears(from, to) || !goesOn
	c.mu.Unlock()
	keys := c.keysOf(slot, from)
	if able && succeeds {
		for _, key := range keys[:min(count, len(keys))] {
			c.run.nodes[from].MoveKey(key, c.run.nodes[to])
		}
	}
	return succeeds && len(keys) > 0
}

// keysOf returns the keys of a slot that a server has.
func (c *redisCluster) keysOf(slot, server int) []string {
	tag := c.tags[slot]
	return c.run.nodes[server].KeysOfTag(tag[1 : len(tag)-1])
}

// mayMove reports whether a server still gives a slot away, to one that still is a master. mu is
// held.
func (c *redisCluster) mayMove(slot, from, to int) bool {
	_, moves := c.servers[from].migrating[slot]
	return moves && c.servers[to].masters[to] == none
}

// endMove makes the new server the owner. If nothing comes of the move, what has arrived is lost.
func (c *redisCluster) endMove(slot, from, to int) {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.mu.Lock()
	t, succeeds := c.servers[to], c.mayMove(slot, from, to)
	delete(t.importing, slot)
	if succeeds {
		t.claim()
		t.owners[slot] = to
	} else {
		delete(c.servers[from].migrating, slot)
	}
	c.mu.Unlock()
	if !succeeds {
		for _, key := range c.keysOf(slot, to) {
			c.run.nodes[to].Delete(key)
		}
	}
}
