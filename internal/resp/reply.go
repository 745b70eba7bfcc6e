package resp

import "bytes"

// Reply is a reply without memory of its own: Ints and Text are valid only until the connection is
// read further, and must not be changed.
type Reply struct {
	Kind byte    // as in Value, but _ for each null, and = for a verbatim string
	Int  int64   // of :
	Ints []int64 // of *, if these are all of its items
	Text []byte  // of + - and $
	raw  []byte
}

// LastByte is the index of the last byte of a key's value that is read, in a command. A whole value
// may be larger than a reply may be.
const LastByte = "255"

// Reply decodes the value that Next has just found at the begin of p.
func (s *Scanner) Reply(p []byte, n int) Reply {
	v := p[s.start:n]
	r := Reply{Kind: v[0], raw: v}
	end := bytes.IndexByte(v, '\n')
	switch r.Kind {
	case '+', '-':
		r.Text = v[1 : len(v)-2]
	case '!':
		r.Kind, r.Text = '-', v[end+1:len(v)-2]
	case ':':
		r.Int, _ = parseInteger(v[1 : len(v)-2])
	case '$', '*':
		switch {
		case v[1] == '-' && v[end-2] != '0':
			r.Kind = '_'
		case r.Kind == '$':
			r.Text = v[end+1 : len(v)-2]
		case s.integers(v[end+1:]):
			r.Ints = s.ints
		}
	}
	return r
}

// integers decodes the values of a list. It returns false if not all are integers.
func (s *Scanner) integers(p []byte) bool {
	s.ints = s.ints[:0]
	for len(p) > 0 {
		if p[0] != ':' {
			return false
		}
		v, n := shortInteger(p)
		if n == 0 {
			n = bytes.IndexByte(p, '\n') + 1
			v, _ = parseInteger(p[1 : n-2])
		}
		s.ints, p = append(s.ints, v), p[n:]
	}
	return true
}

// Value returns the whole reply, in memory of its own.
func (r *Reply) Value() Value {
	v, _ := valueOf(r.raw)
	return v
}

// shortReply returns the length of one of the usual replies if p begins with a whole one, and 0 for
// all others: they take the long way.
func shortReply(p []byte) int {
	switch {
	case len(p) < 3:
	case p[0] == '+' && len(p) >= 5 && string(p[:5]) == "+OK\r\n":
		return 5
	case p[0] == ':':
		_, n := shortInteger(p)
		return n
	case p[0] == '_' && string(p[:3]) == "_\r\n":
		return 3
	case p[0] == '$' && len(p) >= 5 && string(p[:5]) == "$-1\r\n":
		return 5
	}
	return 0
}

// shortInteger returns the integer that p begins with, and its length. n is 0 if it is not whole,
// or has more than 18 digits.
func shortInteger(p []byte) (value int64, n int) {
	i := 1
	negative := len(p) > 1 && p[1] == '-'
	if negative {
		i++
	}
	digits := i
	for i < len(p) && p[i]-'0' <= 9 && i-digits < 18 {
		value = value*10 + int64(p[i]-'0')
		i++
	}
	if i == digits || len(p)-i < 2 || p[i] != '\r' || p[i+1] != '\n' {
		return 0, 0
	}
	if negative {
		value = -value
	}
	return value, i + 2
}
