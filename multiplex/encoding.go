package multiplex

import (
	"strconv"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
)

// encoding is attempts as commands, and the bytes of these. It is used again by later ones.
type encoding struct {
	releases, extensions, acquires script.Plan
	raises, fenced                 script.Plan
	singles                        []single // acquires of one key
	commands                       []command
	bytes                          []byte
}

// single is the acquire of one key.
type single struct {
	attempt *Attempt
	index   int
}

// command is what one command carries: a script call with its sets, or the acquire of one key.
type command struct {
	script *script.Script // nil for a single key
	call   *script.Call
	// index of the attempt, for a single key. Of what is sent once more it is the offset of the
	// call's attempts.
	index int
}

func (m *Mux) newEncoding() *encoding {
	e, _ := m.encodings.Get().(*encoding)
	if e == nil {
		e = new(encoding)
	}
	e.reset()
	return e
}

func (e *encoding) reset() {
	e.releases.Reset(script.Release)
	e.extensions.Reset(script.Extend)
	e.acquires.Reset(script.Acquire)
	e.raises.Reset(script.RaiseFence)
	e.fenced.Reset(script.AcquireFenced)
	clear(e.singles)
	clear(e.commands)
	e.singles, e.commands, e.bytes = e.singles[:0], e.commands[:0], e.bytes[:0]
}

// add takes the attempt with this index.
func (e *encoding) add(i int, a *Attempt) {
	switch fence := a.claim.fence(); {
	case a.kind == release:
		e.releases.Add(i, a.set())
	case a.kind == extend:
		e.extensions.Add(i, a.set())
		if fence != nil {
			e.raises.Add(i, script.Set{Keys: fence.FenceKeys, Token: fence.Last})
		}
	case fence != nil:
		set := a.set()
		set.Fence = &fence.Fence
		e.fenced.Add(i, set)
	case a.claim.Len() == 1:
		e.singles = append(e.singles, single{a, i})
	default:
		e.acquires.Add(i, a.set())
	}
}

// set returns the attempt's keys for a script.
func (a *Attempt) set() script.Set {
	return script.Set{Keys: a.claim.keys(), Token: a.claim.Token(), TTL: a.ttlText}
}

// end makes commands and bytes of what was added. Releases come first, because they free keys that
// the acquires behind them may want. Extensions come last: acquires need not wait for them, and the
// acquire of the same claim may be in an encoding of several rounds. Fence keys are raised before
// the nodes get back what they lack: during rolling restarts a lease may outlive all nodes that
// granted it, and its fence must not be forgotten.
func (e *encoding) end() {
	e.addCalls(&e.releases)
	for _, s := range e.singles {
		c := s.attempt.claim
		e.commands = append(e.commands, command{index: s.index})
		e.bytes = resp.AppendCommand(e.bytes, "SET", c.keys()[0], c.Token(), "NX", "PX",
			s.attempt.ttlText)
	}
	e.addCalls(&e.acquires)
	e.addCalls(&e.fenced)
	e.addCalls(&e.raises)
	e.addCalls(&e.extensions)
}

func (e *encoding) addCalls(p *script.Plan) {
	calls := p.Calls()
	for i := range calls {
		e.addCall(p.Script(), &calls[i], 0)
	}
}

func (e *encoding) addCall(s *script.Script, c *script.Call, offset int) {
	e.commands = append(e.commands, command{s, c, offset})
	e.bytes = resp.AppendHeader(e.bytes, '*', 3+len(c.Keys)+len(c.Args))
	e.bytes = resp.AppendBulk(e.bytes, "EVALSHA")
	e.bytes = resp.AppendBulk(e.bytes, s.SHA)
	e.bytes = resp.AppendBulk(e.bytes, strconv.Itoa(len(c.Keys)))
	for _, key := range c.Keys {
		e.bytes = resp.AppendBulk(e.bytes, key)
	}
	for _, arg := range c.Args {
		e.bytes = resp.AppendBulk(e.bytes, arg)
	}
}

// addLoad adds the command that loads a script. Its reply is for nobody but errors.
func (e *encoding) addLoad(s *script.Script) {
	e.commands = append(e.commands, command{script: s})
	e.bytes = resp.AppendCommand(e.bytes, "SCRIPT", "LOAD", s.Source)
}
