package lease

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The goal: whatever is added, moved and taken out, the heap gives out the earliest event first,
// each term knows where its event is, and a term that is out has no index.
func TestEventHeap_IsLikeASortedList(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	h := eventHeap{indexed: true}
	var held []*Term
	for range 20_000 {
		i := 0
		if len(held) > 0 {
			i = random.IntN(len(held))
		}
		switch action := random.IntN(5); {
		case len(held) == 0 || action < 2:
			held = append(held, &Term{until: Instant(random.IntN(1000))})
			last := held[len(held)-1]
			h.push(last, last.until)
		case action == 2:
			held[i].until = Instant(random.IntN(1000))
			at := int(held[i].heapIndex - 1)
			h.events[at].at = held[i].until
			h.fix(at)
		case action == 3:
			require.Same(t, held[i], h.remove(int(held[i].heapIndex-1)))
			require.Zero(t, held[i].heapIndex)
			held = slices.Delete(held, i, i+1)
		default:
			first := h.pop()
			held = slices.DeleteFunc(held, func(other *Term) bool {
				require.LessOrEqual(t, first.until, other.until)
				return other == first
			})
		}
		require.Equal(t, len(held), h.Len())
		for _, term := range held {
			require.Same(t, term, h.events[term.heapIndex-1].term)
		}
	}
}
