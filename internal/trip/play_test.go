package trip_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe/internal/resp/resptest"
	"github.com/stretchr/testify/require"
)

// replies are whole replies of every form.
var replies = []string{
	"+OK\r\n", "+OK\r\n", ":1\r\n", ":-9223372036854775808\r\n", "_\r\n", "$-1\r\n", "*-1\r\n",
	"*0\r\n", "*3\r\n:1\r\n:-2\r\n:9223372036854775807\r\n", "*2\r\n:1\r\n_\r\n",
	"*2\r\n:1\r\n*1\r\n:2\r\n", "*3\r\n:1\r\n*0\r\n:2\r\n", "*2\r\n:1\r\n|1\r\n+a\r\n:7\r\n:2\r\n",
	"-ERR no\r\n", "!5\r\nERR \n\r\n", "$2\r\nOK\r\n", "$0\r\n\r\n", "+\r\n", "+OKAY\r\n",
	"%1\r\n+a\r\n:1\r\n", ",1.5\r\n", "#t\r\n", "~1\r\n:1\r\n", "=6\r\ntxt:OK\r\n", "(12\r\n",
	"*1\r\n:1000000000000000000\r\n", "*1\r\n$2\r\n:1\r\n", ":007\r\n", ":-0\r\n",
}

const pushed = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\nkey\r\n"

// answers returns the replies to what was sent, with pushes and attributes between them, and what
// comes behind.
func answers(sent []int, next func(n int) int) (all []string) {
	for _, n := range sent {
		reply := ""
		for range max(n, 1) {
			switch next(8) {
			case 0:
				reply += pushed
			case 1:
				reply += "|1\r\n+a\r\n:1\r\n"
			}
			reply += replies[next(len(replies))]
		}
		all = append(all, reply)
	}
	return append(all, []string{"", pushed}[next(2)])
}

// The goal: trips are sent in the order of Enqueue between two commands of the client, all else as
// it wrote it, and each reply comes to whom it belongs. That holds however both streams are cut,
// whenever trips are enqueued and flushed, and whenever the replies come.
func TestConn_SendsAndDecodesTrips(t *testing.T) {
	from := rand.Uint64()
	for seed := from; seed != from+1200; seed++ {
		random := rand.New(rand.NewPCG(seed, 1))
		p := draw(random.IntN)
		next := random.IntN
		if seed%4 == 0 { // byte by byte
			next = func(n int) int { return random.IntN(n) * random.IntN(2) }
		}
		bad := play(t, p, answers(p.sent, random.IntN), seed%3 > 0, next)
		require.False(t, bad, "seed %d", seed)
	}
}

// one returns a plan of a plain command and a trip of two.
func one() *plan {
	p := &plan{ends: map[int]bool{0: true}}
	p.addPlain("PING")
	p.write(len(p.plain))
	p.enqueue(2)
	p.flush()
	return p
}

// The goal: a bad stream ends the connection also in the midst of a trip, and what came before
// counts.
func TestConn_EndsAtAProtocolErrorInATrip(t *testing.T) {
	for stream, why := range resptest.Hostile {
		random := rand.New(rand.NewPCG(1, 1))
		stream = "+OK\r\n:1\r\n" + stream
		if strings.HasPrefix(why, "no command") {
			stream = stream[len(":1\r\n"):] // each has a reply more than one command asks for
		}
		whole := func(n int) int { return n - 1 }
		require.True(t, play(t, one(), []string{stream}, false, whole), "%.100q", stream)
		if len(stream) < 1<<10 {
			bad := play(t, one(), []string{stream}, false, random.IntN)
			require.True(t, bad, "%.100q", stream)
		}
	}
}

// The goal: a Flush between any two bytes of what the client writes, and a cut anywhere in the
// replies, change nothing.
func TestConn_TakesTripsAndCutsAnywhere(t *testing.T) {
	const stream = ":5\r\n+OK\r\n" + pushed + "*2\r\n:12\r\n:3\r\n-ERR x\r\n_\r\n+PONG\r\n" +
		pushed + "$3\r\nabc\r\n|1\r\n+a\r\n:1\r\n$-1\r\n!3\r\nERR\r\n"
	for flushed := 0; ; flushed++ {
		p := &plan{ends: map[int]bool{0: true}}
		p.addPlain("PING")
		p.addPlain("GET", "k")
		p.addPlain("PING")
		if flushed > len(p.plain) {
			return
		}
		p.enqueue(3)
		if flushed > 0 {
			p.write(flushed)
		}
		p.enqueue(2)
		p.flush()
		p.enqueue(1)
		if flushed < len(p.plain) {
			p.write(len(p.plain) - flushed)
		}
		p.flush()
		require.Len(t, p.sent, 6)
		for cutAt := range len(stream) {
			cuts := []int{cutAt}
			cut := func(n int) int {
				if n == 40 || len(cuts) == 0 { // 40: what the client reads at once
					return n - 1
				}
				k := min(cuts[0], n-1)
				cuts = cuts[1:]
				return k
			}
			require.False(t, play(t, p.again(), []string{stream}, false, cut))
		}
	}
}

// again returns the same plan with trips that are not under way.
func (p *plan) again() *plan {
	other := *p
	other.steps, other.trips = nil, nil
	for _, s := range p.steps {
		if s.trip != nil {
			t := &planned{body: s.trip.body}
			t.Receiver, t.Commands, t.Bytes = &t.recorder, s.trip.Commands, s.trip.Bytes
			s.trip, other.trips = t, append(other.trips, t)
		}
		other.steps = append(other.steps, s)
	}
	return &other
}

// FuzzConn compares a Conn with the dumb version. script draws what is done and where both streams
// are cut.
func FuzzConn(f *testing.F) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 2))
		script := make([]byte, 200)
		for i := range script {
			script[i] = byte(random.Uint32())
		}
		sent := draw(bytesOf(script)).sent
		f.Add(strings.Join(answers(sent, random.IntN), ""), script)
		for stream := range resptest.Hostile {
			f.Add("+OK\r\n:1\r\n"+stream[:min(len(stream), 1000)], script)
		}
	}
	f.Fuzz(func(t *testing.T, stream string, script []byte) {
		if len(stream) > 1<<12 {
			return // the dumb version is slow
		}
		next := bytesOf(script)
		play(t, draw(next), []string{stream}, false, next)
	})
}

// bytesOf returns a function that draws numbers below n from the bytes, and zeros behind them.
func bytesOf(script []byte) func(n int) int {
	return func(n int) int {
		if len(script) == 0 {
			return 0
		}
		b := int(script[0])
		script = script[1:]
		return b % n
	}
}
