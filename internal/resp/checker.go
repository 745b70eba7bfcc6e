package resp

import "bytes"

// The limits of one reply that a Checker follows: an order of magnitude above what the scripts,
// HELLO, INFO and errors need.
const (
	MaxReply  = 128 << 10 // bytes
	MaxLine   = 16 << 10  // bytes of a line, such as an error
	MaxItems  = 8 << 10   // values of all levels together, as announced
	MaxNested = 16        // levels
	// longestName is above the names of pushes that subscriptions bring.
	longestName = 16
)

// Checker follows and decodes what a server sends, in RESP2 and RESP3, however the stream is split.
// It refuses what is beyond the limits, and strings and lists whose length comes at their end:
// servers do not send them. Its zero value is at the begin of a stream. It is for one goroutine.
type Checker struct {
	state  state
	typ    byte   // of the unfinished value
	line   int    // bytes of its line that came, without the type
	number number // in that line, if its type has one
	body   int    // bytes of its string to come

	// Of the unfinished message: a reply or a push, and the attributes before it.
	bytesLeft, itemsLeft int
	attributed           bool // its attributes came
	depth                int
	frames               [MaxNested]frame

	readingName bool   // the unfinished value is the name of a push
	name        []byte // what came of that name, up to one byte more than matters

	reply Reply   // what is known of the unfinished or last value of the outermost level
	text  []byte  // of an unfinished status, error or string; used again
	ints  []int64 // of an unfinished list; used again
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

// Begun reports whether a value of the outermost level has begun and is not complete.
func (r *Checker) Begun() bool { return r.depth > 0 || r.state != atType }

// Reply returns the value that Next has just completed. Its memory is valid until the next Next.
func (r *Checker) Reply() Reply { return r.reply }

// Next follows p up to the end of one value of the outermost level: a reply, a push, or an
// attribute, which belongs to the next value. n is how many bytes of p that is, and complete
// reports whether the value ends there. A ProtocolError is what is wrong with p[n:].
func (r *Checker) Next(p []byte) (n int, complete bool, err error) {
	if len(p) > 0 && !r.attributed && !r.Begun() {
		if n := r.shortReply(p); n > 0 {
			return n, true, nil
		}
	}
	for i := 0; i < len(p); {
		if r.body > 0 {
			n := min(r.body, len(p)-i)
			r.feedBody(p[i : i+n])
			i += n
			continue
		}
		if r.depth > 0 && r.reply.Kind == KindIntegers && r.state == atType && p[i] == ':' {
			if v, n := shortInteger(p[i:]); n > 0 && n <= r.bytesLeft {
				r.bytesLeft -= n
				r.ints = append(r.ints, v)
				if err := r.endValue(); err != nil {
					return i, false, err
				}
				if i += n; !r.Begun() {
					return i, true, nil
				}
				continue
			}
		}
		if err := r.feed(p[i]); err != nil {
			return i, false, err
		}
		if i++; !r.Begun() {
			return i, true, nil
		}
	}
	return len(p), false, nil
}

// feedBody takes a part of a string.
func (r *Checker) feedBody(part []byte) {
	if r.readingName {
		r.appendName(part...)
	}
	switch {
	case r.depth > 0:
	case r.typ == '!':
		r.text = append(r.text, part...)
	case r.typ == '$':
		r.text = append(r.text, part[:min(len(part), MaxText-len(r.text))]...)
	}
	r.body -= len(part)
}

// feed takes one byte outside of strings.
func (r *Checker) feed(b byte) error {
	if r.state == atType {
		if err := r.beginValue(b); err != nil {
			return err
		}
	}
	if r.bytesLeft--; r.bytesLeft < 0 {
		return protocolErr("a reply of more than %d bytes", MaxReply)
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
func (r *Checker) beginValue(b byte) error {
	if shapes[b] == 0 {
		return protocolErr("a value of unknown type %q", b)
	}
	r.typ, r.line, r.number = b, 0, number{}
	if r.depth > 0 {
		return r.beginInside(b)
	}
	if !r.attributed {
		r.bytesLeft, r.itemsLeft = MaxReply, MaxItems
	}
	r.reply, r.text, r.ints = Reply{}, r.text[:0], r.ints[:0]
	return nil
}

// beginInside takes the type of a value inside of another one.
func (r *Checker) beginInside(b byte) error {
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
func (r *Checker) feedLine(b byte) error {
	if b == '\r' {
		r.state = atLineFeed
		return nil
	}
	r.line++
	ok := true
	switch {
	case b == '\n':
		return errHalfEnd
	case r.line > MaxLine:
		return protocolErr("a line of more than %d bytes", MaxLine)
	case shapes[r.typ] == shapeText:
		if r.readingName {
			r.appendName(b)
		}
		if r.depth == 0 {
			r.text = append(r.text, b)
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
func (r *Checker) endLine() error {
	switch shapes[r.typ] {
	case shapeText, shapeNull:
		r.record(0)
		return r.endValue()
	case shapeBoolean:
		if r.line == 0 {
			return protocolErr("an empty boolean")
		}
		r.record(0)
		return r.endValue()
	}
	n, ok := r.number.int64()
	if !ok {
		return protocolErr("a %q without a number", r.typ)
	}
	null := n == -1 && !r.readingName && (r.typ == '$' || r.typ == '*') // as RESP2 writes it
	if n < 0 && !null && r.typ != ':' {
		return protocolErr("a %q of length %d", r.typ, n)
	}
	r.record(n)
	switch {
	case null || r.typ == ':':
		return r.endValue()
	case shapes[r.typ] == shapeBlob:
		return r.openString(n)
	}
	return r.openAggregate(n)
}

// openString begins a string of n bytes.
func (r *Checker) openString(n int64) error {
	if n > int64(r.bytesLeft) {
		return protocolErr("a reply of more than %d bytes", MaxReply)
	}
	r.body, r.state = int(n), atBodyReturn
	r.bytesLeft -= r.body
	return nil
}

// openAggregate begins a value of n others.
func (r *Checker) openAggregate(n int64) error {
	if r.typ == '%' || r.typ == '|' {
		n *= 2
	}
	switch {
	case n < 0 || n > int64(r.itemsLeft): // below 0 if n*2 was too much
		return protocolErr("a reply of more than %d values", MaxItems)
	case r.depth == MaxNested:
		return protocolErr("a reply of more than %d levels", MaxNested)
	case n == 0 && r.typ == '>':
		return protocolErr("a push without a name")
	}
	r.itemsLeft -= int(n)
	r.frames[r.depth] = frame{typ: r.typ, left: int(n) + 1}
	r.depth++
	return r.endValue()
}

// endValue takes the end of a value, and of the values around it that end with it.
func (r *Checker) endValue() error {
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
	switch r.reply.Kind {
	case KindStatus, KindError, KindString:
		r.reply.Text = r.text
	case KindIntegers:
		r.reply.Ints = r.ints
	}
	return nil
}

// appendName takes a part of the name of a push.
func (r *Checker) appendName(part ...byte) {
	r.name = append(r.name, part[:min(len(part), longestName+1-len(r.name))]...)
}
