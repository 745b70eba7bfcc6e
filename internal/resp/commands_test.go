package resp_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/stretchr/testify/require"
)

// The goal: each command is counted once, with its last byte, however the writes are split.
func TestCommandScanner_CountsACommandWithItsLastByte(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var stream []byte
	var ends []int
	for i := range 200 {
		args := []string{"SET"}
		for range random.IntN(5) {
			args = append(args, strings.Repeat("*1\r\n", random.IntN(30)*random.IntN(2)))
		}
		if i%50 == 49 {
			args = append(args, strings.Repeat("x", 300000))
		}
		stream = resp.AppendCommand(stream, args...)
		ends = append(ends, len(stream))
	}
	for _, most := range []int{1, 3, 100, 1 << 17, 1 << 30} {
		var c resp.CommandScanner
		counted, want := 0, 0
		for at := 0; at < len(stream); {
			piece := stream[at:min(at+1+random.IntN(most), len(stream))]
			ok := true
			for len(piece) > 0 && ok {
				n, complete, valid := c.Next(piece)
				at, piece, ok = at+n, piece[n:], valid
				if complete {
					counted++
				}
			}
			for want < len(ends) && ends[want] <= at {
				want++
			}
			if !ok || counted != want {
				t.Fatalf("counted %d at byte %d, not %d", counted, at, want)
			}
		}
		require.Equal(t, len(ends), counted)
	}
}
