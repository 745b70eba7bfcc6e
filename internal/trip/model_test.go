package trip_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/trip"
	"github.com/stretchr/testify/require"
)

// recorder has what became of a trip, as text.
type recorder struct {
	replies []string
	ends    []trip.End
}

func (r *recorder) OnReply(i int, reply resp.Reply) {
	if i != len(r.replies) || len(r.ends) > 0 {
		panic("a reply out of order, or behind the end")
	}
	r.replies = append(r.replies, text(reply))
}

func (r *recorder) OnEnd(end trip.End) { r.ends = append(r.ends, end) }

// text returns a reply in a form that can be compared.
func text(r resp.Reply) string {
	return fmt.Sprint(r.Kind, r.Int, r.Ints, strconv.Quote(string(r.Text)))
}

var (
	wholeList    = regexp.MustCompile(`^\*-?[0-9]+\r\n(:-?[0-9]+\r\n)*$`)
	wholeInteger = regexp.MustCompile(`:(-?[0-9]+)\r\n`)
	wholeNull    = regexp.MustCompile(`^([$*]-0*1|_)\r\n$`)
)

// decoded is the dumb decoder: it has the whole reply.
func decoded(raw string) resp.Reply {
	var ints []int64
	for _, m := range wholeInteger.FindAllStringSubmatch(raw, -1) {
		n, _ := strconv.ParseInt(m[1], 10, 64)
		ints = append(ints, n)
	}
	line, rest, _ := strings.Cut(raw, "\r\n")
	switch {
	case wholeNull.MatchString(raw):
		return resp.Reply{Kind: resp.KindNull}
	case wholeList.MatchString(raw):
		return resp.Reply{Kind: resp.KindIntegers, Ints: ints}
	case raw[0] == ':':
		return resp.Reply{Kind: resp.KindInteger, Int: ints[0]}
	case raw[0] == '+':
		return resp.Reply{Kind: resp.KindStatus, Text: []byte(line[1:])}
	case raw[0] == '-':
		return resp.Reply{Kind: resp.KindError, Text: []byte(line[1:])}
	case raw[0] == '!':
		return resp.Reply{Kind: resp.KindError, Text: []byte(rest[:len(rest)-2])}
	}
	return resp.Reply{}
}

// outcome is what the dumb version expects of a stream of replies.
type outcome struct {
	passed  string     // what the client reads
	rest    string     // behind that, of which the client may read a part
	replies [][]string // of each trip, as far as they came
	err     error      // malformed, incomplete or nil
}

// expect is the dumb version of Read. sent has the commands as they were sent: a 0 for a plain one,
// and n for a trip of n commands.
func expect(stream string, sent []int) (o outcome) {
	p := &wholeParser{data: []byte(stream)}
	for _, n := range sent {
		if n > 0 {
			o.replies = append(o.replies, nil)
		}
	}
	trips, left, attributed := 0, 0, false
	for p.at < len(p.data) {
		begin := p.at
		if !attributed {
			p.start, p.items = p.at, 0
		}
		typ := p.data[p.at]
		toTrip := typ != '>' && (left > 0 || len(sent) > 0 && sent[0] > 0)
		_, _, err := p.value(0)
		if err == nil && typ != '>' && typ != '|' && left == 0 && len(sent) == 0 {
			err = errMalformed
		}
		if err != nil {
			if o.err = err; !toTrip {
				o.rest = stream[begin:]
			}
			return o
		}
		attributed = typ == '|'
		if !toTrip {
			if o.passed += stream[begin:p.at]; typ != '>' && typ != '|' {
				sent = sent[1:]
			}
			continue
		}
		if attributed {
			continue
		}
		if left == 0 {
			left, sent = sent[0], sent[1:]
		}
		o.replies[trips] = append(o.replies[trips], text(decoded(stream[begin:p.at])))
		if left--; left == 0 {
			trips++
			o.passed += "+OK\r\n"
		}
	}
	return o
}

// plan is what is sent: by the client, and to the server.
type plan struct {
	written, wire string
	trips         []*trip.Trip
	received      []*recorder
	begin         []int // where each trip begins on the wire
}

// draw makes a plan: sent as in expect, and a -1 for a placeholder without a trip, which must be
// behind all trips.
func draw(sent []int, next func(n int) int) (p plan) {
	for i, n := range sent {
		plain := string(resp.AppendCommand(nil, [][]string{
			{"PING"},
			{"GET", fmt.Sprint("k", i)},
			{"LOCKPIPE", "x"},
			{"LOCKPIPF"},
			{"", "*1\r\n$8"},
		}[next(5)]...))
		switch {
		case n < 0:
			p.written += string(placeholderBytes)
			p.wire += string(pingBytes)
		case n == 0:
			p.written += plain
			p.wire += plain
		default:
			r := new(recorder)
			t := &trip.Trip{Commands: n, Receiver: r}
			body := ""
			for j := range n {
				body += string(resp.AppendCommand(nil, "TRIP", fmt.Sprint(i, ".", j)))
			}
			for rest := body; rest != ""; {
				k := 1 + next(len(rest))
				t.Parts, rest = append(t.Parts, []byte(rest[:k]), nil), rest[k:]
			}
			p.begin = append(p.begin, len(p.wire))
			p.written += string(placeholderBytes)
			p.wire += body
			p.trips, p.received = append(p.trips, t), append(p.received, r)
		}
	}
	return p
}

// scripted is a connection for one goroutine: it records what is written, and reads a stream in
// pieces.
type scripted struct {
	pieces
	wire   strings.Builder
	closed bool
}

func (c *scripted) Write(p []byte) (int, error) { return c.wire.Write(p) }

func (c *scripted) Close() error {
	c.closed = true
	return nil
}

// writeAll writes text in pieces.
func writeAll(t *testing.T, c *trip.Conn, written string, next func(n int) int) {
	t.Helper()
	for rest := []byte(written); len(rest) > 0; {
		k := 1 + next(len(rest))
		piece := append([]byte(nil), rest[:k]...)
		n, err := c.Write(piece)
		require.NoError(t, err)
		require.Equal(t, k, n)
		clear(piece) // the client uses it again
		rest = rest[k:]
	}
}

// readAll reads a stream as it comes, until it ends or is against the protocol.
func readAll(c *trip.Conn, below *scripted, size func() int) (got string, err error) {
	for {
		p := make([]byte, size())
		n, err := c.Read(p)
		got += string(p[:n])
		if err != nil {
			return got, err
		}
		if n == 0 && len(below.stream) == 0 {
			return got, nil
		}
	}
}

// play sends a plan and has the server send a stream. next draws what is sent, and cut where both
// streams are cut. It compares all with the dumb version, and returns whether the stream was
// against the protocol.
func play(t *testing.T, sent []int, stream string, next, cut func(n int) int) bool {
	t.Helper()
	below := &scripted{pieces: pieces{stream: []byte(stream)}}
	below.next = func() int { return 1 + cut(len(stream)+1) }
	var protocolErrs []error
	c := trip.NewConn(below, func(err error) { protocolErrs = append(protocolErrs, err) })
	p := draw(sent, next)
	for _, trip := range p.trips {
		require.NoError(t, c.Enqueue(trip))
	}
	writeAll(t, c, p.written, cut)
	require.Equal(t, p.wire, below.wire.String())

	for i, n := range sent {
		sent[i] = max(n, 0) // a PING is plain
	}
	want := expect(stream, sent)
	got, err := readAll(c, below, func() int { return 1 + cut(40) })
	if err == nil {
		require.NotErrorIs(t, want.err, errMalformed)
		require.Empty(t, protocolErrs)
	} else {
		require.Error(t, want.err, "%v", err)
		require.Equal(t, []error{err}, protocolErrs)
	}
	require.True(t, strings.HasPrefix(got, want.passed), "%q is not from %q", got, want.passed)
	require.True(t, strings.HasPrefix(want.passed+want.rest, got))

	require.NoError(t, c.Close())
	require.True(t, below.closed)
	for i, r := range p.received {
		require.Equal(t, want.replies[i], r.replies)
		end := trip.Broken
		if len(r.replies) == p.trips[i].Commands {
			end = trip.Answered
		}
		require.Equal(t, []trip.End{end}, r.ends)
	}
	return err != nil
}
