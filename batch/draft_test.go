package batch

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// appendTo appends operations of weight 1 to a draft, for all readers.
func (f *fixture) appendTo(d *Draft[op, int], ids ...int) (places []place) {
	f.Helper()
	for _, id := range ids {
		p, err := d.Append(&op{id: id, weight: 1, followUp: true}, All)
		require.NoError(f, err)
		places = append(places, p)
	}
	synctest.Wait()
	return places
}

func (f *fixture) submit(d *Draft[op, int]) {
	d.Submit()
	synctest.Wait()
}

// The goal: a draft is a round as it is: nothing else joins it, although there is room. It is
// behind what was appended before Submit, and nothing of it is sealed before.
func TestDraft_IsARoundOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, nil)
		d := f.log.Draft()
		f.appendTo(d, 10, 11)
		f.append(All, 1)
		require.Equal(t, [][]int{{1}}, f.sealed)
		f.append(All, 2)
		f.appendTo(d, 12)
		f.submit(d)
		f.append(All, 3, 4)
		f.appendTo(d, 20) // the draft can be used again
		f.append(All, 5)
		f.submit(d)
		f.endAll()
		require.Equal(t, [][]int{{1}, {2}, {10, 11, 12}, {3, 4, 5}, {20}}, f.sealed)
		f.requireEmpty()
	})
}

// The goal: a draft that is heavier than MaxWeight is several rounds, in order.
func TestDraft_SeveralRoundsIfItIsHeavy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, nil)
		d := f.log.Draft()
		for id := range 25 {
			f.appendTo(d, id)
		}
		f.submit(d)
		f.endAll()
		require.Len(t, f.sealed, 3)
		require.Equal(t, []int{10, 10, 5}, []int{
			len(f.sealed[0]), len(f.sealed[1]), len(f.sealed[2]),
		})
		require.Equal(t, 24, f.sealed[2][4])
		f.requireEmpty()
	})
}

// The goal: an operation of a draft can be cancelled from the start, also all of them. A round of
// which nothing is left is ended at Submit and not before, because more may join it until then.
func TestDraft_CancelBeforeAndAfterSubmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, nil)
		f.append(All, 1) // its trip keeps the next rounds open
		d := f.log.Draft()
		places := f.appendTo(d, 10)
		require.True(t, f.log.Cancel(places[0]))
		require.Zero(t, f.emptied)
		places = f.appendTo(d, 11, 12)
		f.submit(d)
		require.True(t, f.log.Cancel(places[0]))
		f.end(0)
		require.Equal(t, [][]int{{1}, {12}}, f.sealed)
		require.False(t, f.log.Cancel(places[1]))

		places = f.appendTo(d, 20, 21)
		require.True(t, f.log.Cancel(places[0]))
		require.True(t, f.log.Cancel(places[1]))
		require.Zero(t, f.emptied)
		f.submit(d)
		require.Equal(t, 1, f.emptied)
		f.submit(d)
		require.Equal(t, 1, f.emptied)
		f.endAll()
		require.Equal(t, [][]int{{1}, {12}}, f.sealed)
		f.requireEmpty()
	})
}

// The goal: Close waits until a draft is submitted and read.
func TestDraft_CloseWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, nil)
		d := f.log.Draft()
		f.appendTo(d, 1)
		closed := make(chan error, 1)
		go func() { closed <- f.log.Close(t.Context()) }()
		synctest.Wait()
		f.submit(d)
		synctest.Wait()
		require.Empty(t, closed)
		f.endAll()
		require.NoError(t, <-closed)
		f.requireEmpty()
	})
}
