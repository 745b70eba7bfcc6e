package endpoint

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The goal: the checksum is the one by which every Redis Cluster places keys. The values are those
// of the cluster specification and of the pages of CLUSTER KEYSLOT.
func TestTag_TheChecksumIsThatOfTheSpecification(t *testing.T) {
	require.EqualValues(t, 0x31c3, crc16("123456789"))
	for key, slot := range map[string]int{
		"somekey": 11058, "hash_tag": 2515, "user1000": 3443, "foo": 12182, "bar": 5061, "": 0,
	} {
		require.Equal(t, slot, int(crc16(key))%slots, key)
	}
}

// The goal: all clients of all versions have the same keys. A change here lets two of them hold one
// lock.
func TestTag_TheTagsAreFixedForEver(t *testing.T) {
	for n, want := range map[int][]string{
		1: {
			"8192 {14bw}",
		},
		3: {
			"2730 {1o5k}", "8192 {14bw}", "13653 {16zx}",
		},
		5: {
			"1638 {10uu}", "4915 {12mz}", "8192 {14bw}", "11468 {1coy}", "14745 {1awv}",
		},
		7: {
			"1170 {15mj}", "3510 {16cp}", "5851 {1fnn}", "8192 {14bw}", "10532 {17lm}",
			"12873 {1gas}", "15213 {11e9}",
		},
	} {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprint(slotOf(i, n), " ", tagOf(slotOf(i, n))))
		}
		require.Equal(t, want, all)
	}
}

// The goal: each number of nodes has tags of one length, which differ.
func TestTag_EveryNodeHasOne(t *testing.T) {
	for n := 1; n <= MaxCluster; n += 2 {
		seen := map[string]bool{}
		for i := range n {
			tag := tagOf(slotOf(i, n))
			require.Len(t, tag, len("{0000}"))
			require.False(t, seen[tag])
			seen[tag] = true
		}
	}
}
