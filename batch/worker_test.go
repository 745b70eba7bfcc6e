package batch

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// The goal: a log has no goroutine before the first operation. Then it has the sealer and one for
// each reader, with many trips at once too. After Close it has none, even if a follow-up comes.
func TestGoroutine_AreFewAndNoneAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := goroutines()
		f := newFixture(t, 3, func(c *Config[op, int]) { c.Window = 4 })
		require.Equal(t, before, goroutines())
		id := 0
		for range 3 { // several trips of each reader
			for range 1 << id {
				f.append(All, id)
			}
			id++
			for i := range 3 {
				f.sent(i)
			}
		}
		require.Len(t, f.underWay[0], 3)
		require.Equal(t, before+4, goroutines())
		f.endAll()
		require.Equal(t, before+4, goroutines())
		f.append(All, id+1)
		require.Equal(t, before+4, goroutines(), "none is new")
		f.endAll()

		require.NoError(t, f.log.Close(t.Context()))
		synctest.Wait()
		require.Equal(t, before, goroutines())
		_, err := f.log.Append(&op{id: id + 2, weight: 1, followUp: true}, All)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, before+3, goroutines())
		f.endAll()
		require.Equal(t, before, goroutines())
		f.requireEmpty()
	})
}
