package figures

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Goal: thousands have commas between them, and nothing else has.
func TestThousands(t *testing.T) {
	for n, want := range map[int]string{
		0: "0", 7: "7", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1: "-1",
		-100: "-100", -1000: "-1,000", 100_000: "100,000",
	} {
		require.Equal(t, want, Thousands(n))
	}
	require.Equal(t, "18,446,744,073,709,551,615", Thousands(uint64(math.MaxUint64)))
}

// Goal: a single thing is named without an s.
func TestPlural(t *testing.T) {
	require.Equal(t, "1 node", Plural(1, "node"))
	require.Equal(t, "0 nodes", Plural(0, "node"))
	require.Equal(t, "2,000 nodes", Plural(2000, "node"))
}

// Goal: what is not known is 0.
func TestKnown(t *testing.T) {
	v := 1.5
	require.InDelta(t, 1.5, Known(&v), 0)
	require.Zero(t, Known(nil))
}

// Goal: three digits count, at any size.
func TestSignificant(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", 0.5: "0.5", 12.345: "12.3", 1234.5: "1230", 99.96: "100", 999.6: "1000",
		0.00012345: "0.000123", -12.34: "-12.3", 1e-9: "0.000000001", 123456789: "123000000",
		math.Inf(1): "0",
	} {
		require.Equal(t, want, Significant(v))
	}
	require.Equal(t, "0", Significant(math.NaN()))
	require.Equal(t, "1,230", SignificantThousands(1234.5))
	require.Equal(t, "12.3", SignificantThousands(12.345))
	require.Equal(t, "123,000,000", SignificantThousands(123456789))
}
