package resp

// Reply is a reply that a Checker has decoded without memory of its own: Ints and Text are valid
// only until the stream is read further, and must not be changed.
type Reply struct {
	Kind Kind
	Int  int64   // of KindInteger
	Ints []int64 // of KindIntegers
	Text []byte  // of KindStatus and KindError, and the begin of a KindString: see MaxText
}

// Kind is what a Reply is.
type Kind byte

// The kinds of a Reply.
const (
	KindOther    Kind = iota // anything else, such as a map or a list of lists
	KindInteger              // an integer
	KindIntegers             // a list of integers alone, which may be empty
	KindStatus               // a simple string, such as OK
	KindError                // an error
	KindNull                 // the null of RESP2 or of RESP3
	KindString               // a string that may have any bytes
)

// MaxText is how much of a KindString a Reply has, at most.
const MaxText = 256

// record notes the value whose line has ended; n is the number in that line.
func (r *Checker) record(n int64) {
	switch {
	case r.depth > 0 && (r.typ != ':' || r.reply.Kind != KindIntegers):
		r.reply.Kind = KindOther
	case r.depth > 0:
		r.ints = append(r.ints, n)
	case r.typ == '+':
		r.reply.Kind = KindStatus
	case r.typ == '-' || r.typ == '!':
		r.reply.Kind = KindError
	case r.typ == '_' || n == -1 && (r.typ == '$' || r.typ == '*'):
		r.reply.Kind = KindNull
	case r.typ == '$':
		r.reply.Kind = KindString
	case r.typ == ':':
		r.reply.Kind, r.reply.Int = KindInteger, n
	case r.typ == '*':
		r.reply.Kind = KindIntegers
	}
}

// replyOK and replyNull are the most frequent replies. To copy one is faster than to make it.
var (
	replyOK   = Reply{Kind: KindStatus, Text: []byte("OK")}
	replyNull = Reply{Kind: KindNull}
)

// shortReply takes one of the usual replies if p begins with a whole one, and returns its length.
// It returns 0 for all others: they take the long way.
func (r *Checker) shortReply(p []byte) int {
	switch p[0] {
	case '+':
		if len(p) >= 5 && string(p[:5]) == "+OK\r\n" {
			r.reply = replyOK
			return 5
		}
	case ':':
		if v, n := shortInteger(p); n > 0 {
			r.reply = Reply{Kind: KindInteger, Int: v}
			return n
		}
	case '_':
		if len(p) >= 3 && string(p[:3]) == "_\r\n" {
			r.reply = replyNull
			return 3
		}
	case '$':
		if len(p) >= 5 && string(p[:5]) == "$-1\r\n" {
			r.reply = replyNull
			return 5
		}
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
