package script_test

import (
	"encoding/binary"
	"testing"

	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// FuzzDecode: whatever a node replies, what is accepted adds up: each set is granted or refused
// once, in order, and every key that is named is one of its set's.
func FuzzDecode(f *testing.F) {
	list := func(numbers ...int64) (b []byte) {
		for _, n := range numbers {
			b = binary.BigEndian.AppendUint64(b, uint64(n))
		}
		return b
	}
	for _, reply := range [][]byte{
		nil, list(3), list(2, 1, 1), list(0, 1, 0, 2, 1, 3, 1), list(2, 3, 3), list(2, 0, 1),
		list(2, 4, 1), list(1, 2, 1, 2, 1), list(1, 2, 1, 1, 1),
		list(4, -1, 1), list(2, 1, -1), list(2, 1, 9), list(-1<<63, 1, 1), list(1<<63-1, 1, 1, 2,
			1), list(2, 1<<62, 1), list(1, 2),
	} {
		f.Add(reply, []byte{1, 2, 3})
	}
	f.Fuzz(func(t *testing.T, data, sizes []byte) {
		c := script.Call{}
		for i, n := range sizes {
			c.Owners, c.Sizes, c.Offset = append(c.Owners, i), append(c.Sizes, 1+int(n)),
				append(c.Offset, 0)
		}
		var reply []int64
		for ; len(data) >= 8; data = data[8:] {
			reply = append(reply, int64(binary.BigEndian.Uint64(data)))
		}
		refusals, err := script.Decode(reply, &c)
		if err != nil {
			return
		}
		require.Equal(t, int64(len(sizes)), reply[0]+int64(len(refusals)),
			"granted and refused are all")
		last := -1
		for _, r := range refusals {
			require.Greater(t, r.Set, last)
			require.Less(t, r.Set, len(sizes))
			require.GreaterOrEqual(t, r.Key, script.Refilled)
			require.Less(t, r.Key, c.Sizes[r.Set])
			last = r.Set
		}
	})
}
