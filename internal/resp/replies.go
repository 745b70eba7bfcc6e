package resp

import (
	"bytes"
	"fmt"
	"sync/atomic"
)

// Limits of one reply: an order of magnitude above what the scripts, HELLO, INFO and errors need.
const (
	maxReply  = 128 << 10 // bytes
	maxLine   = 16 << 10  // bytes of a line, such as an error
	maxItems  = 8 << 10   // values of all levels together, as announced
	maxNested = 16        // levels
	// longestName is above the names of pushes that subscriptions bring.
	longestName = 16
)

// replyChecker follows the framing of what is read, in RESP2 and RESP3, however the stream is
// split. It refuses strings and lists whose length comes at their end: servers do not send them.
type replyChecker struct {
	sent           *atomic.Int64
	asked, replies int64 // commands known to be sent; replies that began

	state  state
	typ    byte   // of the unfinished value
	line   int    // bytes of its line that came, without the type
	number number // in that line, if its type has one
	body   int    // bytes of its string to come

	// Of the unfinished message: a reply or a push, and the attributes before it.
	bytesLeft, itemsLeft int
	attributed           bool // its attributes came
	depth                int
	frames               [maxNested]frame

	readingName bool   // the unfinished value is the name of a push
	name        []byte // what came of that name, up to one byte more than matters
}

// state is what the next byte belongs to.
type state byte

const (
	atType state = iota
	inLine
	atLineFeed
	atBodyReturn // behind a string
	atBodyFeed
)

// frame is an unfinished list, map, set, attribute or push.
type frame struct {
	typ   byte
	left  int // values to come
	named bool
}

// shape is how a value is written.
type shape byte

const (
	shapeText      shape = iota + 1 // a line
	shapeInteger                    // a line with a number
	shapeBoolean                    // a line with t or f
	shapeNull                       // an empty line
	shapeBlob                       // a line with a length, and that many bytes
	shapeAggregate                  // a line with a number of values, and these
)

var shapes = [256]shape{
	'+': shapeText, '-': shapeText, ',': shapeText, '(': shapeText,
	':': shapeInteger, '#': shapeBoolean, '_': shapeNull,
	'$': shapeBlob, '!': shapeBlob, '=': shapeBlob,
	'*': shapeAggregate, '~': shapeAggregate, '%': shapeAggregate, '|': shapeAggregate,
	'>': shapeAggregate,
}

// errHalfEnd is the error of a line that ends with a carriage return or a line feed alone.
var errHalfEnd = protocolErr("a line without its whole end")

func protocolErr(format string, args ...any) error {
	return ProtocolError(fmt.Sprintf("protocol error: "+format, args...))
}

// check follows p. It returns how much of p may be passed on, and what is wrong with the rest.
func (r *replyChecker) check(p []byte) (good int, err error) {
	for i := 0; i < len(p); {
		if r.body > 0 {
			n := min(r.body, len(p)-i)
			if r.readingName {
				r.appendName(p[i : i+n]...)
			}
			r.body -= n
			i += n
			continue
		}
		if err := r.feed(p[i]); err != nil {
			return i, err
		}
		i++
	}
	return len(p), nil
}

// feed takes one byte outside of strings.
func (r *replyChecker) feed(b byte) error {
	if r.state == atType {
		if err := r.beginValue(b); err != nil {
			return err
		}
	}
	if r.bytesLeft--; r.bytesLeft < 0 {
		return protocolErr("a reply of more than %d bytes", maxReply)
	}
	switch r.state {
	case atType:
		r.state = inLine
	case inLine:
		return r.feedLine(b)
	case atBodyReturn:
		r.state = atBodyFeed
		if b != '\r' {
			return protocolErr("a string that is longer than announced")
		}
	case atLineFeed, atBodyFeed:
		if b != '\n' {
			return errHalfEnd
		}
		if r.state == atLineFeed {
			return r.endLine()
		}
		return r.endValue()
	}
	return nil
}

// beginValue takes the type of a value.
func (r *replyChecker) beginValue(b byte) error {
	if shapes[b] == 0 {
		return protocolErr("a value of unknown type %q", b)
	}
	r.typ, r.line, r.number = b, 0, number{}
	if r.depth > 0 {
		return r.beginInside(b)
	}
	if !r.attributed {
		r.bytesLeft, r.itemsLeft = maxReply, maxItems
	}
	if b == '>' || b == '|' {
		return nil
	}
	if r.replies == r.asked {
		r.asked = r.sent.Load()
	}
	if r.replies == r.asked {
		return protocolErr("a reply of type %q that no command asked for", b)
	}
	r.replies++
	return nil
}

// beginInside takes the type of a value inside of another one.
func (r *replyChecker) beginInside(b byte) error {
	f := &r.frames[r.depth-1]
	switch {
	case b == '>':
		return protocolErr("a push inside of a reply")
	case f.typ == '>' && !f.named && b != '|':
		if b != '$' && b != '+' {
			return protocolErr("a push whose name is of type %q", b)
		}
		f.named, r.readingName, r.name = true, true, r.name[:0]
	}
	return nil
}

// feedLine takes a byte of a line.
func (r *replyChecker) feedLine(b byte) error {
	if b == '\r' {
		r.state = atLineFeed
		return nil
	}
	r.line++
	ok := true
	switch {
	case b == '\n':
		return errHalfEnd
	case r.line > maxLine:
		return protocolErr("a line of more than %d bytes", maxLine)
	case shapes[r.typ] == shapeText:
		if r.readingName {
			r.appendName(b)
		}
	case shapes[r.typ] == shapeBoolean:
		ok = r.line == 1 && (b == 't' || b == 'f')
	case shapes[r.typ] == shapeNull:
		ok = false
	default:
		ok = r.number.add(b)
	}
	if !ok {
		return protocolErr("a %q with %q in its line", r.typ, b)
	}
	return nil
}

// endLine takes the end of a line.
func (r *replyChecker) endLine() error {
	switch shapes[r.typ] {
	case shapeText, shapeNull:
		return r.endValue()
	case shapeBoolean:
		if r.line == 0 {
			return protocolErr("an empty boolean")
		}
		return r.endValue()
	}
	n, ok := r.number.int64()
	switch {
	case !ok:
		return protocolErr("a %q without a number", r.typ)
	case r.typ == ':':
		return r.endValue()
	case n == -1 && !r.readingName && (r.typ == '$' || r.typ == '*'): // the null of RESP2
		return r.endValue()
	case n < 0:
		return protocolErr("a %q of length %d", r.typ, n)
	case shapes[r.typ] == shapeBlob:
		return r.openString(n)
	}
	return r.openAggregate(n)
}

// openString begins a string of n bytes.
func (r *replyChecker) openString(n int64) error {
	if n > int64(r.bytesLeft) {
		return protocolErr("a reply of more than %d bytes", maxReply)
	}
	r.body, r.state = int(n), atBodyReturn
	r.bytesLeft -= r.body
	return nil
}

// openAggregate begins a value of n others.
func (r *replyChecker) openAggregate(n int64) error {
	if r.typ == '%' || r.typ == '|' {
		n *= 2
	}
	switch {
	case n < 0 || n > int64(r.itemsLeft): // below 0 if n*2 was too much
		return protocolErr("a reply of more than %d values", maxItems)
	case r.depth == maxNested:
		return protocolErr("a reply of more than %d levels", maxNested)
	case n == 0 && r.typ == '>':
		return protocolErr("a push without a name")
	}
	r.itemsLeft -= int(n)
	r.frames[r.depth] = frame{typ: r.typ, left: int(n) + 1}
	r.depth++
	return r.endValue()
}

// endValue takes the end of a value, and of the values around it that end with it.
func (r *replyChecker) endValue() error {
	r.state = atType
	if r.readingName {
		r.readingName = false
		whole := len(r.name) <= longestName
		if whole && (bytes.HasSuffix(r.name, []byte("subscribe")) ||
			bytes.HasSuffix(r.name, []byte("message"))) {
			return protocolErr("a push %q, and nothing was subscribed to", r.name)
		}
	}
	for r.depth > 0 {
		f := &r.frames[r.depth-1]
		if f.left--; f.left > 0 {
			return nil
		}
		r.depth--
		if f.typ == '|' { // it belongs to the next value, and is not counted
			r.attributed = r.depth == 0
			return nil
		}
	}
	r.attributed = false
	return nil
}

// appendName takes a part of the name of a push.
func (r *replyChecker) appendName(part ...byte) {
	r.name = append(r.name, part[:min(len(part), longestName+1-len(r.name))]...)
}
