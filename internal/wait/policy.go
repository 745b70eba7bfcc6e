// Package wait decides when a waiting call asks which nodes for its keys. It asks nobody and has
// no clock: times, random numbers and what nodes said are arguments.
package wait

import (
	"time"

	"github.com/lockpipe/lockpipe/internal/line"
)

const (
	// PushDelayFactor is how many times longer the delay between attempts is if a node says when
	// the keys are free.
	PushDelayFactor = 8
	// maxPushDelay is the longest such delay, unless the delay itself is longer: another may hold
	// the keys on the arbiter alone.
	maxPushDelay = 2 * time.Second
	// triesPerArbiter is how often one node is the arbiter if the key seems free there, but the
	// attempt fails: another node may know more.
	triesPerArbiter = 4
	// maxFutileTries is after how many such attempts no sign that the key is free counts any more.
	maxFutileTries = 3 * triesPerArbiter
	// A call that is not the first asks again for its place after minRenewal, and renewalPerPlace
	// for each client before it. So a client that died holds up others for a moment. That time
	// doubles each time that nothing has changed, up to maxRenewal, as for the first one.
	minRenewal      = 60 * time.Millisecond
	renewalPerPlace = 50 * time.Millisecond
	maxRenewal      = time.Second
	// minNoQuorumDelay is the shortest delay if nobody is known to hold the keys: such an attempt
	// may have failed in no time, without a round trip.
	minNoQuorumDelay = time.Millisecond
)

// Kind is what a waiting call does next.
type Kind int

const (
	// Wait: the call waits for the delay of the action, or until something wakes it.
	Wait Kind = iota
	// AskLine: the call asks the node for its place in the line for the key, to be told of its
	// turn, and takes the next action at once.
	AskLine
	// Attempt: the call makes an attempt on all nodes.
	Attempt
)

// Action is what a waiting call does next.
type Action struct {
	Kind  Kind
	Delay time.Duration // of Wait; positive
	Key   string        // of AskLine
	Node  *line.Node    // of AskLine
}

// Facts is what a waiting call knows at one moment.
type Facts struct {
	Now time.Time
	// Contended is one of its keys that other processes want too; "": none is known.
	Contended string
	// Own is the token of its last attempt, which the arbiter may still have for a moment.
	Own string
	// Place is what the arbiter has said since the last AskLine. Asking: it has not answered yet.
	// Both are zero before the first.
	Place  line.Place
	Asking bool
}

// Policy decides when one waiting call asks which nodes for its keys.
//
// While the process holds the keys, the call waits. Otherwise it contends on the nodes. One node is
// the arbiter, the same for all contenders, and has a line of them for the key that the call can't
// get. The first one watches the key. Each other one watches the turn of the ticket before its own:
// see line.Places. Who leaves the line behind a release tells the next one so, and nobody else. A
// call whose turn it is asks all nodes at once.
//
// The line is advice: the votes alone decide who has the keys. A call that was told nothing looks
// again after a while. So a client that dies, or a message that is lost, costs a moment.
//
// The owner sets the first fields once, and only reads the next ones. It gives the policy each
// event, and takes the action that Next returns. Methods must not be called concurrently.
type Policy struct {
	// Key is the first of the call's keys.
	Key string
	// MaxDelay is the longest random delay between two attempts.
	MaxDelay time.Duration
	// Arbiter chooses the node that all contenders for a key ask, of those that are connected. skip
	// is how many nodes to leave out before it. nil: none is connected.
	Arbiter func(key string, skip int) *line.Node

	// Blocked is the key that another process holds, as far as the call knows; empty: none.
	Blocked string
	// Node is the arbiter for Blocked; nil: none is connected.
	Node *line.Node

	begins      bool          // Next was not called since the turn began
	yields      bool          // other processes have their turn first
	continues   bool          // the turn began in the time of this process
	contends    bool          // with other processes, or will
	attempted   bool          // since the turn began
	stage       stage         // at the arbiter
	renewAt     time.Time     // when to ask again for the place
	pollAt      time.Time     // the same, if the arbiter pushes nothing
	delay       time.Duration // the last random delay between two attempts
	renewals    int           // how often it asked again, since the last change
	before      int64         // the ticket before it
	retryAt     time.Time     // when to make an attempt if the arbiter says nothing
	patience    time.Duration // for how long the arbiter may say nothing
	askAllAt    time.Time     // when the first one makes an attempt, whatever the arbiter says
	answerBy    time.Time     // when the call makes an attempt if the arbiter has not answered
	futileTries int           // failed attempts since it last waited for a key that is held
}

// stage is how far a call is at the arbiter.
type stage int

const (
	outside  stage = iota // it has not asked
	asking                // it has asked for its place
	answered              // it has a place, or the line is full
	onTurn                // it is its turn
)

// Begin begins a new turn of the call: the keys were released in this process. The call asks for
// them at once, unless other processes are known to contend. passed: they came from another call of
// this process, in whose time the call asks for them in any case. yields: other processes have
// their turn first.
func (p *Policy) Begin(passed, yields bool) {
	p.begins, p.yields, p.continues = true, yields, passed && !yields
}

// Next returns what the call does now. It is for a call that runs, or that contends: no other call
// of the process is before it.
func (p *Policy) Next(f Facts) Action {
	switch {
	case (p.begins || !p.contends) && p.start(f):
		return p.attempt()
	case p.Node != nil:
		return p.inLine(f)
	}
	return p.until(p.retryAt, f.Now)
}

// start starts contending, and reports whether the call asks the nodes at once. If other processes
// are known to contend, the call goes by the line.
func (p *Policy) start(f Facts) (atOnce bool) {
	key := f.Contended
	switch {
	case p.continues, p.begins && !p.yields && f.Place.First(): // nobody is overtaken
		key = ""
	case p.yields && key == "":
		key = p.Key
	}
	atOnce = p.begins && key == ""
	p.begins, p.yields, p.continues = false, false, false
	p.contends, p.attempted = true, false
	if key != "" {
		p.chooseArbiter(key)
		p.setDelay(f.Now, p.MaxDelay)
	}
	return atOnce
}

// inLine goes by what the arbiter says of the line for the blocked key.
func (p *Policy) inLine(f Facts) Action {
	switch {
	case p.stage == onTurn:
		return p.turn(f.Now)
	case p.stage == asking && f.Asking:
		return p.until(p.answerBy, f.Now)
	case p.stage == asking && f.Place.Known:
		p.placed(f)
	case p.stage == asking && !p.attempted:
		return p.attempt()
	case p.stage == asking: // the arbiter can't be asked
		return p.until(p.retryAt, f.Now)
	}
	if p.stage == answered && f.Now.Before(p.lookAt(f.Place)) {
		return p.await(f)
	}
	p.stage, p.answerBy = asking, f.Now.Add(p.patience)
	return Action{Kind: AskLine, Key: p.Blocked, Node: p.Node}
}

// placed takes the place of the call.
func (p *Policy) placed(f Facts) {
	l := f.Place
	if l.Free || l.Before != p.before {
		p.renewals = 0
	}
	p.before = l.Before
	renewal := (minRenewal + time.Duration(l.Ahead)*renewalPerPlace) << min(p.renewals, 5)
	if p.renewals++; l.First() || renewal > maxRenewal {
		renewal = maxRenewal
	}
	p.renewAt, p.stage = f.Now.Add(renewal), answered
	p.pollAt = f.Now.Add(p.delay * time.Duration(1+l.Ahead))
}

// await waits for what the arbiter reports: of the key, or of the ticket before the call's.
func (p *Policy) await(f Facts) Action {
	l, until := f.Place, p.lookAt(f.Place)
	ends := l.First() && !l.Until.IsZero()
	switch {
	case l.Turn, ends && !f.Now.Before(l.Until):
		return p.turn(f.Now)
	case l.First() && !f.Now.Before(p.askAllAt):
		return p.attempt()
	case l.First():
		until = earlier(until, p.askAllAt)
	}
	if l.Known && !l.Free && l.Token != f.Own {
		p.futileTries = 0
	}
	if ends {
		until = earlier(until, l.Until)
	}
	return waitUntil(until, f.Now)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// lookAt returns when to ask again: without pushes, after a delay for the call and each before it.
func (p *Policy) lookAt(l line.Place) time.Time {
	if l.Silent {
		return earlier(p.pollAt, p.renewAt)
	}
	return p.renewAt
}

// turn is what the call does in its turn. If attempts failed again and again although the key
// seemed free, it waits first.
func (p *Policy) turn(now time.Time) Action {
	if p.stage = onTurn; p.futileTries >= maxFutileTries {
		return p.until(p.retryAt, now)
	}
	return p.attempt()
}

func (p *Policy) attempt() Action {
	p.attempted, p.stage, p.renewals = true, outside, 0
	return Action{Kind: Attempt}
}

// until waits for an attempt at this time.
func (p *Policy) until(at, now time.Time) Action {
	if now.Before(at) {
		return waitUntil(at, now)
	}
	return p.attempt()
}

func waitUntil(at, now time.Time) Action { return Action{Kind: Wait, Delay: at.Sub(now)} }

// Failed takes an attempt that failed. key is one that another token holds, and empty if no quorum
// could be reached. delay is the random delay until the next one.
func (p *Policy) Failed(now time.Time, key string, delay time.Duration) {
	p.futileTries++
	p.chooseArbiter(key)
	if key == "" {
		delay = NoQuorumDelay(delay)
	}
	p.setDelay(now, delay)
}

// setDelay sets when the call looks again. A call that goes by a line makes fewer attempts.
func (p *Policy) setDelay(now time.Time, delay time.Duration) {
	p.delay, p.retryAt = delay, now.Add(delay)
	p.patience = max(delay, minRenewal, min(delay, maxPushDelay/PushDelayFactor)*PushDelayFactor)
	p.askAllAt = now.Add(p.patience)
}

// chooseArbiter chooses the arbiter for the key that another token holds; an empty key: none.
func (p *Policy) chooseArbiter(blocked string) {
	p.Blocked, p.Node, p.stage = blocked, nil, outside
	if blocked != "" {
		p.Node = p.Arbiter(blocked, p.futileTries/triesPerArbiter)
	}
}

// NoQuorumDelay returns the delay after an attempt that found no quorum, if it would else be delay.
func NoQuorumDelay(delay time.Duration) time.Duration { return max(delay, minNoQuorumDelay) }
