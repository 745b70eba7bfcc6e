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

// plainAcquires is up to how many single keys in one flush are taken by a SET NX PX each instead of
// by the script.
const plainAcquires = 16

// flight is the memory of one flush, used again by later ones.
type flight struct {
	releases, extensions, acquires script.Plan
	raises, fenced                 script.Plan
	// Releases that the server's own command was of no use for.
	declined      script.Plan
	deletion      deletion // how keys are released where they are few
	freed, single []int    // places of releases and of acquires of one key
	commands      []rueidis.Completed
	parts         []part
	again         []part
	refusals      []script.Refusal
	numbers       []int64
}

// part is what one command carries: a script call with its sets, or one key's release or acquire as
// a command of its own.
type part struct {
	script   *script.Script // nil for a command of its own
	call     script.Call
	place    int      // of the attempt, for a command of its own
	deletion deletion // for a release as a command of its own; byScript for a plain SET
}

// flush makes one trip to the node: releases first, because they free keys that the acquires behind
// them may want. The order is free, since a flush never has two attempts of one claim.
func (n *node) flush(attempts []*Attempt, answers []answer) {
	if err := n.await(); err != nil {
		for i := range answers {
			answers[i] = answer{nothing: true, err: err}
		}
		n.unsent(err, len(attempts))
		return
	}
	sent := n.leaves(len(attempts))
	flight := n.progress.begin()
	n.trip(attempts, answers)
	n.progress.end(flight)
	took := time.Since(sent)
	n.trips.Observe(took)
	if slices.ContainsFunc(answers, func(r answer) bool { return r.replied }) {
		// Else it may not have left.
		n.travelled(took)
	}
	n.count(answers)
	n.heed(attempts, answers)
}

// exchange is the trip of a node with a rueidis client.
func (n *node) exchange(attempts []*Attempt, answers []answer) {
	f, _ := n.mux.flightPool.Get().(*flight)
	if f == nil {
		f = new(flight)
	}
	line := n.sending()
	f.deletion = line.deletes()
	f.plan(line, attempts, answers)
	reusable := n.execute(f, attempts, answers)
	if len(f.declined.Calls()) > 0 {
		line.deletion.Store(int32(byScript))
	}
	if reusable {
		f.clear()
		n.mux.flightPool.Put(f)
	}
	if n.counted(line) {
		line.leave(answers)
	} else {
		doubt(answers)
	}
	cmp.Or(line, n.line.Load()).explain(answers)
}

// doubt makes unknowns of the replies: what the server has done may be forgotten, and what it said
// may have been about forgotten keys.
func doubt(answers []answer) {
	for i := range answers {
		if answers[i].replied {
			answers[i] = answer{broken: true, err: errDataLoss}
		}
	}
}

// plan sorts the attempts into commands, and answers those that are not to be sent on the line.
func (f *flight) plan(on *line, attempts []*Attempt, answers []answer) {
	f.releases.Reset(script.Release)
	f.declined.Reset(script.Release)
	f.extensions.Reset(script.Extend)
	f.acquires.Reset(script.Acquire)
	f.raises.Reset(script.RaiseFence)
	f.fenced.Reset(script.AcquireFenced)
	now := time.Now()
	for i, a := range attempts {
		// A grant, until one of the parts that carry it says otherwise.
		answers[i] = answer{vote: granted, replied: true, key: -1}
		set := a.set()
		switch why := a.pointless(now); {
		case a.kind == release && len(set.Keys) == 1 && f.deletion != byScript:
			f.freed = append(f.freed, i)
		case a.kind == release:
			f.releases.Add(i, set)
		case why != nil: // since the flush waited for a connection
			answers[i] = answer{nothing: true, err: why}
		case a.kind == extend && on.mayRepeat(a.sent):
			answers[i] = answer{nothing: true, err: errMoved}
		case a.kind == extend:
			answers[i].line = on
			f.extensions.Add(i, set)
			if fence := a.claim.fence(); fence != nil {
				f.raises.Add(i, script.Set{Keys: fence.FenceKeys, Token: fence.Last})
			}
		case a.claim.fence() != nil:
			set.Fence = &a.claim.fence().Fence
			f.fenced.Add(i, set)
		case len(set.Keys) == 1:
			f.single = append(f.single, i)
		default:
			f.acquires.Add(i, set)
		}
	}
	f.alone(f.freed, nativeReleases, part{deletion: f.deletion}, &f.releases, attempts)
	f.parts = appendCalls(f.parts, &f.releases)
	f.parts = appendCalls(f.parts, &f.raises) // before the nodes get back what they lack
	f.parts = appendCalls(f.parts, &f.extensions)
	f.alone(f.single, plainAcquires, part{}, &f.acquires, attempts)
	f.parts = appendCalls(f.parts, &f.acquires)
	f.parts = appendCalls(f.parts, &f.fenced)
}

// set is the attempt's keys for a script.
func (a *Attempt) set() script.Set {
	return script.Set{Keys: a.claim.keys(), Token: a.claim.Token(), TTL: a.text}
}

// alone makes a part like p of each attempt for one key, where these are few; else they go by the
// script.
func (f *flight) alone(places []int, few int, p part, plan *script.Plan, attempts []*Attempt) {
	for _, p.place = range places {
		if len(places) <= few {
			f.parts = append(f.parts, p)
		} else {
			plan.Add(p.place, attempts[p.place].set())
		}
	}
}

func appendCalls(parts []part, p *script.Plan) []part {
	for _, c := range p.Calls() {
		parts = append(parts, part{script: p.Script(), call: c})
	}
	return parts
}

// clear drops what the memory points to.
func (f *flight) clear() {
	clear(f.parts)
	clear(f.again)
	clear(f.commands)
	f.freed, f.single = f.freed[:0], f.single[:0]
	f.parts, f.again, f.commands = f.parts[:0], f.again[:0], f.commands[:0]
}

// execute sends the parts and reads their answers. Parts that were not executed for a reason that a
// second try removes are sent once more. It reports whether the memory may be used again: after a
// broken connection rueidis may still read it.
func (n *node) execute(f *flight, attempts []*Attempt, answers []answer) (reusable bool) {
	reusable = n.send(f, attempts, answers, false)
	again := declined(useful(f.again, attempts, answers), &f.declined)
	if len(again) == 0 {
		return reusable
	}
	f.parts, f.again, f.commands = again, nil, nil
	return n.send(f, attempts, answers, true) && reusable
}

// send makes one pipeline of the parts. On the first one, what is to be sent once more is gathered
// in f.again.
func (n *node) send(f *flight, attempts []*Attempt, answers []answer, repeat bool) (reusable bool) {
	if repeat {
		f.commands = n.loads(f.commands, f.parts)
	}
	loads := len(f.commands)
	for i := range f.parts {
		f.commands = append(f.commands, n.command(&f.parts[i], attempts))
	}
	reusable = true
	results := n.client.DoMulti(context.Background(), f.commands...)
	for i, r := range results[loads:] {
		p := &f.parts[i]
		message, err := r.ToMessage()
		switch {
		case p.deletion != byScript && r.NonRedisError() == nil:
			if !deleted(r) {
				f.declined.Add(p.place, attempts[p.place].set())
			}
		case err == nil || rueidis.IsRedisNil(err):
			f.read(p, &message, err != nil, attempts, answers)
		case !repeat && p.repeatable(err):
			f.again = p.repeat(f.again, err)
		default:
			failure := explained(failed(r), results[:loads])
			failure.err = n.hide(failure.err) // also of a connection that was being made
			reusable = reusable && failure.replied
			p.spread(failure, attempts, answers)
		}
	}
	return reusable
}

// explained is the failure of a call whose script is missing, with the reason why it could not be
// loaded.
func explained(failure answer, loads []rueidis.RedisResult) answer {
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

// loads appends the commands that load the scripts of parts.
func (n *node) loads(commands []rueidis.Completed, parts []part) []rueidis.Completed {
	for _, s := range script.All() {
		if slices.ContainsFunc(parts, func(p part) bool { return p.script == s }) {
			commands = append(commands, n.client.B().ScriptLoad().Script(s.Source).Build())
		}
	}
	return commands
}

// command builds one part's command.
func (n *node) command(p *part, attempts []*Attempt) rueidis.Completed {
	if p.script == nil {
		a := attempts[p.place]
		if p.deletion != byScript {
			return p.deletion.command(n.client.B(), a.claim.keys()[0], a.claim.Token())
		}
		return n.client.B().Arbitrary("SET").Keys(a.claim.keys()[0]).Args(a.claim.Token(), "NX",
			"PX", a.text).Build()
	}
	return n.client.B().Arbitrary("EVALSHA", p.script.SHA, strconv.Itoa(len(p.call.Keys))).
		Keys(p.call.Keys...).Args(p.call.Args...).Build()
}
