package script_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// slowNode decides about fences one key after another. A key of another type than a string has the
// value otherType.
type slowNode map[string]string

const otherType = "(list)"

// highest returns the highest number of the fence keys that is not below first; 0: all are below.
// odd is the index, from 1, of the last fence key without a number; 0: there is none.
func (n slowNode) highest(s script.Set, first int64) (seen int64, odd int) {
	for i, key := range s.Fence.FenceKeys {
		value, there := n[key]
		if !there || value == otherType {
			continue // MGET reads nothing there
		}
		number, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil || math.IsNaN(number):
			odd = i + 1
		case number >= float64(first):
			seen = max(seen, min(int64(number), script.MaxFence))
		}
	}
	return seen, odd
}

// acquire returns why a set is refused, and grants it if it is not.
func (n slowNode) acquire(s script.Set) (why script.Refusal, refused bool) {
	for i, key := range s.Keys {
		if _, held := n[key]; held {
			return script.Refusal{Key: i}, true
		}
	}
	first, _ := strconv.ParseInt(s.Fence.First, 10, 64)
	switch seen, odd := n.highest(s, first); {
	case odd > 0:
		return script.Refusal{Key: odd - 1}, true
	case seen > 0:
		return script.Refusal{HighestFence: seen}, true
	}
	for i, key := range s.Keys {
		n[key], n[s.Fence.FenceKeys[i]] = s.Token, s.Fence.Last
	}
	return script.Refusal{}, false
}

// disturb writes a key as another client, or a person, might. Or it releases a key.
func (n slowNode) disturb(t *testing.T, server *lockpipetest.Nodes, rng *rand.Rand) {
	t.Helper()
	key := fmt.Sprint("k", rng.IntN(8))
	if rng.IntN(3) == 0 {
		key = "f:" + key
	}
	do(t, server, "DEL", key)
	delete(n, key)
	switch rng.IntN(8) {
	case 0:
		do(t, server, "ZADD", key, "1", "x")
		n[key] = otherType
	case 1:
		n[key] = []string{"nan", "a token", "9007199254740993", "7", ""}[rng.IntN(5)]
		do(t, server, "SET", key, n[key])
	}
}

// The goal: for any calls the script grants, refuses and writes what a slow version does, one set
// after another: sets that share keys, of all sizes and forms, with keys and fence keys that are
// held, odd, or of another type.
func TestFencedSetsAreDecidedAsOneByOne(t *testing.T) {
	onBoth(t, func(t *testing.T, server *lockpipetest.Nodes) {
		rng := rand.New(rand.NewPCG(1, 2))
		slow := slowNode{}
		outcomes := map[string]int{}
		for round := range 400 {
			for range rng.IntN(20) {
				slow.disturb(t, server, rng)
			}
			var sets []script.Set
			for i := range 1 + rng.IntN(6) {
				var keys []string
				for _, k := range rng.Perm(8)[:1+rng.IntN(3)*rng.IntN(2)] {
					keys = append(keys, fmt.Sprint("k", k))
				}
				first := int64(1000000000000000 + round + rng.IntN(8))
				s := fenced(fmt.Sprint("t", i), first, first+rng.Int64N(3)*rng.Int64N(2), keys...)
				s.TTL = strconv.Itoa(100000 * (1 + rng.IntN(6)/5))
				sets = append(sets, s)
			}
			want := map[int]script.Refusal{}
			for _, c := range plan(script.AcquireFenced, sets...) {
				for _, owner := range c.Owners {
					why, refused := slow.acquire(sets[owner])
					if refused {
						want[owner] = why
					}
					outcome := "granted"
					if refused {
						outcome = "held"
					}
					if why.HighestFence > 0 {
						outcome = "low"
					}
					outcomes[fmt.Sprint(outcome, " ", c.Args[0] != "")]++
				}
			}
			require.Equal(t, want, runFenced(t, server, sets...), "round %d: %v", round, sets)
			for k := range 8 {
				for _, key := range []string{fmt.Sprint("k", k), fmt.Sprint("f:k", k)} {
					value, there := slow[key]
					got := do(t, server, "MGET", key).([]any)[0]
					if !there || value == otherType {
						require.Nil(t, got, key)
						continue
					}
					require.Equal(t, value, got, key)
				}
			}
		}
		for _, outcome := range []string{"granted", "held", "low"} {
			for _, compact := range []string{"true", "false"} {
				require.Greater(t, outcomes[outcome+" "+compact], 20, outcome)
			}
		}
	})
}
