package waiting

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// at is a moment of a test.
func at(d time.Duration) time.Time { return time.Unix(1000, 0).Add(d) }

const (
	ms     = time.Millisecond
	second = time.Second
)

// event is what happens to a policy. Of a Next it returns the action.
type event func(p *Policy) Action

func next(now time.Duration, f Facts) event {
	return func(p *Policy) Action {
		f.Now = at(now)
		return p.Next(f)
	}
}

// begins lets a turn begin that may ask from a time on.
func begins(notBefore time.Duration) event {
	return func(p *Policy) Action {
		p.Begin(at(notBefore))
		return Action{}
	}
}

func continues(p *Policy) Action {
	p.Continue()
	return Action{}
}

func failed(now time.Duration, why Failure, delay time.Duration, w Watch) event {
	return func(p *Policy) Action {
		p.Failed(Facts{Now: at(now), Watch: w}, why, delay)
		return Action{}
	}
}

func times(n int, e ...event) event {
	return func(p *Policy) (last Action) {
		for range n {
			for _, one := range e {
				last = one(p)
			}
		}
		return last
	}
}

// What the watch of an arbiter can report.
var (
	unknown = Watch{Active: true}
	changed = Watch{}
	free    = Watch{Known: true, Notifies: true, Active: true}
	pushes  = Watch{Known: true, TTL: second, Notifies: true, Active: true}
	silent  = Watch{Known: true, TTL: second, Active: true}
)

// What can become of an attempt on the key k.
var (
	heldEverywhere = Failure{Key: "k", Refusals: 3, AskedAll: true}
	heldByArbiter  = Failure{Key: "k", Refusals: 1}
	noQuorum       = Failure{AskedAll: true}
)

// refusedThenSubscribed is how most calls begin to contend with another process: all nodes are
// asked, most refuse, and the call subscribes on the arbiter.
var refusedThenSubscribed = times(1, next(0, Facts{}), failed(0, heldEverywhere, 50*ms, Watch{}),
	next(0, Facts{}))

// The goal: each rule of waiting holds. The action is that of the last event. In all rows the
// arbiter of k is node 5, then 6, 7 and so on.
func TestPolicy_Rules(t *testing.T) {
	contended := Facts{Contention: State{Key: "k", Backoff: 30 * ms}}
	watch := func(w Watch) Facts { return Facts{Watch: w} }
	all, arbiter := Action{Kind: AskAll}, Action{Kind: AskArbiter, Node: 5}
	wait := func(d time.Duration) Action { return Action{Kind: Wait, Delay: d} }
	for name, row := range map[string]struct {
		want   Action
		events []event
	}{
		"a call of which nothing is known asks all": {all, []event{next(0, Facts{})}},
		"a turn may begin later": {
			wait(2 * ms), []event{begins(7 * ms), next(5*ms, Facts{})},
		},
		"then it asks": {
			all, []event{begins(7 * ms), next(5*ms, Facts{}), next(7*ms, Facts{})},
		},
		"after a refusal by all, it subscribes to the key on the arbiter": {
			Action{Kind: Subscribe, Key: "k", Node: 5}, []event{refusedThenSubscribed},
		},
		"it waits for the reply at most until it asks all again": {
			wait(40 * ms), []event{refusedThenSubscribed, next(10*ms, watch(unknown))},
		},
		"then it asks all": {all, []event{refusedThenSubscribed, next(50*ms, watch(unknown))}},
		"it waits until the key expires, if that is sooner": {
			wait(20 * ms), []event{refusedThenSubscribed, next(10*ms, watch(Watch{
				Known: true, TTL: 20 * ms, Active: true,
			}))},
		},
		"it asks all when it is time, also while the key is held": {
			all, []event{refusedThenSubscribed, next(50*ms, watch(pushes))},
		},
		"if the key is free on the arbiter, it asks that first": {
			arbiter, []event{refusedThenSubscribed, next(10*ms, watch(free))},
		},
		"if the arbiter reports a change, it asks that first": {
			arbiter, []event{refusedThenSubscribed, next(10*ms, watch(changed))},
		},
		"without a connected node it has no arbiter, and waits": {
			wait(40 * ms), []event{
				failed(0, Failure{Key: "nowhere", Refusals: 2, AskedAll: true}, 50*ms, Watch{}),
				next(10*ms, watch(changed)),
			},
		},
		"without a quorum it has no arbiter, and waits": {
			wait(40 * ms), []event{failed(0, noQuorum, 50*ms, Watch{}), next(10*ms, watch(free))},
		},
		"without a quorum it waits for a millisecond at least": {
			wait(ms), []event{failed(0, noQuorum, 0, Watch{}), next(0, Facts{})},
		},
		"refused by the arbiter alone, it does not put off asking all": {
			wait(30 * ms), []event{
				refusedThenSubscribed, failed(20*ms, heldByArbiter, 50*ms, unknown),
				next(20*ms, watch(unknown)),
			},
		},
		"if the arbiter pushes changes, it asks all after eight times the delay": {
			wait(400 * ms), []event{
				refusedThenSubscribed, next(0, watch(pushes)),
				failed(20*ms, heldByArbiter, 50*ms, unknown), next(20*ms, watch(unknown)),
			},
		},
		"an arbiter that no longer pushes puts nothing off": {
			wait(30 * ms), []event{
				refusedThenSubscribed, next(0, watch(pushes)), next(1, watch(silent)),
				failed(20*ms, heldByArbiter, 50*ms, unknown), next(20*ms, watch(unknown)),
			},
		},
		"it asks all within two seconds, however often the arbiter refuses it": {
			wait(100 * ms), []event{
				refusedThenSubscribed, next(0, watch(pushes)),
				failed(1700*ms, heldByArbiter, 50*ms, unknown),
				failed(1900*ms, heldByArbiter, 50*ms, unknown), next(1900*ms, watch(unknown)),
			},
		},
		"or within its delay, if that is longer": {
			wait(10*second - 1900*ms), []event{
				refusedThenSubscribed, next(0, watch(pushes)),
				failed(0, heldEverywhere, 10*second/8, unknown),
				failed(1900*ms, heldByArbiter, 20*second, unknown), next(1900*ms, watch(unknown)),
			},
		},
		"after a refusal it does not subscribe again while the watch is active": {
			wait(30 * ms), []event{
				refusedThenSubscribed, failed(10*ms, heldByArbiter, 50*ms, unknown),
				next(20*ms, watch(unknown)),
			},
		},
		"it subscribes again if the key has changed meanwhile": {
			Action{Kind: Subscribe, Key: "k", Node: 5}, []event{
				refusedThenSubscribed, failed(10*ms, heldByArbiter, 50*ms, changed),
				next(20*ms, watch(changed)),
			},
		},
		"it subscribes to another key if that one is held": {
			Action{Kind: Subscribe, Key: "other", Node: 5}, []event{
				refusedThenSubscribed,
				failed(10*ms, Failure{Key: "other", Refusals: 1}, 50*ms, unknown),
				next(20*ms, watch(unknown)),
			},
		},
		"after four futile tries another node is the arbiter": {
			Action{Kind: Subscribe, Key: "k", Node: 6}, []event{
				refusedThenSubscribed, times(3, failed(0, heldByArbiter, 50*ms, unknown)),
				next(0, watch(unknown)),
			},
		},
		"a try is not futile if the key was seen to be held since": {
			wait(50 * ms), []event{
				refusedThenSubscribed, times(2, failed(0, heldByArbiter, 50*ms, unknown)),
				next(0, watch(silent)), times(3, failed(0, heldByArbiter, 50*ms, unknown)),
				next(0, watch(unknown)),
			},
		},
		"after twelve futile tries it only waits to ask all": {
			wait(50 * ms), []event{
				refusedThenSubscribed, times(11, failed(0, heldByArbiter, 50*ms, unknown)),
				next(0, watch(unknown)), next(0, watch(changed)),
			},
		},
		"if the keys are released in this process, it asks at once": {
			arbiter, []event{refusedThenSubscribed, begins(0), next(10*ms, watch(unknown))},
		},
		"or when its turn may begin": {
			arbiter, []event{
				refusedThenSubscribed, begins(20 * ms), next(10*ms, watch(unknown)),
				next(20*ms, watch(unknown)),
			},
		},
		"but it does not ask at once if others contend": {
			Action{Kind: Subscribe, Key: "k", Node: 5}, []event{
				begins(0), next(10*ms, Facts{Contention: State{Key: "k"}}),
			},
		},
		"unless it is still the time of its process": {
			all, []event{continues, next(10*ms, contended)},
		},
		"it asks only once": {
			wait(30 * ms), []event{
				refusedThenSubscribed, begins(0), next(10*ms, watch(unknown)),
				next(20*ms, watch(unknown)),
			},
		},
		"if others contend, it backs off first": {
			wait(30 * ms), []event{next(0, contended)},
		},
		"then it subscribes to what they held": {
			Action{Kind: Subscribe, Key: "k", Node: 5}, []event{
				next(0, contended), next(30*ms, Facts{}),
			},
		},
		"then it waits for what the arbiter reports, and asks all after its longest delay": {
			wait(60 * ms), []event{
				next(0, contended), next(30*ms, Facts{}), next(30*ms, watch(unknown)),
			},
		},
		"it backs off again after a release in this process": {
			wait(30 * ms), []event{refusedThenSubscribed, begins(0), next(10*ms, Facts{
				Contention: contended.Contention, Watch: changed,
			})},
		},
		"a failure for the fence alone is followed by an attempt over all": {
			Action{Kind: AskAll, Retry: true}, []event{
				refusedThenSubscribed, func(p *Policy) Action { p.Retry(); return Action{} },
				next(0, watch(unknown)),
			},
		},
		"by one": {
			wait(50 * ms), []event{
				refusedThenSubscribed, func(p *Policy) Action { p.Retry(); return Action{} },
				times(2, next(0, watch(unknown))),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := Policy{MaxDelay: 60 * ms, Arbiter: func(key string, skip int) int {
				if key == "nowhere" {
					return -1
				}
				return 5 + skip
			}}
			require.Equal(t, row.want, times(1, row.events...)(&p))
		})
	}
}

// The goal: a grant says how the call got its keys against other processes, since it began to
// contend the last time.
func TestPolicy_WhatAGrantSays(t *testing.T) {
	begin := next(0, Facts{Contention: State{Key: "k", Backoff: 30 * ms}})
	subscribe := next(30*ms, Facts{})
	met := Contended{Key: "k", Took: 100 * ms, Backoff: 30 * ms}
	with := func(change func(c *Contended)) *Contended {
		c := met
		change(&c)
		return &c
	}
	for name, row := range map[string]struct {
		want   *Contended
		events []event
	}{
		"nothing without a contender": {nil, []event{next(0, Facts{})}},
		"nothing without pushes": {nil, []event{
			begin, subscribe,
			next(30*ms, Facts{Watch: silent}),
		}},
		"nothing if the last attempt found no quorum": {nil, []event{
			begin, subscribe, next(30*ms, Facts{Watch: free}), failed(40*ms, noQuorum, 0, free),
		}},
		"the keys were free": {
			with(func(c *Contended) { c.WasFree = true }),
			[]event{begin, subscribe, next(30*ms, Facts{Watch: free})},
		},
		"the keys were held": {&met, []event{begin, subscribe, next(30*ms, Facts{Watch: pushes})}},
		"races were lost, those at the arbiter": {
			with(func(c *Contended) { c.LostRaces = 2 }), []event{
				begin, subscribe, next(30*ms, Facts{Watch: pushes}),
				times(2, failed(40*ms, heldByArbiter, 0, free)),
				failed(40*ms, heldEverywhere, 0, free),
				failed(40*ms, Failure{Key: "k", Refusals: 2}, 0, free),
			},
		},
		"a release in this process begins a new count": {
			&Contended{Key: "k", Took: 50 * ms, WasFree: true}, []event{
				begin, subscribe, next(30*ms, Facts{Watch: pushes}),
				failed(40*ms, heldByArbiter, 0, free), begins(0), next(50*ms, Facts{}),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := Policy{MaxDelay: 60 * ms, Arbiter: func(string, int) int { return 5 }}
			times(1, row.events...)(&p)
			got, ok := p.Granted(at(100 * ms))
			require.Equal(t, row.want != nil, ok)
			if ok {
				require.Equal(t, *row.want, got)
			}
		})
	}
}
