package trip_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/lockpipe/lockpipe/internal/trip"
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

// longestName is as many bytes of the name of a push as the check looks at.
const longestName = 16

// wholeParser is the deliberately dumb version of the check: it has the whole stream, and calls
// itself for nested values.
type wholeParser struct {
	data  []byte
	at    int
	asked int
	start int // of the unfinished message
	items int
}

// verdict returns nil if the stream is a number of whole messages.
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
		if _, _, err := p.value(); err != nil || typ != '|' {
			return err
		}
	}
}

// value reads one value, and returns its type and the text of a line or string.
func (p *wholeParser) value() (typ byte, text string, err error) {
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
	return typ, "", p.list(typ, n)
}

func malformedUnless(ok bool) error {
	if ok {
		return nil
	}
	return errMalformed
}

func (p *wholeParser) list(typ byte, n int64) error {
	if n > int64(resp.ReplyLimits.Items) || typ == '>' && n == 0 {
		return errMalformed
	}
	if typ == '%' || typ == '|' {
		n *= 2
	}
	if p.items += int(n); p.items > resp.ReplyLimits.Items {
		return errMalformed
	}
	named := false
	for n > 0 {
		if p.at < len(p.data) && p.data[p.at] == '>' {
			return errMalformed
		}
		inner, text, err := p.value()
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
	case length > resp.ReplyLimits.Line || p.at+length-p.start > resp.ReplyLimits.Bytes:
		return "", errMalformed
	case end < 0 || end+1 == len(rest) && rest[end] == '\r':
		return "", errIncomplete
	case !bytes.HasPrefix(rest[end:], []byte("\r\n")):
		return "", errMalformed
	}
	p.at += end + 2
	return string(rest[:end]), malformedUnless(p.at-p.start <= resp.ReplyLimits.Bytes)
}

func (p *wholeParser) stringAt(n int64) (string, error) {
	if n > int64(resp.ReplyLimits.Bytes-(p.at-p.start)) {
		return "", errMalformed
	}
	rest := p.data[p.at:]
	if len(rest) < int(n)+2 {
		return "", errIncomplete
	}
	p.at += int(n) + 2
	if p.at-p.start > resp.ReplyLimits.Bytes || string(rest[n:n+2]) != "\r\n" {
		return "", errMalformed
	}
	return string(rest[:n]), nil
}

// pieces is a connection that takes everything and delivers a stream in pieces.
type pieces struct {
	net.Conn
	stream []byte
	next   func() int // the length of the next piece
}

func (c *pieces) Write(p []byte) (int, error) { return len(p), nil }

func (c *pieces) Read(p []byte) (int, error) {
	n := copy(p, c.stream[:min(len(c.stream), c.next())])
	c.stream = c.stream[n:]
	return n, nil
}

// follow reads a stream in pieces from a checked connection, after that many commands. It returns
// what was passed on, and the protocol error.
func follow(stream []byte, asked int, piece func() int) (passed []byte, err error) {
	below := &pieces{stream: stream, next: piece}
	c := trip.NewConn(below, func(resp.Value) {})
	for range asked {
		if _, err := c.Write(resp.AppendCommand(nil, "PING")); err != nil {
			return nil, err
		}
	}
	p := make([]byte, len(stream)+1)
	for {
		n, err := c.Read(p)
		passed = append(passed, p[:n]...)
		if err != nil || n == 0 && len(below.stream) == 0 {
			return passed, err
		}
	}
}

// judge compares the check with the dumb version.
func judge(t *testing.T, stream []byte, asked int, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	passed, protocolErr := follow(stream, asked, func() int { return len(stream) })
	for i, piece := range []func() int{
		func() int { return 1 },
		func() int { return 1 + random.IntN(7) },
		func() int { return 1 + random.IntN(5000) },
	} {
		n, err := follow(stream, asked, piece)
		require.Equal(t, passed, n, "split %d", i)
		require.Equal(t, protocolErr, err, "split %d", i)
	}
	if len(stream) > 1<<16 {
		return // the dumb version is slow
	}
	through := (&wholeParser{data: passed, asked: asked}).verdict()
	require.NoError(t, through, "passed on %.200q", passed)
	all := (&wholeParser{data: stream, asked: asked}).verdict()
	if protocolErr == nil {
		require.NotErrorIs(t, all, errMalformed, "%.200q", stream)
	} else {
		require.Error(t, all, "refused %.200q: %v", stream, protocolErr)
	}
}

// The goal: replies that servers send pass, and bytes that would end the process do not, however
// the stream is split.
func TestConn_PassesOnlyRepliesInOrder(t *testing.T) {
	for stream, asked := range resptest.Ordinary {
		passed, err := follow([]byte(stream), asked, func() int { return len(stream) })
		require.NoError(t, err, "%q", stream)
		through := &wholeParser{data: passed, asked: asked}
		require.NoError(t, through.verdict(), "%q", stream)
		require.Zero(t, through.asked, "%q", stream)
		require.NoError(t, (&wholeParser{data: []byte(stream), asked: asked}).verdict(), "%q",
			stream)
		judge(t, []byte(stream), asked, 1)
		if asked > 0 {
			_, err = follow([]byte(stream), asked-1, func() int { return len(stream) })
			require.ErrorContains(t, err, "no command asked for")
		}
	}
	for stream, why := range resptest.Hostile {
		_, err := follow([]byte(stream), 1, func() int { return len(stream) })
		require.ErrorContains(t, err, "protocol error: ", "%.100q", stream)
		require.ErrorContains(t, err, why, "%.100q", stream)
		judge(t, []byte(stream), 1, 1)
	}
}

// The goal: the largest replies that the scripts, INFO and errors have stay far below the limits.
func TestConn_HasRoomForTheLargestReplies(t *testing.T) {
	list := "*501\r\n:0\r\n" + strings.Repeat(":250\r\n:250\r\n", 250)
	fences := "*501\r\n:0\r\n" + strings.Repeat(":125\r\n:-9007199254740991\r\n", 250)
	info, failure := resptest.Bulk(strings.Repeat("x", 12<<10)), "-ERR "+strings.Repeat("x", 1600)
	for _, stream := range []string{list, fences, info, failure + "\r\n"} {
		_, err := follow([]byte(strings.Repeat(stream, 500)), 500, func() int { return 1 << 17 })
		require.NoError(t, err)
		require.Less(t, len(stream), resp.ReplyLimits.Bytes/10)
	}
}

func FuzzFraming(f *testing.F) {
	for stream, asked := range resptest.Ordinary {
		f.Add([]byte(stream), uint8(asked), uint64(1))
	}
	for stream := range resptest.Hostile {
		f.Add([]byte(stream[:min(len(stream), 1000)]), uint8(1), uint64(2))
	}
	f.Fuzz(func(t *testing.T, stream []byte, asked uint8, seed uint64) {
		judge(t, stream, int(asked), seed)
	})
}
