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
		return resp.Reply{Kind: '_'}
	case wholeList.MatchString(raw):
		return resp.Reply{Kind: '*', Ints: ints}
	case raw[0] == ':':
		return resp.Reply{Kind: ':', Int: ints[0]}
	case raw[0] == '+':
		return resp.Reply{Kind: '+', Text: []byte(line[1:])}
	case raw[0] == '-':
		return resp.Reply{Kind: '-', Text: []byte(line[1:])}
	case raw[0] == '!':
		return resp.Reply{Kind: '-', Text: []byte(rest[:len(rest)-2])}
	case raw[0] == '$':
		return resp.Reply{Kind: '$', Text: []byte(rest[:len(rest)-2])}
	}
	return resp.Reply{Kind: raw[0]}
}

// outcome is what the dumb version expects of a stream of replies.
type outcome struct {
	passed  string     // what the client reads
	rest    string     // behind that, of which the client may read a part
	replies [][]string // of each trip, as far as they came
	err     error      // malformed, incomplete or nil
	pushes  int
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
	trips, left, attributed, begin := 0, 0, false, 0
	for p.at < len(p.data) {
		if !attributed {
			begin, p.start, p.items = p.at, p.at, 0
		}
		value := p.at
		typ := p.data[p.at]
		toTrip := typ != '>' && (left > 0 || len(sent) > 0 && sent[0] > 0)
		_, _, err := p.value()
		if err == nil && typ != '>' && typ != '|' && left == 0 && len(sent) == 0 {
			err = errMalformed
		}
		if err != nil {
			if o.err = err; !toTrip {
				o.rest = stream[begin:]
			}
			return o
		}
		if attributed = typ == '|'; attributed {
			continue // it belongs to the value behind it
		}
		if !toTrip {
			if typ == '>' {
				o.pushes++
			} else {
				o.passed += stream[begin:p.at]
				sent = sent[1:]
			}
			continue
		}
		if left == 0 {
			left, sent = sent[0], sent[1:]
		}
		o.replies[trips] = append(o.replies[trips], text(decoded(stream[value:p.at])))
		if left--; left == 0 {
			trips++
		}
	}
	return o
}

// planned is a trip of a plan, with its bytes.
type planned struct {
	trip.Trip
	recorder
	body string
}

func newPlanned(number, commands int) *planned {
	t := &planned{}
	t.Receiver, t.Commands = &t.recorder, commands
	for i := range commands {
		t.body += string(resp.AppendCommand(nil, "TRIP", fmt.Sprint(number, ".", i)))
	}
	t.Bytes = []byte(t.body)
	return t
}

// step is one thing that is done to a Conn: a Write, an Enqueue, or a Flush if it is neither.
type step struct {
	write string
	trip  *planned
	sent  int // how many of plan.sent are sent then
}

// plan is what is done to a Conn, and what is sent then by the dumb version.
type plan struct {
	steps []step
	trips []*planned
	wire  string
	sent  []int // as in expect, in the order of the wire

	plain  string       // all that the client writes
	ends   map[int]bool // where in it no command is unfinished
	at     int          // how much of it was written
	whole  int          // how much of it was sent
	queued []*planned
}

// draw makes a plan.
func draw(next func(n int) int) *plan {
	p := &plan{ends: map[int]bool{0: true}}
	for i := range next(8) {
		p.addPlain([][]string{{"PING"}, {"GET", fmt.Sprint("k", i)}, {"", "*1\r\n$8"}}[next(3)]...)
	}
	for trips := next(8); p.at < len(p.plain) || trips > 0; {
		switch n := next(6); {
		case n < 2 && trips > 0:
			p.enqueue(1 + next(4))
			trips--
		case n == 2 || p.at == len(p.plain):
			p.flush()
		default:
			p.write(1 + next(len(p.plain)-p.at))
		}
		if p.at == len(p.plain) && next(2) == 0 {
			p.flush()
		}
	}
	return p
}

func (p *plan) addPlain(words ...string) {
	p.plain += string(resp.AppendCommand(nil, words...))
	p.ends[len(p.plain)] = true
}

func (p *plan) enqueue(commands int) {
	t := newPlanned(len(p.trips), commands)
	p.trips, p.queued = append(p.trips, t), append(p.queued, t)
	p.steps = append(p.steps, step{trip: t, sent: len(p.sent)})
}

func (p *plan) flush() {
	p.sendQueued()
	p.steps = append(p.steps, step{sent: len(p.sent)})
}

// write writes n bytes more. The commands that end there are sent, behind the trips.
func (p *plan) write(n int) {
	begin := p.at
	for range n {
		if p.at++; !p.ends[p.at] {
			continue
		}
		p.sendQueued()
		p.wire += p.plain[p.whole:p.at]
		p.sent, p.whole = append(p.sent, 0), p.at
	}
	p.steps = append(p.steps, step{write: p.plain[begin:p.at], sent: len(p.sent)})
}

func (p *plan) sendQueued() {
	for _, t := range p.queued {
		p.wire += t.body
		p.sent = append(p.sent, t.Commands)
	}
	p.queued = nil
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

// do does one step.
func do(t *testing.T, c *trip.Conn, s step) {
	t.Helper()
	switch {
	case s.trip != nil:
		require.NoError(t, c.Enqueue(&s.trip.Trip))
	case s.write == "":
		c.Flush()
	default:
		piece := []byte(s.write)
		n, err := c.Write(piece)
		require.NoError(t, err)
		require.Equal(t, len(s.write), n)
		clear(piece) // the client uses it again
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

// play does the steps of a plan, while the server answers what has come. cut draws where its stream
// is cut. play compares all with the dumb version, and returns whether the stream was against the
// protocol. The replies are those to each entry of plan.sent, and one more. If early is false, they
// come after the last step.
func play(t *testing.T, p *plan, replies []string, early bool, cut func(n int) int) bool {
	t.Helper()
	stream := strings.Join(replies, "")
	below := &scripted{}
	below.next = func() int { return 1 + cut(len(stream)+1) }
	pushes := 0
	c := trip.NewConn(below, func(resp.Value) { pushes++ })
	answered, got := 0, ""
	for _, s := range p.steps {
		do(t, c, s)
		if early {
			below.stream = append(below.stream, strings.Join(replies[answered:s.sent], "")...)
			answered = s.sent
			some := make([]byte, 1+cut(40))
			n, err := c.Read(some)
			require.NoError(t, err)
			got += string(some[:n])
		}
	}
	require.Equal(t, p.wire, below.wire.String())
	below.stream = append(below.stream, strings.Join(replies[answered:], "")...)

	want := expect(stream, p.sent)
	rest, err := readAll(c, below, func() int { return 1 + cut(40) })
	got += rest
	if err == nil {
		require.NotErrorIs(t, want.err, errMalformed)
		require.Equal(t, want.pushes, pushes)
	} else {
		require.Error(t, want.err, "%v", err)
		require.LessOrEqual(t, want.pushes, pushes)
	}
	require.Equal(t, err, c.Cause())
	require.True(t, strings.HasPrefix(got, want.passed), "%q is not from %q", got, want.passed)
	require.True(t, strings.HasPrefix(want.passed+want.rest, got))

	require.NoError(t, c.Close())
	require.True(t, below.closed)
	for i, r := range p.trips {
		if i >= len(want.replies) {
			require.Empty(t, r.replies)
			require.Equal(t, []trip.End{trip.Unsent}, r.ends)
			continue
		}
		require.Equal(t, want.replies[i], r.replies)
		end := trip.Broken
		if len(r.replies) == r.Commands {
			end = trip.Answered
		}
		require.Equal(t, []trip.End{end}, r.ends)
	}
	return err != nil
}
