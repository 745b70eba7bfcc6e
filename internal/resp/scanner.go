package resp

import (
	"bytes"
	"strconv"
)

// Limits bound one value.
type Limits struct {
	Bytes int
	Line  int // bytes of a line, such as an error
	Items int // values of all levels together, as announced
}

// ReplyLimits are an order of magnitude above what the scripts, HELLO, INFO and errors need.
var ReplyLimits = Limits{Bytes: 128 << 10, Line: 16 << 10, Items: 8 << 10}

// commandLimits are far above what is ever sent.
var commandLimits = Limits{Bytes: 1 << 30, Line: 32, Items: 1 << 24}

// longestName is above the names of pushes that subscriptions bring.
const longestName = 16

// Scanner finds where values end that come in pieces, in RESP2 and RESP3. It refuses what is beyond
// the limits, and strings and lists whose length comes at their end: servers do not send them. It
// is for one goroutine.
type Scanner struct {
	limits   Limits
	commands bool // a value is an array of strings

	// Of the unfinished value, or the last one:
	at     int  // how many bytes of it were followed
	values int  // parts to come; 0: it is whole
	items  int  // how many parts more it may announce
	typ    byte // its first byte, behind its attributes; 0: that has not come
	start  int  // where that is
	name   int  // so many parts are to come when the name of a push comes; 0: it came

	ints []int64 // memory of Reply
}

// NewScanner returns a Scanner of replies and pushes.
func NewScanner(limits Limits) Scanner { return Scanner{limits: limits} }

// NewCommandScanner returns a Scanner of commands.
func NewCommandScanner() Scanner { return Scanner{limits: commandLimits, commands: true} }

// Next finds the end of the value that p begins with: a reply, a push or a command, and the
// attributes before it. n is its length. If n is 0, the value is not whole: the next call gets the
// same bytes and more. A ProtocolError is what is wrong with p.
func (s *Scanner) Next(p []byte) (n int, err error) {
	if s.values == 0 {
		if n := shortReply(p); n > 0 {
			s.typ, s.start = p[0], 0
			return n, nil
		}
		s.at, s.values, s.items = 0, 1, s.limits.Items
		s.typ, s.start, s.name = 0, 0, 0
	}
	for s.values > 0 {
		n := 0
		if s.typ == '*' && s.at > s.start && s.at < len(p) && p[s.at] == ':' && !s.commands {
			_, n = shortInteger(p[s.at:])
			s.values -= min(n, 1)
		}
		if n == 0 {
			n, err = s.part(p[s.at:])
		}
		switch s.at += n; {
		case err != nil:
			return 0, err
		case s.at > s.limits.Bytes || n == 0 && len(p) > s.limits.Bytes:
			return 0, s.tooLong()
		case n == 0:
			return 0, nil
		}
	}
	return s.at, nil
}

// Type returns the first byte of the value that Next has followed, behind its attributes. It is 0
// if that has not come.
func (s *Scanner) Type() byte { return s.typ }

// part follows a line, or a string with the line before it. It returns 0 if that is not whole.
func (s *Scanner) part(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	typ := p[0]
	isName, err := s.place(typ)
	if err != nil {
		return 0, err
	}
	head, err := s.line(p)
	if head == 0 {
		return 0, err
	}
	n, line, parts := head, p[1:head-2], 0
	text, ok := line, true
	switch typ {
	case '+', '-', ',', '(':
	case '#':
		ok = string(line) == "t" || string(line) == "f"
	case '_':
		ok = len(line) == 0
	default:
		var number int64
		number, ok = parseInteger(line)
		null := number == -1 && (typ == '$' || typ == '*') && !isName && !s.commands // of RESP2
		switch {
		case !ok || typ == ':' || null:
		case number < 0:
			return 0, protocolErr("a %q of length %d", typ, number)
		case typ == '$' || typ == '!' || typ == '=':
			if n, err = s.body(p, head, number); n == 0 {
				return 0, err
			}
			text = p[head : n-2]
		default:
			if parts, err = s.announce(typ, number); err != nil {
				return 0, err
			}
		}
	}
	switch {
	case !ok:
		return 0, protocolErr("a %q with %.32q in its line", typ, line)
	case isName && len(text) <= longestName && (bytes.HasSuffix(text, []byte("subscribe")) ||
		bytes.HasSuffix(text, []byte("message"))):
		return 0, protocolErr("a push %q, and nothing was subscribed to", text)
	}
	if s.values += parts; typ != '|' { // attributes belong to the next value
		s.values--
	}
	switch {
	case isName:
		s.name = 0
	case typ == '>':
		s.name = s.values
	}
	return n, nil
}

// place checks that a part of this type may come now. It reports whether that is the name of a
// push.
func (s *Scanner) place(typ byte) (isName bool, err error) {
	outermost := s.values == 1 && (s.typ == 0 || s.at == s.start)
	switch {
	case s.commands && (typ == '*') != outermost, s.commands && typ != '*' && typ != '$',
		bytes.IndexByte([]byte("+-,(:#_$!=*~%|>"), typ) < 0:
		return false, protocolErr("a value of unknown type %q", typ)
	case typ == '|':
	case outermost:
		s.typ, s.start = typ, s.at
	case typ == '>':
		return false, protocolErr("a push inside of a reply")
	case s.values == s.name && typ != '$' && typ != '+':
		return false, protocolErr("a push whose name is of type %q", typ)
	default:
		return s.values == s.name, nil
	}
	return false, nil
}

// line returns the length of the line that p begins with, with its type and its end; 0 if it is not
// whole.
func (s *Scanner) line(p []byte) (n int, err error) {
	line, _, whole := bytes.Cut(p[1:min(len(p), s.limits.Line+2)], []byte("\r"))
	n = len(line) + 3
	switch {
	case bytes.IndexByte(line, '\n') >= 0, whole && len(p) >= n && p[n-1] != '\n':
		return 0, errHalfEnd
	case len(line) > s.limits.Line:
		return 0, protocolErr("a line of more than %d bytes", s.limits.Line)
	case !whole || len(p) < n:
		return 0, nil
	}
	return n, nil
}

// body returns the length of a string of so many bytes, with its line, which is head bytes long; 0
// if it is not whole.
func (s *Scanner) body(p []byte, head int, length int64) (n int, err error) {
	if length > int64(s.limits.Bytes-s.at-head) {
		return 0, s.tooLong()
	}
	end := head + int(length)
	switch {
	case len(p) > end && p[end] != '\r':
		return 0, protocolErr("a string that is longer than announced")
	case len(p) > end+1 && p[end+1] != '\n':
		return 0, errHalfEnd
	case len(p) < end+2:
		return 0, nil
	}
	return end + 2, nil
}

// announce returns how many parts a list, a map, a push or an attribute of this length has.
func (s *Scanner) announce(typ byte, length int64) (parts int, err error) {
	if typ == '%' || typ == '|' {
		length *= 2
	}
	switch {
	case length < 0 || length > int64(s.items): // below 0 if the double was too much
		return 0, protocolErr("a reply of more than %d values", s.limits.Items)
	case length == 0 && (typ == '>' || s.commands):
		return 0, protocolErr("a %q without a name", typ)
	}
	s.items -= int(length)
	return int(length), nil
}

func (s *Scanner) tooLong() error {
	return protocolErr("a reply of more than %d bytes", s.limits.Bytes)
}

// parseInteger returns the number of a whole line. ok is false if there is none, or if it is beyond
// an int64.
func parseInteger(line []byte) (n int64, ok bool) {
	digits := bytes.TrimPrefix(line, []byte("-"))
	if len(digits) == 0 || len(digits) > 19 || digits[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseInt(string(line), 10, 64)
	return n, err == nil
}
