package resp_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/stretchr/testify/require"
)

// The goal: each command is counted once, with its last byte, however the writes are split.
func TestScanner_CountsACommandWithItsLastByte(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	var stream []byte
	var ends []int
	for i := range 200 {
		args := []string{"SET"}
		for range random.IntN(5) {
			args = append(args, strings.Repeat("*1\r\n", random.IntN(30)*random.IntN(2)))
		}
		if i == 99 {
			args = append(args, strings.Repeat("x", 300000))
		}
		stream = resp.AppendCommand(stream, args...)
		ends = append(ends, len(stream))
	}
	for _, most := range []int{1, 3, 100, 1 << 17, 1 << 30} {
		c := resp.NewCommandScanner()
		counted, want, begin := 0, 0, 0
		for at := 0; at < len(stream); {
			at = min(at+1+random.IntN(most), len(stream))
			for n := -1; n != 0; begin += n {
				var err error
				n, err = c.Next(stream[begin:at])
				require.NoError(t, err)
				if n > 0 {
					counted++
				}
			}
			for want < len(ends) && ends[want] <= at {
				want++
			}
			require.Equal(t, want, counted, "at byte %d", at)
		}
		require.Equal(t, len(ends), counted)
	}
}
