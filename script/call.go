package script

import "strconv"

// MaxKeys is the most keys that one call of a script names. A script blocks its server while it
// runs: 250 keys take about a quarter of a millisecond. It also keeps unpack far below the limit of
// any server.
const MaxKeys = 250

// Set is one lease's keys, or a part of them, as one node sees them.
type Set struct {
	Keys  []string
	Token string
	// TTL is in milliseconds, as decimal text. Release ignores it. Keep without one deletes.
	TTL string
	// Kept is for Keep and Adopt, which take a set a call: the token and the mark of values that
	// are kept, and what an Adopt takes.
	Kept []string
}

// What an Adopt takes. Each takes what the one before it takes, and more.
const (
	Marked   = "marked"   // keys that have the token and the mark
	Unmarked = "unmarked" // keys that have the token without the mark
	Free     = "free"     // keys that nobody has
)

// Call is one EVALSHA: the sets that it carries, of at most MaxKeys keys together.
type Call struct {
	// Owners has for each set, in order, the number that its caller gave it in Plan.Add.
	Owners []int
	// Sizes has for each set its number of keys.
	Sizes []int
	// Offset has for each set where its keys begin among its owner's: 0, except in a later part of
	// a large set.
	Offset []int
	// Keys and Args are KEYS and ARGV.
	Keys, Args []string
}

// Tokens returns which of Args are tokens: the one at first, and each at that distance behind the
// one before.
func (c *Call) Tokens() (first, distance int) {
	distance = (len(c.Args) - 1) / len(c.Owners)
	if c.Args[0] != "" { // the compact form
		return 1, distance
	}
	return 2, distance
}

// form is a form of ARGV.
type form int

const (
	compact form = iota // sets of one key, with the same TTL
	general             // any sets
	forms
)

// Plan spreads sets over as few calls of one script as MaxKeys allows. It is ready after Reset,
// which also reuses its memory. It is not safe for concurrent use.
type Plan struct {
	script *Script
	alone  bool // each set has a call of its own
	calls  []Call
	used   int
	open   [forms]int // for each form the index, from 1, of the call that takes more sets; 0: none
}

// Reset empties the plan, and sets the script that it is for. alone: each set, or part of a large
// one, gets a call of its own.
func (p *Plan) Reset(s *Script, alone bool) {
	p.script, p.alone = s, alone || s.takesOneSet()
	for i := range p.calls[:p.used] {
		c := &p.calls[i]
		clear(c.Keys)
		clear(c.Args)
		c.Owners, c.Sizes, c.Offset = c.Owners[:0], c.Sizes[:0], c.Offset[:0]
		c.Keys, c.Args = c.Keys[:0], c.Args[:0]
	}
	p.used = 0
	p.open = [forms]int{}
}

// Add puts a set into the plan. owner is a number of the caller's choice. A set of up to MaxKeys
// keys stays in one call, so that the node grants or refuses it as a whole. A larger one is spread
// over several calls, which have no other set.
func (p *Plan) Add(owner int, s Set) {
	from, keys := 0, s.Keys
	for ; len(keys)-from > MaxKeys; from += MaxKeys {
		s.Keys = keys[from : from+MaxKeys]
		p.add(owner, from, s)
	}
	s.Keys = keys[from:]
	p.add(owner, from, s)
}

// Calls returns the calls. Sets of one form are in the order in which they were added. The calls
// are valid until the next Reset, before which the plan takes no more sets.
func (p *Plan) Calls() []Call { return p.calls[:p.used] }

func (p *Plan) add(owner, from int, s Set) {
	f := general
	if len(s.Keys) == 1 && !p.script.takesOneSet() && p.fitsCompact(s.TTL) {
		f = compact
	}
	c := p.call(f, from, len(s.Keys), s.TTL)
	c.Owners = append(c.Owners, owner)
	c.Sizes = append(c.Sizes, len(s.Keys))
	c.Offset = append(c.Offset, from)
	c.Keys = append(c.Keys, s.Keys...)
	switch {
	case f == compact:
		c.Args = append(c.Args, s.Token)
	case !p.script.hasTTL():
		c.Args = append(c.Args, strconv.Itoa(len(s.Keys)), s.Token)
	default:
		c.Args = append(c.Args, strconv.Itoa(len(s.Keys)), s.Token, s.TTL)
	}
	if p.script.takesOneSet() {
		c.Args = append(c.Args, s.Kept...)
	}
}

// fitsCompact reports whether a set of one key fits into the open call of the compact form.
func (p *Plan) fitsCompact(ttl string) bool {
	open := p.open[compact]
	return !p.script.hasTTL() || open == 0 || p.calls[open-1].Args[0] == ttl
}

// call returns a call of the form f that takes so many more keys, from that one on of their set.
func (p *Plan) call(f form, from, keys int, ttl string) *Call {
	if open := p.open[f]; open > 0 && !p.alone && from == 0 && p.calls[open-1].Offset[0] == 0 &&
		len(p.calls[open-1].Keys)+keys <= MaxKeys {
		return &p.calls[open-1]
	}
	if p.used == len(p.calls) {
		p.calls = append(p.calls, Call{})
	}
	c := &p.calls[p.used]
	p.used++
	p.open[f] = p.used
	head := ""
	if f == compact {
		if head = ttl; !p.script.hasTTL() {
			head = "1"
		}
	}
	c.Args = append(c.Args, head)
	return c
}
