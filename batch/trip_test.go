package batch

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// The goal: a log has no goroutine before the first operation. When nothing waits it has at most
// one for each reader, also after many trips at once, and works with these. After Close it has
// none, also if a follow-up comes then.
func TestGoroutine_FewAreParkedAndNoneAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := goroutines()
		f := newFixture(t, 3, func(c *Config[op, int]) { c.Window = 4 })
		require.Equal(t, before, goroutines())
		id := 0
		for range 3 { // several trips of each reader
			id++
			f.append(All, id)
			for i := range 3 {
				f.sent(i)
			}
		}
		require.Greater(t, goroutines(), before+3)
		f.endAll()
		require.Equal(t, before+3, goroutines())
		f.append(All, id+1)
		require.Equal(t, before+3, goroutines(), "none is new")
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
