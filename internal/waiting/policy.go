// Package waiting decides when a waiting call asks which nodes for its keys, and remembers which
// keys are contended. It knows neither nodes nor clocks: times and random numbers are arguments.
package waiting

import "time"

const (
	// PushDelayFactor is how many times longer the delay between attempts is if a push notifies
	// the call when the keys are free.
	PushDelayFactor = 8
	// triesPerArbiter is how often one node is the arbiter if the key seems free there, but the
	// attempt fails: another node may know more.
	triesPerArbiter = 4
	// maxFutileTries is after how many such attempts the watch no longer counts as a sign that the
	// key is free.
	maxFutileTries = 3 * triesPerArbiter
	// maxArbiterOnly is for how long a call asks only the arbiter at most, however often that
	// reports something new: another may hold the keys only there.
	maxArbiterOnly = 2 * time.Second
	// minNoQuorumDelay is the shortest delay if nobody is known to hold the keys: such an attempt
	// may have failed in no time, without a round trip.
	minNoQuorumDelay = time.Millisecond
)

// Kind is what a waiting call does next.
type Kind int

const (
	// Wait: the call waits for the delay of the action, or until something wakes it.
	Wait Kind = iota
	// Subscribe: the call subscribes to the key on the node, and takes the next action at once.
	Subscribe
	// AskArbiter: the call makes an attempt that asks the node first.
	AskArbiter
	// AskAll: the call makes an attempt that asks all nodes at once.
	AskAll
)

// Action is what a waiting call does next.
type Action struct {
	Kind  Kind
	Delay time.Duration // of Wait; positive
	Key   string        // of Subscribe
	Node  int           // of Subscribe and AskArbiter
	Retry bool          // of AskAll: it continues the last attempt, so nothing may hold it up
}

// Facts is what a waiting call knows at one moment.
type Facts struct {
	Now time.Time
	// Contention is what the process knows of others that contend for the keys.
	Contention State
	// Watch is what the watch of the last Subscribe reports. It is zero before the first.
	Watch Watch
}

// Watch is what a node reports of a key.
type Watch struct {
	Known    bool          // TTL is known
	TTL      time.Duration // how long another holds the key at most; 0: the key is free
	Notifies bool          // the node will report the next change; only if TTL is known
	Active   bool          // a reply is to come, or TTL is known; else the key may have changed
}

// Failure is why an attempt failed.
type Failure struct {
	// Key is a key that another token holds. It is empty if no quorum could be reached.
	Key string
	// Refusals is how many nodes refused.
	Refusals int
	// AskedAll: the attempt asked all nodes at once.
	AskedAll bool
}

// Policy decides when one waiting call asks which nodes for its keys.
//
// While the process holds the keys, the call waits. Otherwise it contends on the nodes. One node is
// the arbiter, the same for all contenders. The arbiter notifies the call when the key changes, and
// then the call asks the arbiter first. Now and then it asks all nodes, in case no notification
// comes. If contenders always asked all nodes, one could win four of five while another has the
// arbiter.
//
// The owner sets the exported fields once. It gives the policy each event, and takes the action
// that Next returns. Methods must not be called concurrently.
type Policy struct {
	// MaxDelay is the longest random delay between two attempts.
	MaxDelay time.Duration
	// Arbiter chooses the node that all contenders for a key ask first, of those that are
	// connected. skip is how many nodes to leave out before it. -1: none is connected.
	Arbiter func(key string, skip int) (node int)

	begins         bool      // Next was not called since the turn began
	released       bool      // the call has not asked since the turn began
	continues      bool      // the turn began with Continue
	notBefore      time.Time // of the last Begin
	retry          bool      // the next attempt continues the last one
	blockedKey     string    // the key that another token holds; empty: none is known
	arbiter        int       // the node to ask first, if blockedKey is set; -1: none is connected
	askAllAt       time.Time // when to ask all again, whatever the arbiter says
	askAllDeadline time.Time // until when that can be postponed; zero: it was not postponed yet
	subscribed     bool      // the call has subscribed to blockedKey on arbiter
	pushEnabled    bool      // the arbiter pushes changes
	futileTries    int       // failed attempts since the key was last seen to be held

	contendingSince time.Time // with other processes; zero: it does not contend yet
	backoffUntil    time.Time // until when it does not try for the keys
	checkFirst      bool      // others are known to contend: ask whether the keys are free first
	sawHeld         bool      // the keys were held since contendingSince
	lostRaces       int       // how often another was quicker since contendingSince
}

// Begin begins a new turn of the call: the keys were released in this process. The call asks for
// them at once, but not before the given time, and not before others that are known to contend have
// had their chance.
func (p *Policy) Begin(notBefore time.Time) {
	p.begins, p.released, p.continues, p.notBefore = true, true, false, notBefore
}

// Continue begins a new turn of the call in the time of this process: the keys were released in it,
// and others have their chance when this time is over. The call asks for the keys at once.
func (p *Policy) Continue() {
	p.begins, p.released, p.continues, p.notBefore = true, true, true, time.Time{}
}

// BlockedKey returns the key that another process holds, as far as the call knows; empty: none.
func (p *Policy) BlockedKey() string { return p.blockedKey }

// Next returns what the call does now. It is for a call that runs, or that contends: no other call
// of the process is before it.
func (p *Policy) Next(f Facts) Action {
	if p.retry {
		p.retry = false
		return Action{Kind: AskAll, Retry: true}
	}
	if p.begins || p.contendingSince.IsZero() {
		p.startContending(f)
	}
	if p.backoffUntil.After(f.Now) {
		return waitUntil(p.backoffUntil, f.Now)
	}
	released := p.released
	p.released = false
	switch {
	case released && !p.checkFirst:
		return p.ask(f.Now) // no other process is known to contend
	case p.hasArbiter():
		return p.watchArbiter(f)
	}
	return p.untilAskAll(f.Now)
}

// startContending starts contending with other processes. If any are known, the call backs off
// first, and then asks the arbiter.
func (p *Policy) startContending(f Facts) {
	known := f.Contention
	if p.continues {
		known = State{}
	}
	p.contendingSince, p.backoffUntil = f.Now, f.Now.Add(known.Backoff)
	if p.notBefore.After(p.backoffUntil) {
		p.backoffUntil = p.notBefore
	}
	p.begins, p.continues, p.notBefore = false, false, time.Time{}
	p.lostRaces, p.sawHeld, p.checkFirst = 0, false, known.Key != ""
	if p.checkFirst {
		p.chooseArbiter(known.Key, f.Watch)
		p.askAllAt, p.askAllDeadline = p.backoffUntil.Add(p.MaxDelay), time.Time{}
	}
}

// watchArbiter goes by what the arbiter reports of the blocked key.
func (p *Policy) watchArbiter(f Facts) Action {
	if !p.subscribed {
		p.subscribed = true
		return Action{Kind: Subscribe, Key: p.blockedKey, Node: p.arbiter}
	}
	w := f.Watch
	if w.Known {
		p.pushEnabled = w.Notifies
	}
	switch {
	case w.Known && w.TTL > 0:
		p.futileTries, p.sawHeld = 0, true
		if free := f.Now.Add(w.TTL); free.Before(p.askAllAt) {
			return waitUntil(free, f.Now)
		}
	case (w.Known || !w.Active) && p.futileTries < maxFutileTries:
		return p.ask(f.Now) // the key is gone, or has changed
	}
	return p.untilAskAll(f.Now)
}

// ask returns an attempt that asks the arbiter first, or all nodes when it is time for that.
func (p *Policy) ask(now time.Time) Action {
	if !p.hasArbiter() || !now.Before(p.askAllAt) {
		return Action{Kind: AskAll}
	}
	return Action{Kind: AskArbiter, Node: p.arbiter}
}

// untilAskAll waits until it is time to ask all nodes.
func (p *Policy) untilAskAll(now time.Time) Action {
	if now.Before(p.askAllAt) {
		return waitUntil(p.askAllAt, now)
	}
	return Action{Kind: AskAll}
}

func waitUntil(at, now time.Time) Action { return Action{Kind: Wait, Delay: at.Sub(now)} }

// Retry makes the next attempt follow at once, over all nodes, although the last one failed. The
// arbiter may have granted that, and be the last to get its release: it alone must not refuse the
// next one.
func (p *Policy) Retry() { p.retry = true }

// Failed takes an attempt that failed. delay is the random delay until the next one, which the
// policy makes longer or shorter by what it knows.
func (p *Policy) Failed(f Facts, why Failure, delay time.Duration) {
	p.futileTries++
	if why.Key != "" && !why.AskedAll && why.Refusals == 1 {
		p.lostRaces++
	}
	p.chooseArbiter(why.Key, f.Watch)
	if !why.AskedAll && p.hasArbiter() && !p.pushEnabled {
		return // askAllAt stays: the watch brought this attempt in between
	}
	if why.Key == "" { // no push can help
		delay = NoQuorumDelay(delay)
	} else if p.pushEnabled {
		delay *= PushDelayFactor
	}
	if why.AskedAll || p.askAllDeadline.IsZero() {
		p.askAllDeadline = f.Now.Add(max(delay, maxArbiterOnly))
	}
	p.askAllAt = f.Now.Add(delay)
	if p.askAllAt.After(p.askAllDeadline) {
		p.askAllAt = p.askAllDeadline
	}
}

// chooseArbiter chooses the arbiter for the key that another token holds; an empty key: none.
func (p *Policy) chooseArbiter(blocked string, w Watch) {
	arbiter := -1
	if blocked != "" {
		arbiter = p.Arbiter(blocked, p.futileTries/triesPerArbiter)
	}
	p.subscribed = p.subscribed && arbiter == p.arbiter && blocked == p.blockedKey && w.Active
	p.arbiter, p.blockedKey = arbiter, blocked
}

func (p *Policy) hasArbiter() bool { return p.blockedKey != "" && p.arbiter >= 0 }

// Granted returns how the call got its keys, for Contention.Record. ok is false if there is nothing
// to remember: no other process had a key, or the nodes push no changes. Without pushes no call
// comes in time, and a backoff would only leave the keys unused.
func (p *Policy) Granted(now time.Time) (c Contended, ok bool) {
	if !p.pushEnabled || p.blockedKey == "" {
		return Contended{}, false
	}
	return Contended{
		Key: p.blockedKey, Took: now.Sub(p.contendingSince),
		Backoff:   p.backoffUntil.Sub(p.contendingSince),
		LostRaces: p.lostRaces, WasFree: !p.sawHeld,
	}, true
}

// NoQuorumDelay returns the delay after an attempt that found no quorum, if it would else be delay.
func NoQuorumDelay(delay time.Duration) time.Duration { return max(delay, minNoQuorumDelay) }
