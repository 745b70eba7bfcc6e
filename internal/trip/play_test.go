package trip_test

import (
	"math/rand/v2"
	"slices"
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

// answers returns a stream of replies to what was sent, with pushes and attributes between them.
func answers(sent []int, next func(n int) int) string {
	stream := ""
	for _, n := range sent {
		for range max(n, 1) {
			switch next(8) {
			case 0:
				stream += pushed
			case 1:
				stream += "|1\r\n+a\r\n:1\r\n"
			}
			stream += replies[next(len(replies))]
		}
	}
	return stream + []string{"", pushed}[next(2)]
}

// drawSent draws what is sent: see draw.
func drawSent(next func(n int) int) (sent []int) {
	for range next(12) {
		sent = append(sent, max(0, next(8)-3))
	}
	for range next(3) {
		sent = append(sent, -1)
	}
	return sent
}

// The goal: trips are sent in the order of Enqueue in place of placeholders, all else as the client
// wrote it, and each reply comes to whom it belongs, however both streams are cut.
func TestConn_SendsAndDecodesTrips(t *testing.T) {
	for seed := range uint64(20000) {
		random := rand.New(rand.NewPCG(seed, 1))
		sent := drawSent(random.IntN)
		next := random.IntN
		if seed%4 == 0 { // byte by byte
			next = func(n int) int { return random.IntN(n) * random.IntN(2) }
		}
		stream := answers(sent, random.IntN)
		require.False(t, play(t, sent, stream, random.IntN, next), "seed %d", seed)
	}
}

// The goal: a bad stream ends the connection also in the midst of a trip, and what came before
// counts.
func TestConn_EndsAtAProtocolErrorInATrip(t *testing.T) {
	for stream, why := range resptest.Hostile {
		random := rand.New(rand.NewPCG(1, 1))
		stream = "+OK\r\n:1\r\n" + stream
		sent := []int{0, 2}
		if strings.HasPrefix(why, "no command") {
			stream = stream[len(":1\r\n"):] // each has a reply more than one command asks for
		}
		whole := func(n int) int { return n - 1 }
		require.True(t, play(t, sent, stream, whole, whole), "%.100q", stream)
		if len(stream) < 1<<10 {
			require.True(t, play(t, sent, stream, random.IntN, random.IntN), "%.100q", stream)
		}
	}
}

// The goal: two cuts anywhere change nothing.
func TestConn_TakesAStreamThatIsCutAnywhere(t *testing.T) {
	sent := []int{0, 3, 1, 0, 0, 2, -1, -1}
	stream := ":5\r\n+OK\r\n" + pushed + "*2\r\n:12\r\n:3\r\n-ERR x\r\n_\r\n+PONG\r\n" + pushed +
		"$3\r\nabc\r\n|1\r\n+a\r\n:1\r\n$-1\r\n!3\r\nERR\r\n+PONG\r\n:1\r\n"
	for first := range len(stream) {
		for second := range 12 {
			written, read := []int{first, second}, []int{first, second}
			cut := func(n int) int {
				cuts := &written
				if n == len(stream)+1 {
					cuts = &read
				}
				if n == 40 || len(*cuts) == 0 { // 40: what the client reads at once
					return n - 1
				}
				k := min((*cuts)[0], n-1)
				*cuts = (*cuts)[1:]
				return k
			}
			zero := func(int) int { return 0 }
			require.False(t, play(t, slices.Clone(sent), stream, zero, cut))
		}
	}
}

// FuzzConn compares a Conn with the dumb version. script draws what is sent and where both streams
// are cut.
func FuzzConn(f *testing.F) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 2))
		script := make([]byte, 200)
		for i := range script {
			script[i] = byte(random.Uint32())
		}
		f.Add(answers(drawSent(bytesOf(script)), random.IntN), script)
		for stream := range resptest.Hostile {
			f.Add("+OK\r\n:1\r\n"+stream[:min(len(stream), 1000)], script)
		}
	}
	f.Fuzz(func(t *testing.T, stream string, script []byte) {
		if len(stream) > 1<<12 {
			return // the dumb version is slow
		}
		next := bytesOf(script)
		play(t, drawSent(next), stream, next, next)
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
