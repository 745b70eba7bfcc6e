package script

import "strconv"

// MaxKeys is the most keys that one call of a script names. A script blocks its server while it
// runs: 250 keys are about a quarter of a millisecond. It also keeps unpack far below the least
// that any server allows.
const MaxKeys = 250

// Set is one lease's keys, or a part of them, as one node sees them.
type Set struct {
	Keys  []string
	Token string
	// TTL is in milliseconds, as decimal text; Release and Raise do not look at it.
	TTL string
	// Fence is for AcquireFenced; nil for the others.
	Fence *Fence
}

// Fence is what stands beside the keys of a set that is taken with fencing.
type Fence struct {
	// Companions are the keys that have the highest fence of each of the set's keys.
	FenceKeys []string
	// First and Last are the numbers that are asked for, as decimal text.
	First, Last string
}

// Call is one EVALSHA: the sets that it carries, of at most MaxKeys keys together.
type Call struct {
	// Owners tells for each set, in order, the number that its caller gave it in Plan.Add.
	Owners []int
	// Sizes tells for each set its number of keys.
	Sizes []int
	// From tells for each set where its keys begin among its owner's: 0, except in a later part of
	// a large set.
	From []int
	// Keys and Args are KEYS and ARGV.
	Keys, Args []string

	script *Script
}

// form is one of the two forms of ARGV.
type form int

const (
	shared  form = iota // one key each, the same TTL
	general             // any sets
	forms
)

// Plan spreads sets over as few calls of one script as MaxKeys allows. It is ready after Reset,
// which also allows reuse of the memory. It is not safe for concurrent use.
type Plan struct {
	script *Script
	calls  []Call
	used   int
	open   [forms]int // places, from 1, in calls of those that take more sets; 0 for none
}

// Reset empties the plan and says which script it is for.
func (p *Plan) Reset(s *Script) {
	p.script = s
	for i := range p.calls[:p.used] {
		c := &p.calls[i]
		clear(c.Keys)
		clear(c.Args)
		c.Owners, c.Sizes, c.From = c.Owners[:0], c.Sizes[:0], c.From[:0]
		c.Keys, c.Args = c.Keys[:0], c.Args[:0]
	}
	p.used = 0
	p.open = [forms]int{}
}

// Add puts a set into the plan under a number of the caller's. A set of up to Script.MaxSet keys
// stays in one call, so that the node grants or refuses it as a whole; a larger one is spread over
// several calls.
func (p *Plan) Add(owner int, s Set) {
	from, keys, most := 0, s.Keys, p.script.MaxSet()
	for ; len(keys)-from > most; from += most {
		s.Keys = keys[from : from+most]
		p.add(owner, from, s)
	}
	s.Keys = keys[from:]
	p.add(owner, from, s)
}

// Calls returns the calls; sets of one form are in the order in which they were added. They are
// valid until the next Reset.
func (p *Plan) Calls() []Call { return p.calls[:p.used] }

// Script returns the script that the plan is for.
func (p *Plan) Script() *Script { return p.script }

func (p *Plan) add(owner, from int, s Set) {
	f := general
	if len(s.Keys) == 1 && p.shares(s.TTL) {
		f = shared
	}
	c := p.call(f, len(s.Keys)*p.script.perKey(), s.TTL)
	c.Owners = append(c.Owners, owner)
	c.Sizes = append(c.Sizes, len(s.Keys))
	c.From = append(c.From, from)
	c.Keys = append(c.Keys, s.Keys...)
	switch {
	case p.script == AcquireFenced:
		c.Keys = append(c.Keys, s.Fence.FenceKeys[from:from+len(s.Keys)]...)
		if f == general {
			c.Args = append(c.Args, strconv.Itoa(len(s.Keys)), s.TTL)
		}
		c.Args = append(c.Args, s.Token, s.Fence.First, s.Fence.Last)
	case f == shared:
		c.Args = append(c.Args, s.Token)
	case !p.script.timed():
		c.Args = append(c.Args, strconv.Itoa(len(s.Keys)), s.Token)
	default:
		c.Args = append(c.Args, strconv.Itoa(len(s.Keys)), s.Token, s.TTL)
	}
}

// shares reports whether a set of one key fits into the short form.
func (p *Plan) shares(ttl string) bool {
	open := p.open[shared]
	return !p.script.timed() || open == 0 || p.calls[open-1].Args[0] == ttl
}

// call returns the call of a form that has room for so many more keys.
func (p *Plan) call(f form, keys int, ttl string) *Call {
	if open := p.open[f]; open > 0 && len(p.calls[open-1].Keys)+keys <= MaxKeys {
		return &p.calls[open-1]
	}
	if p.used == len(p.calls) {
		p.calls = append(p.calls, Call{})
	}
	c := &p.calls[p.used]
	p.used++
	p.open[f] = p.used
	c.script = p.script
	head := ""
	if f == shared {
		if head = ttl; !p.script.timed() {
			head = "1"
		}
	}
	c.Args = append(c.Args, head)
	return c
}

// Split returns a call of its own for each set of c. They share the memory of c's keys.
func (c *Call) Split() []Call {
	head, rest := c.Args[:1:1], c.Args[1:]
	stride := len(rest) / len(c.Owners)
	calls := make([]Call, len(c.Owners))
	first := 0
	for i, n := range c.Sizes {
		n *= c.script.perKey()
		calls[i] = Call{
			Owners: c.Owners[i : i+1], Sizes: c.Sizes[i : i+1], From: c.From[i : i+1],
			Keys: c.Keys[first : first+n], Args: append(head, rest[i*stride:(i+1)*stride]...),
			script: c.script,
		}
		first += n
	}
	return calls
}
