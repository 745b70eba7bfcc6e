package multiplex

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	errMalformed  = errors.New("malformed")
	errIncomplete = errors.New("incomplete")
)

var (
	decimal    = regexp.MustCompile(`^-?[0-9]{1,19}$`)
	subscribed = regexp.MustCompile(`(subscribe|message)$`)
)

// wholeParser is the deliberately dumb version of replies: it has the whole stream, and calls
// itself for what is nested.
type wholeParser struct {
	data  []byte
	at    int
	asked int
	start int // of the message under way
	items int
}

// verdict is nil where the stream is a number of whole messages.
func (p *wholeParser) verdict() error {
	for p.at < len(p.data) {
		p.start, p.items = p.at, 0
		if err := p.message(); err != nil {
			return err
		}
	}
	return nil
}

func (p *wholeParser) message() error {
	for {
		if p.at == len(p.data) {
			return errIncomplete
		}
		typ := p.data[p.at]
		if typ != '|' && typ != '>' {
			if p.asked--; p.asked < 0 {
				return errMalformed
			}
		}
		if _, _, err := p.value(0); err != nil || typ != '|' {
			return err
		}
	}
}

// value reads one value, and returns its type and the text of a line or string.
func (p *wholeParser) value(depth int) (typ byte, text string, err error) {
	if p.at == len(p.data) {
		return 0, "", errIncomplete
	}
	typ = p.data[p.at]
	p.at++
	if !strings.ContainsRune("+-,(:#_$!=*~%|>", rune(typ)) {
		return typ, "", errMalformed
	}
	if text, err = p.lineAt(); err != nil {
		return typ, "", err
	}
	switch typ {
	case '+', '-', ',', '(':
		return typ, text, nil
	case '#':
		return typ, text, malformedUnless(text == "t" || text == "f")
	case '_':
		return typ, text, malformedUnless(text == "")
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || !decimal.MatchString(text):
		return typ, "", errMalformed
	case typ == ':' || n == -1 && (typ == '$' || typ == '*'):
		return typ, "", nil
	case n < 0:
		return typ, "", errMalformed
	case strings.ContainsRune("$!=", rune(typ)):
		text, err = p.stringAt(n)
		return typ, text, err
	}
	return typ, "", p.list(typ, n, depth+1)
}

func malformedUnless(ok bool) error {
	if ok {
		return nil
	}
	return errMalformed
}

func (p *wholeParser) list(typ byte, n int64, depth int) error {
	if n > maxItems || depth > maxNested || typ == '>' && n == 0 {
		return errMalformed
	}
	if typ == '%' || typ == '|' {
		n *= 2
	}
	if p.items += int(n); p.items > maxItems {
		return errMalformed
	}
	named := false
	for n > 0 {
		if p.at < len(p.data) && p.data[p.at] == '>' {
			return errMalformed
		}
		inner, text, err := p.value(depth)
		if err != nil {
			return err
		}
		if inner == '|' {
			continue
		}
		n--
		if typ == '>' && !named {
			named = true
			null := inner == '$' && bytes.HasSuffix(p.data[:p.at], []byte("$-1\r\n")) && text == ""
			if inner != '$' && inner != '+' || null || len(text) <= longestName &&
				subscribed.MatchString(text) {
				return errMalformed
			}
		}
	}
	return nil
}

func (p *wholeParser) lineAt() (string, error) {
	rest := p.data[p.at:]
	end := bytes.IndexAny(rest, "\r\n")
	length := end
	if end < 0 {
		length = len(rest)
	}
	switch {
	case length > maxLine || p.at+length-p.start > maxReply:
		return "", errMalformed
	case end < 0 || end+1 == len(rest) && rest[end] == '\r':
		return "", errIncomplete
	case !bytes.HasPrefix(rest[end:], []byte("\r\n")):
		return "", errMalformed
	}
	p.at += end + 2
	return string(rest[:end]), malformedUnless(p.at-p.start <= maxReply)
}

func (p *wholeParser) stringAt(n int64) (string, error) {
	if n > int64(maxReply-(p.at-p.start)) {
		return "", errMalformed
	}
	rest := p.data[p.at:]
	if len(rest) < int(n)+2 {
		return "", errIncomplete
	}
	p.at += int(n) + 2
	if p.at-p.start > maxReply || string(rest[n:n+2]) != "\r\n" {
		return "", errMalformed
	}
	return string(rest[:n]), nil
}

// follow gives a stream to replies in pieces, and returns what was passed on, and the fault.
func follow(stream []byte, asked int, piece func() int) (passed int, err error) {
	var sent atomic.Int64
	sent.Store(int64(asked))
	r := replies{sent: &sent}
	for len(stream) > passed {
		part := stream[passed:]
		part = part[:min(len(part), piece())]
		good, err := r.check(part)
		passed += good
		if err != nil {
			return passed, err
		}
		if good != len(part) {
			return passed, errors.New("kept some back without a fault")
		}
	}
	return passed, nil
}

// judge compares replies with the dumb version.
func judge(t *testing.T, stream []byte, asked int, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	passed, fault := follow(stream, asked, func() int { return len(stream) })
	for i, piece := range []func() int{func() int { return 1 }, func() int {
		return 1 +
			random.IntN(7)
	}, func() int { return 1 + random.IntN(5000) }} {
		p, f := follow(stream, asked, piece)
		require.Equal(t, passed, p, "split %d", i)
		require.Equal(t, fault, f, "split %d", i)
	}
	if len(stream) > 1<<16 {
		return // the dumb version starts anew at each byte
	}
	through := (&wholeParser{data: stream[:passed], asked: asked}).verdict()
	require.NotErrorIs(t, through, errMalformed, "passed on %.200q", stream[:passed])
	all := (&wholeParser{data: stream, asked: asked}).verdict()
	if fault == nil {
		require.NotErrorIs(t, all, errMalformed, "%.200q", stream)
	} else {
		require.Error(t, all, "refused %.200q: %v", stream, fault)
	}
}

const hello = "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:7\r\n" +
	"$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*1\r\n%2\r\n$4\r\nname\r\n$2\r\nbf\r\n$4\r\nargs\r\n*0\r\n"

// ordinary are streams that servers send, each with the number of commands that ask for it.
var ordinary = map[string]int{
	">1\r\n$17\r\nabcdefghsubscribe\r\n>1\r\n+abcdefghsubscribe and more\r\n": 0,
	hello:                             1,
	"+OK\r\n:128\r\n$-1\r\n_\r\n":     4,
	"*3\r\n:1\r\n:2\r\n:1\r\n*-1\r\n": 2,
	"-NOSCRIPT No matching script. Please use EVAL.\r\n!5\r\nERR x\r\n":      2,
	">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nkey\r\n:1\r\n":                   1,
	">2\r\n+invalidate\r\n_\r\n":                                             0,
	">3\r\n$7\r\nunknown\r\n:1\r\n#t\r\n":                                    0,
	"|1\r\n+a\r\n,0.5\r\n:1\r\n*2\r\n:1\r\n|1\r\n+a\r\n#f\r\n:2\r\n":         2,
	"|1\r\n+a\r\n+b\r\n|1\r\n+a\r\n+b\r\n>2\r\n|0\r\n+invalidate\r\n*0\r\n":  0,
	"=15\r\ntxt:Some string\r\n,inf\r\n(3492890328409238509324850\r\n~0\r\n": 4,
	"$0\r\n\r\n$2\r\n\r\n\r\n":                                               2,
	":-9223372036854775808\r\n:9223372036854775807\r\n":                      2,
}

// hostile are streams that no command asked for, or that no server should send, each with a word of
// why. One command is under way.
var hostile = map[string]string{
	"+OK\r\n+OK\r\n":                         "no command asked for",
	">2\r\n+a\r\n+b\r\n:1\r\n-ERR again\r\n": "no command asked for",
	"|1\r\n+a\r\n+b\r\n:1\r\n:2\r\n":         "no command asked for",
	"?":                                      "unknown type",
	"\r\n":                                   "unknown type",
	"HTTP/1.1 400 Bad Request\r\n":           "unknown type",
	".\r\n":                                  "unknown type",
	";4\r\nabcd\r\n":                         "unknown type",
	"*1\r\n.\r\n":                            "unknown type",
	"$-2\r\n":                                "of length -2",
	"=-1\r\n":                                "of length -1",
	"*-2\r\n":                                "of length -2",
	"%-1\r\n":                                "of length -1",
	">-1\r\n":                                "of length -1",
	"|-1\r\n":                                "of length -1",
	"$?\r\n":                                 "in its line",
	"*?\r\n":                                 "in its line",
	"$\r\n":                                  "without a number",
	":-\r\n":                                 "without a number",
	":1e9\r\n":                               "in its line",
	":9223372036854775808\r\n":               "without a number",
	":99999999999999999999\r\n":              "in its line",
	"$1000000000000\r\n":                     "more than 131072 bytes",
	"$9223372036854775807\r\n":               "more than 131072 bytes",
	"*1000000000\r\n":                        "more than 8192 values",
	"%4611686018427387904\r\n":               "more than 8192 values",
	"%9223372036854775807\r\n":               "more than 8192 values",
	"*8192\r\n*1\r\n":                        "more than 8192 values",
	"#x\r\n":                                 "in its line",
	"#tt\r\n":                                "in its line",
	"#\r\n":                                  "empty boolean",
	"_x\r\n":                                 "in its line",
	"+OK\n":                                  "whole end",
	"+OK\rx":                                 "whole end",
	"+O\nK\r\n":                              "whole end",
	":1\n":                                   "whole end",
	"$2\r\nabc\r\n":                          "longer than announced",
	"$2\r\nab\rx":                            "whole end",
	">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n":        "nothing was subscribed to",
	">3\r\n+psubscribe\r\n$1\r\nc\r\n:1\r\n":            "nothing was subscribed to",
	">3\r\n|0\r\n+ssubscribe\r\n$1\r\nc\r\n:1\r\n":      "nothing was subscribed to",
	">3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:1\r\n":    "nothing was subscribed to",
	">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n":     "nothing was subscribed to",
	">3\r\n=9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n":        "whose name is of type",
	">3\r\n,subscribe\r\n$1\r\nc\r\n:1\r\n":             "whose name is of type",
	">2\r\n$-1\r\n:1\r\n":                               "of length -1",
	">0\r\n":                                            "without a name",
	"*2\r\n>2\r\n+invalidate\r\n_\r\n:1\r\n":            "push inside",
	strings.Repeat("*1\r\n", 1e6):                       "more than 16 levels",
	strings.Repeat("|1\r\n", 1e6):                       "more than 16 levels",
	strings.Repeat("|0\r\n", 1e5):                       "more than 131072 bytes",
	"-" + strings.Repeat("x", 1e6):                      "more than 16384 bytes",
	"*9\r\n" + strings.Repeat(filled(maxReply/4), 9):    "more than 131072 bytes",
	"*99\r\n" + strings.Repeat(filled(maxReply/64), 99): "more than 131072 bytes",
}

func filled(n int) string { return fmt.Sprintf("$%d\r\n%s\r\n", n, strings.Repeat("x", n)) }

// The goal: what servers send passes, and what would end the process does not, however it is split.
func TestRepliesPassOnlyWhatIsInOrder(t *testing.T) {
	for stream, asked := range ordinary {
		passed, err := follow([]byte(stream), asked, func() int { return len(stream) })
		require.NoError(t, err, "%q", stream)
		require.Equal(t, len(stream), passed)
		require.NoError(t, (&wholeParser{data: []byte(stream), asked: asked}).verdict(), "%q",
			stream)
		judge(t, []byte(stream), asked, 1)
		if asked > 0 {
			_, err = follow([]byte(stream), asked-1, func() int { return len(stream) })
			require.ErrorContains(t, err, "no command asked for")
		}
	}
	for stream, why := range hostile {
		_, err := follow([]byte(stream), 1, func() int { return len(stream) })
		require.ErrorContains(t, err, "protocol error: ", "%.100q", stream)
		require.ErrorContains(t, err, why, "%.100q", stream)
		judge(t, []byte(stream), 1, 1)
	}
}

// The goal: the largest replies that the scripts, INFO and errors have stay far below the limits.
func TestLimitsLeaveRoom(t *testing.T) {
	list := "*501\r\n:0\r\n" + strings.Repeat(":250\r\n:250\r\n", 250)
	fences := "*501\r\n:0\r\n" + strings.Repeat(":125\r\n:-9007199254740991\r\n", 250)
	for _, stream := range []string{list, fences, filled(12 << 10), "-ERR " + strings.Repeat("x",
		1600) + "\r\n"} {
		_, err := follow([]byte(strings.Repeat(stream, 500)), 500, func() int { return 1 << 17 })
		require.NoError(t, err)
		require.Less(t, len(stream), maxReply/10)
	}
}

func FuzzReplies(f *testing.F) {
	for stream, asked := range ordinary {
		f.Add([]byte(stream), uint8(asked), uint64(1))
	}
	for stream := range hostile {
		f.Add([]byte(stream[:min(len(stream), 1000)]), uint8(1), uint64(2))
	}
	f.Fuzz(func(t *testing.T, stream []byte, asked uint8, seed uint64) {
		judge(t, stream,
			int(asked), seed)
	})
}
