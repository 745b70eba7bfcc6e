package keyqueue

import "time"

// News is why a call is notified. Several bits may be set where news are kept.
type News uint32

const (
	// Turn: the call runs: it has its keys, as far as this process is concerned. Turn comes exactly
	// once for each time that the call begins to run, unless Enter, Retry or Successor returns
	// that. So it does not come late if its owner waits for it: the owner of a call for which
	// GiveUp returned false calls Leave after Turn, not before.
	Turn News = 1 << iota
	// Reserving: the call reserves keys from now on, or more of them than before, while it waits or
	// contends. Its owner calls Unreserve after a bounded time. It may come late: the call may run
	// or be outside. Then Unreserve does no harm.
	Reserving
	// Released: this process no longer holds the key for which the call contends. It may come late.
	Released
)

// Caller is notified of news of its call, without a lock of the queue, on the goroutine that caused
// the change: also on one that is in Enter or Contend for this call. Notify must not block. Calls
// of it may overlap each other, and the call may have changed meanwhile.
type Caller interface{ Notify(News) }

// Call wants a set of keys. The zero value with Caller set is ready for Enter. It must not be
// copied while it is in a queue.
type Call struct {
	Caller Caller // set once, before Enter
	Handed any    // what Begin hands to it, with Turn
	wish
}

// wish is what a queue knows of a call that is in it. It is guarded by the queue's mu.
type wish struct {
	arrival  uint64 // the order of Enter
	refused  int    // how often it contended; counted up to maxOvertaken
	keys     []*key
	one      [1]*key // memory of keys if there is a single one
	state    state
	granted  bool // it runs, and has left the queues of its keys
	parkedAt *key // nil unless it waits
	until    time.Time
}

// Begin begins the turn of c, which Successor returned, or for which Retry returned true to another
// goroutine than that of its owner.
func (c *Call) Begin(handed any) {
	c.Handed = handed
	c.Caller.Notify(Turn)
}

// state is what a call does.
type state uint8

const (
	outside state = iota
	waiting
	contending // it waits for a key that another process holds, and calls Retry
	running    // it owns its keys
)

// blockedBy returns a key that c may not have; nil if it may have all. mu is held.
func (c *Call) blockedBy() *key {
	for _, k := range c.keys {
		if !k.availableTo(c) {
			return k
		}
	}
	return nil
}

// mayReserve returns which of its free keys c may reserve: all, or those with names below this one:
// see rules 3 to 5. mu is held.
func (c *Call) mayReserve() (bool, string) {
	all, overdue, below := true, c.refused >= maxOvertaken, ""
	for _, k := range c.keys {
		overtaken := k.overtakenSince(c.arrival)
		all = all && !k.foreign && (overtaken || k.firstWaiting() == c)
		overdue = overdue || overtaken
		if (below == "" || k.name < below) && (k.contender == c || !k.availableTo(c)) {
			below = k.name
		}
	}
	if !overdue {
		below = ""
	}
	return all, below
}
