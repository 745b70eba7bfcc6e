package multiplex

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/script"
	"github.com/redis/rueidis"
)

// errMoved is the vote of a node whose server may have granted the extension already, as another
// node.
var errMoved = errors.New("not sent: the node's server changed since the extension began")

// maxSingleAcquires is the most single keys in one flush that are taken by a SET NX PX each. If
// there are more, the script takes them.
const maxSingleAcquires = 16

// flushScratch is the memory of one flush, used again by later ones.
type flushScratch struct {
	releases, extensions, acquires script.Plan
	raises, fenced                 script.Plan
	// Releases for which the server's own command was of no use.
	fallback                       script.Plan
	deletion                       deleteCommand // how few keys are released
	singleReleases, singleAcquires []int         // indexes of releases and of acquires of one key
	built                          []rueidis.Completed
	commands                       []command
	retry                          []command
	refusals                       []script.Refusal
	decoded                        []int64
}

// command is what one command carries: a script call with its sets, or the release or acquire of
// one key.
type command struct {
	script   *script.Script // nil for a single key
	call     script.Call
	index    int           // of the attempt, for a single key
	deletion deleteCommand // for the release of a single key; viaScript for its SET
}

// flush makes one trip to the node. Releases come first, because they free keys that the acquires
// behind them may want. Any order is right, since a flush never has two attempts of one claim.
func (n *node) flush(attempts []*Attempt, answers []answer) {
	if err := n.awaitUp(); err != nil {
		for i := range answers {
			answers[i] = answer{leftNothing: true, err: err}
		}
		n.countUnsent(err, len(attempts))
		return
	}
	sent := n.metrics.flushStarted(len(attempts))
	slot := n.responsiveness.flushSent()
	n.sendFlush(attempts, answers)
	n.responsiveness.flushAnswered(slot)
	took := time.Since(sent)
	n.metrics.flushLatency.Observe(took)
	if slices.ContainsFunc(answers, func(r answer) bool { return r.replied }) {
		// Otherwise it may not have been sent.
		n.rtt.observe(took)
	}
	n.metrics.countFailures(answers)
	n.noteAcquireErrors(attempts, answers)
}

// sendAttempts is the flush of a node with a rueidis client.
func (n *node) sendAttempts(attempts []*Attempt, answers []answer) {
	f, _ := n.mux.scratchPool.Get().(*flushScratch)
	if f == nil {
		f = new(flushScratch)
	}
	conn := n.active.verified()
	f.deletion = conn.deleteCommand()
	f.buildCommands(conn, attempts, answers)
	reusable := n.run(f, attempts, answers)
	if len(f.fallback.Calls()) > 0 {
		conn.deletion.Store(int32(viaScript))
	}
	if reusable {
		f.clear()
		n.mux.scratchPool.Put(f)
	}
	if n.active.stillValid(conn) {
		conn.dropIfUseless(answers)
	} else {
		invalidate(answers)
	}
	cmp.Or(conn, n.active.conn.Load()).explainUnanswered(answers)
}

// invalidate makes unknowns of the replies. The server may have forgotten what it has done, and may
// have replied about keys that it had forgotten.
func invalidate(answers []answer) {
	for i := range answers {
		if answers[i].replied {
			answers[i] = answer{broken: true, err: errDataLoss}
		}
	}
}

// buildCommands makes commands of the attempts, and answers those that are not to be sent on the
// connection.
func (f *flushScratch) buildCommands(conn *nodeConn, attempts []*Attempt, answers []answer) {
	f.releases.Reset(script.Release)
	f.fallback.Reset(script.Release)
	f.extensions.Reset(script.Extend)
	f.acquires.Reset(script.Acquire)
	f.raises.Reset(script.RaiseFence)
	f.fenced.Reset(script.AcquireFenced)
	now := time.Now()
	for i, a := range attempts {
		// A grant, until one of the commands that carry it says otherwise.
		answers[i] = answer{vote: granted, replied: true, keyIndex: -1}
		set := a.set()
		switch why := a.skipReason(now); {
		case a.kind == release && len(set.Keys) == 1 && f.deletion != viaScript:
			f.singleReleases = append(f.singleReleases, i)
		case a.kind == release:
			f.releases.Add(i, set)
		case why != nil: // since the flush waited for a connection
			answers[i] = answer{leftNothing: true, err: why}
		case a.kind == extend && conn.mayRepeat(a.sent):
			answers[i] = answer{leftNothing: true, err: errMoved}
		case a.kind == extend:
			f.extensions.Add(i, set)
			if fence := a.claim.fence(); fence != nil {
				f.raises.Add(i, script.Set{Keys: fence.FenceKeys, Token: fence.Last})
			}
		case a.claim.fence() != nil:
			set.Fence = &a.claim.fence().Fence
			f.fenced.Add(i, set)
		case len(set.Keys) == 1:
			f.singleAcquires = append(f.singleAcquires, i)
		default:
			f.acquires.Add(i, set)
		}
	}
	f.singleKeyCommands(f.singleReleases, maxSingleReleases, command{deletion: f.deletion},
		&f.releases, attempts)
	f.commands = appendCalls(f.commands, &f.releases)
	// Before the nodes get back what they lack: during rolling restarts a lease may outlive all
	// nodes that granted it, and its fence must not be forgotten.
	f.commands = appendCalls(f.commands, &f.raises)
	f.commands = appendCalls(f.commands, &f.extensions)
	f.singleKeyCommands(f.singleAcquires, maxSingleAcquires, command{}, &f.acquires, attempts)
	f.commands = appendCalls(f.commands, &f.acquires)
	f.commands = appendCalls(f.commands, &f.fenced)
}

// set returns the attempt's keys for a script.
func (a *Attempt) set() script.Set {
	return script.Set{Keys: a.claim.keys(), Token: a.claim.Token(), TTL: a.ttlText}
}

// singleKeyCommands makes a command like p of each attempt for one key if there are at most few. If
// there are more, the script gets them.
func (f *flushScratch) singleKeyCommands(indexes []int, few int, p command, plan *script.Plan,
	attempts []*Attempt,
) {
	for _, p.index = range indexes {
		if len(indexes) <= few {
			f.commands = append(f.commands, p)
		} else {
			plan.Add(p.index, attempts[p.index].set())
		}
	}
}

func appendCalls(commands []command, p *script.Plan) []command {
	for _, c := range p.Calls() {
		commands = append(commands, command{script: p.Script(), call: c})
	}
	return commands
}

// clear drops the pointers in the memory.
func (f *flushScratch) clear() {
	clear(f.commands)
	clear(f.retry)
	clear(f.built)
	f.singleReleases, f.singleAcquires = f.singleReleases[:0], f.singleAcquires[:0]
	f.commands, f.retry, f.built = f.commands[:0], f.retry[:0], f.built[:0]
}

// run sends the commands and reads their replies. Commands that were not executed for a reason that
// a retry removes are sent once more. It reports whether the memory may be used again: after a
// broken connection rueidis may still read it.
func (n *node) run(f *flushScratch, attempts []*Attempt, answers []answer) (reusable bool) {
	reusable = n.roundTrip(f, attempts, answers, false)
	retry := fallbackCommands(stillUseful(f.retry, attempts, answers), &f.fallback)
	if len(retry) == 0 {
		return reusable
	}
	f.commands, f.retry, f.built = retry, nil, nil
	return n.roundTrip(f, attempts, answers, true) && reusable
}

// roundTrip makes one pipeline of the commands. In the first one it gathers in f.retry what is to
// be sent once more.
func (n *node) roundTrip(f *flushScratch, attempts []*Attempt, answers []answer,
	retry bool,
) (reusable bool) {
	if retry {
		f.built = n.scriptLoads(f.built, f.commands)
	}
	loads := len(f.built)
	for i := range f.commands {
		f.built = append(f.built, n.build(&f.commands[i], attempts))
	}
	reusable = true
	results := n.client.DoMulti(context.Background(), f.built...)
	for i, r := range results[loads:] {
		p := &f.commands[i]
		message, err := r.ToMessage()
		switch {
		case p.deletion != viaScript && r.NonRedisError() == nil:
			if !deleted(r) {
				f.fallback.Add(p.index, attempts[p.index].set())
			}
		case err == nil || rueidis.IsRedisNil(err):
			f.readReply(p, &message, err != nil, attempts, answers)
		case !retry && p.retryable(err):
			f.retry = p.appendRetry(f.retry, err)
		default:
			failure := withLoadError(classifyError(r), results[:loads])
			failure.err = n.hide(failure.err) // also of a connection that was being made
			reusable = reusable && failure.replied
			p.failAll(failure, attempts, answers)
		}
	}
	return reusable
}

// withLoadError returns the failure of a call. If its script is missing, it has the reason why that
// could not be loaded.
func withLoadError(failure answer, loads []rueidis.RedisResult) answer {
	if !failure.replied || !strings.HasPrefix(failure.err.Error(), "NOSCRIPT") {
		return failure
	}
	for _, l := range loads {
		if err := l.Error(); err != nil {
			failure.err = errors.New(err.Error())
		}
	}
	return failure
}

// scriptLoads appends the commands that load the scripts.
func (n *node) scriptLoads(built []rueidis.Completed, commands []command) []rueidis.Completed {
	for _, s := range script.All() {
		if slices.ContainsFunc(commands, func(p command) bool { return p.script == s }) {
			built = append(built, n.client.B().ScriptLoad().Script(s.Source).Build())
		}
	}
	return built
}

// build builds the rueidis command.
func (n *node) build(p *command, attempts []*Attempt) rueidis.Completed {
	if p.script == nil {
		a := attempts[p.index]
		if p.deletion != viaScript {
			return p.deletion.build(n.client.B(), a.claim.keys()[0], a.claim.Token())
		}
		return n.client.B().Arbitrary("SET").Keys(a.claim.keys()[0]).Args(a.claim.Token(), "NX",
			"PX", a.ttlText).Build()
	}
	return n.client.B().Arbitrary("EVALSHA", p.script.SHA, strconv.Itoa(len(p.call.Keys))).
		Keys(p.call.Keys...).Args(p.call.Args...).Build()
}
