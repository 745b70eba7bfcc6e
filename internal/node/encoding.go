package node

import (
	"strconv"

	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
)

// Encoding is operations as commands, and the bytes of these. It is used again by later ones. The
// values in the bytes have a place for the character of a node: see appendTo.
type Encoding struct {
	group *Group // set once
	set   link.CommandSet

	plans            [len(planned)]script.Plan
	singles, deletes []single // of one key: acquires, and releases for DELIFEQ
	fenced, raised   []single // acquires, and extensions, with a fence
	taken            []uint16 // memory of addFences
	together         together // acquires for MSETEX
	commands         []command
	bytes            []byte
	places           []int // in bytes, of the characters
	tags             []int // in bytes, of the tags
}

// The plans of an encoding, and the script of each.
const (
	releases = iota
	keeps
	acquires
	fenced // acquires of several keys with a fence
	adopts
	extensions
)

var planned = [...]*script.Script{
	releases: script.Release, keeps: script.Keep, acquires: script.Acquire, fenced: script.Acquire,
	adopts: script.Adopt, extensions: script.Extend,
}

// single is an operation that has no script call.
type single struct {
	op    *Op
	index int
}

// command is what one command carries: a script call with its sets, or the operations of another
// command. It is the SET of one acquire if it is nothing else.
type command struct {
	script  *script.Script // that is called, or loaded; nil for others
	call    *script.Call
	singles []single        // without a call
	newer   link.CommandSet // the newer command that it is; 0: none
	fences  fenceCommand    // 0: it is none
}

// newEncoding returns an empty encoding for nodes with these commands. alone: each set of keys has
// a script call of its own.
func (g *Group) newEncoding(set link.CommandSet, alone bool) *Encoding {
	e, _ := g.encodings.Get().(*Encoding)
	if e == nil {
		e = &Encoding{group: g}
	}
	e.set = set
	e.together.reset()
	for i, s := range planned {
		// What the server says of an acquire with a fence must not have another sent once more.
		e.plans[i].Reset(s, alone || i == fenced)
	}
	for _, list := range []*[]single{&e.singles, &e.deletes, &e.fenced, &e.raised} {
		clear(*list)
		*list = (*list)[:0]
	}
	clear(e.commands)
	e.commands, e.bytes, e.places = e.commands[:0], e.bytes[:0], e.places[:0]
	e.tags = e.tags[:0]
	return e
}

// add takes the operation with this index.
func (e *Encoding) add(i int, o *Op) {
	fence := o.Keys.Fence()
	if fence != nil && o.Kind == Acquire {
		e.fenced = append(e.fenced, single{o, i})
	}
	switch {
	case o.Kind == Release && (o.TTL != "" || o.Keys.Kept() != nil):
		e.plans[keeps].Add(i, o.set())
	case o.Kind == Release && e.set&link.DELIFEQ != 0 && o.Keys.Len() == 1:
		e.deletes = append(e.deletes, single{o, i})
	case o.Kind == Release:
		e.plans[releases].Add(i, o.set())
	case o.Kind == Extend:
		e.plans[extensions].Add(i, o.set())
		if fence != nil {
			e.raised = append(e.raised, single{o, i})
		}
	case o.Keys.Kept() != nil:
		e.plans[adopts].Add(i, o.set())
	case fence != nil && o.Keys.Len() > 1:
		e.plans[fenced].Add(i, o.set())
	case fence == nil && e.set&link.MSETEX != 0 && e.together.add(i, o, &e.group.refused):
	case o.Keys.Len() == 1:
		e.singles = append(e.singles, single{o, i})
	default:
		e.plans[acquires].Add(i, o.set())
	}
}

// set returns the operation's keys for a script.
func (o *Op) set() script.Set {
	kept := o.Keys.Kept()
	if o.Kind == Release && o.TTL != "" && o.TTL != PutBack {
		kept = []string{ids.Marked(o.Keys.Token())}
	}
	return script.Set{Keys: o.Keys.All(), Token: o.Keys.Token(), TTL: o.TTL, Kept: kept}
}

// end makes commands and bytes of what was added. Releases come first, because they free keys that
// the acquires behind them may want. Extensions come last: acquires need not wait for them, and the
// acquire of the same claim may be in an encoding of several rounds. The numbers of acquires come
// behind all acquires, and those of extensions before these: see fenceCommand.
func (e *Encoding) end() {
	for i := range e.deletes {
		e.addDELIFEQ(e.deletes[i : i+1])
	}
	e.addCalls(releases)
	e.addCalls(keeps)
	e.addTogether()
	for i := range e.singles {
		e.addSET(e.singles[i : i+1])
	}
	e.addCalls(acquires)
	e.addCalls(adopts)
	e.addCalls(fenced)
	e.addFences()
	e.addCalls(extensions)
}

// addSET adds the acquire of one key.
func (e *Encoding) addSET(acquire []single) {
	o := acquire[0].op
	e.commands = append(e.commands, command{singles: acquire})
	e.header(6)
	e.texts("SET")
	e.keys(o.Keys.All()[:1])
	e.value(o.Keys.Token())
	e.texts("NX", "PX", o.TTL)
}

// addCalls adds the calls of a plan.
func (e *Encoding) addCalls(plan int) {
	calls := e.plans[plan].Calls()
	for i := range calls {
		e.addCall(planned[plan], &calls[i])
	}
}

func (e *Encoding) addCall(s *script.Script, c *script.Call) {
	e.commands = append(e.commands, command{script: s, call: c})
	e.header(3 + len(c.Keys) + len(c.Args))
	e.texts("EVALSHA", s.SHA, strconv.Itoa(len(c.Keys)))
	e.keys(c.Keys)
	next, distance := c.Tokens()
	for i, arg := range c.Args {
		if i != next {
			e.texts(arg)
			continue
		}
		e.value(arg)
		next += distance
	}
}

// addLoad adds the command that loads a script. Its reply is for nobody but errors.
func (e *Encoding) addLoad(s *script.Script) {
	e.commands = append(e.commands, command{script: s})
	e.header(3)
	e.texts("SCRIPT", "LOAD", s.Source)
}

// The value of a key is the token and the character of the node. Commands are encoded once for all
// nodes, with a place for that character. Each flush copies them, and sets the character of its
// node there, and in a Redis Cluster its tag before each key. So a server that two names lead to
// gives only one of them its vote: the value that it has is not that of the other.

// header begins a command of n texts and values.
func (e *Encoding) header(n int) { e.bytes = resp.AppendHeader(e.bytes, '*', n) }

// texts adds texts to a command.
func (e *Encoding) texts(texts ...string) {
	for _, text := range texts {
		e.bytes = resp.AppendBulk(e.bytes, text)
	}
}

// keys adds keys to a command. On a node in a Redis Cluster they begin with the node's tag, for
// which they get a place.
func (e *Encoding) keys(keys []string) {
	if e.set&link.Tagged == 0 {
		e.texts(keys...)
		return
	}
	for _, key := range keys {
		e.bytes = resp.AppendHeader(e.bytes, '$', len(noTag)+len(key))
		e.tags = append(e.tags, len(e.bytes))
		e.bytes = append(append(append(e.bytes, noTag...), key...), "\r\n"...)
	}
}

// noTag has the length of every tag, and is none, should it ever be sent.
const noTag = "{????}"

// value adds the value that a node has for a token, with a place for the node's character.
func (e *Encoding) value(token string) {
	e.bytes = append(resp.AppendHeader(e.bytes, '$', len(token)+1), token...)
	e.places = append(e.places, len(e.bytes))
	e.bytes = append(e.bytes, "=\r\n"...) // no node's character, should it ever be sent
}

// appendTo appends the commands as the node with this index and tag is sent them.
func (e *Encoding) appendTo(dst []byte, node int, tag string) []byte {
	begin, char := len(dst), ids.NodeChar(node)
	dst = append(dst, e.bytes...)
	for _, at := range e.places {
		dst[begin+at] = char
	}
	for _, at := range e.tags {
		copy(dst[begin+at:], tag)
	}
	return dst
}
