package multiplex

import (
	"bytes"
	"fmt"
	"sync/atomic"
)

// Limits of one reply: an order of magnitude above what the scripts, HELLO, INFO and errors need.
const (
	maxReply  = 128 << 10 // bytes
	maxLine   = 16 << 10  // bytes of a line, such as an error
	maxItems  = 8 << 10   // values, all levels together, as announced
	maxNested = 16        // levels
	// longestName is above the names of pushes that subscriptions bring.
	longestName = 16
)

// replies follows the framing of what is read, as far as RESP2 and RESP3 have a use for it here: no
// strings and lists whose length is told at their end, which servers do not send. It gets along
// with any split of the stream.
type replies struct {
	sent        *atomic.Int64
	asked, came int64 // commands known to be sent; replies that began

	at     place
	typ    byte   // of the value under way
	line   int    // bytes of its line that came, but for the type
	number number // in that line, where its type has one
	body   int    // bytes of its string to come

	// Of the message under way: a reply or a push, and the attributes before it.
	room, items int
	attributed  bool // its attributes came
	depth       int
	levels      [maxNested]level

	naming bool   // the value under way is the name of a push
	name   []byte // of which this came, at most one byte more than the longest that matters
}

// place is what the next byte belongs to.
type place byte

const (
	atType place = iota
	inLine
	lineFeed
	bodyReturn // behind a string
	bodyFeed
)

// level is a list, map, set, attribute or push that is not complete.
type level struct {
	typ   byte
	left  int // values to come
	named bool
}

// shape is how a value is written.
type shape byte

const (
	text    shape = iota + 1 // a line
	integer                  // a line with a number
	boolean                  // a line with t or f
	nothing                  // an empty line
	blob                     // a line with a length, and so many bytes
	list                     // a line with a number of values, and these
)

var shapes = [256]shape{
	'+': text, '-': text, ',': text, '(': text, ':': integer, '#': boolean, '_': nothing,
	'$': blob, '!': blob, '=': blob, '*': list, '~': list, '%': list, '|': list, '>': list,
}

// errHalfEnd is the fault of a line that ends with a carriage return or a line feed alone.
var errHalfEnd = fault("a line without its whole end")

func fault(format string, args ...any) error {
	return protocolError{fmt.Errorf("protocol error: "+format, args...)}
}

// check follows p, and returns how much of it may be passed on, and what is wrong with the rest.
func (r *replies) check(p []byte) (good int, err error) {
	for i := 0; i < len(p); {
		if r.body > 0 {
			n := min(r.body, len(p)-i)
			if r.naming {
				r.call(p[i : i+n]...)
			}
			r.body -= n
			i += n
			continue
		}
		if err := r.step(p[i]); err != nil {
			return i, err
		}
		i++
	}
	return len(p), nil
}

// step takes one byte outside of strings.
func (r *replies) step(b byte) error {
	if r.at == atType {
		if err := r.begin(b); err != nil {
			return err
		}
	}
	if r.room--; r.room < 0 {
		return fault("a reply of more than %d bytes", maxReply)
	}
	switch r.at {
	case atType:
		r.at = inLine
	case inLine:
		return r.lineByte(b)
	case bodyReturn:
		r.at = bodyFeed
		if b != '\r' {
			return fault("a string that is longer than announced")
		}
	case lineFeed, bodyFeed:
		if b != '\n' {
			return errHalfEnd
		}
		if r.at == lineFeed {
			return r.lineEnd()
		}
		return r.valueEnd()
	}
	return nil
}

// begin takes the type of a value.
func (r *replies) begin(b byte) error {
	if shapes[b] == 0 {
		return fault("a value of unknown type %q", b)
	}
	r.typ, r.line, r.number = b, 0, number{}
	if r.depth > 0 {
		return r.beginInside(b)
	}
	if !r.attributed {
		r.room, r.items = maxReply, maxItems
	}
	if b == '>' || b == '|' {
		return nil
	}
	if r.came == r.asked {
		r.asked = r.sent.Load()
	}
	if r.came == r.asked {
		return fault("a reply of type %q that no command asked for", b)
	}
	r.came++
	return nil
}

// beginInside takes the type of a value that belongs to another one.
func (r *replies) beginInside(b byte) error {
	l := &r.levels[r.depth-1]
	switch {
	case b == '>':
		return fault("a push inside of a reply")
	case l.typ == '>' && !l.named && b != '|':
		if b != '$' && b != '+' {
			return fault("a push whose name is of type %q", b)
		}
		l.named, r.naming, r.name = true, true, r.name[:0]
	}
	return nil
}

// lineByte takes a byte of a line.
func (r *replies) lineByte(b byte) error {
	if b == '\r' {
		r.at = lineFeed
		return nil
	}
	r.line++
	ok := true
	switch {
	case b == '\n':
		return errHalfEnd
	case r.line > maxLine:
		return fault("a line of more than %d bytes", maxLine)
	case shapes[r.typ] == text:
		if r.naming {
			r.call(b)
		}
	case shapes[r.typ] == boolean:
		ok = r.line == 1 && (b == 't' || b == 'f')
	case shapes[r.typ] == nothing:
		ok = false
	default:
		ok = r.number.add(b)
	}
	if !ok {
		return fault("a %q with %q in its line", r.typ, b)
	}
	return nil
}

// lineEnd takes the end of a line.
func (r *replies) lineEnd() error {
	switch shapes[r.typ] {
	case text, nothing:
		return r.valueEnd()
	case boolean:
		if r.line == 0 {
			return fault("an empty boolean")
		}
		return r.valueEnd()
	}
	n, ok := r.number.int64()
	switch {
	case !ok:
		return fault("a %q without a number", r.typ)
	case r.typ == ':':
		return r.valueEnd()
	case n == -1 && !r.naming && (r.typ == '$' || r.typ == '*'): // the null of RESP2
		return r.valueEnd()
	case n < 0:
		return fault("a %q of length %d", r.typ, n)
	case shapes[r.typ] == blob:
		return r.string(n)
	}
	return r.nest(n)
}

// string begins the bytes of a string.
func (r *replies) string(n int64) error {
	if n > int64(r.room) {
		return fault("a reply of more than %d bytes", maxReply)
	}
	r.body, r.at = int(n), bodyReturn
	r.room -= r.body
	return nil
}

// nest begins a value of n others.
func (r *replies) nest(n int64) error {
	if r.typ == '%' || r.typ == '|' {
		n *= 2
	}
	switch {
	case n < 0 || n > int64(r.items): // below 0 where n*2 was too much
		return fault("a reply of more than %d values", maxItems)
	case r.depth == maxNested:
		return fault("a reply of more than %d levels", maxNested)
	case n == 0 && r.typ == '>':
		return fault("a push without a name")
	}
	r.items -= int(n)
	r.levels[r.depth] = level{typ: r.typ, left: int(n) + 1}
	r.depth++
	return r.valueEnd()
}

// valueEnd takes the end of a value, and of those that end with it.
func (r *replies) valueEnd() error {
	r.at = atType
	if r.naming {
		r.naming = false
		whole := len(r.name) <= longestName
		if whole && (bytes.HasSuffix(r.name, []byte("subscribe")) ||
			bytes.HasSuffix(r.name, []byte("message"))) {
			return fault("a push %q, and nothing was subscribed to", r.name)
		}
	}
	for r.depth > 0 {
		l := &r.levels[r.depth-1]
		if l.left--; l.left > 0 {
			return nil
		}
		r.depth--
		if l.typ == '|' { // it belongs to the value behind it, and does not count itself
			r.attributed = r.depth == 0
			return nil
		}
	}
	r.attributed = false
	return nil
}

// call takes some of the name of a push.
func (r *replies) call(some ...byte) {
	r.name = append(r.name, some[:min(len(some), longestName+1-len(r.name))]...)
}
