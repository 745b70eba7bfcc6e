package combine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/combine"
	"github.com/lockpipe/lockpipe/lockpipetest/fake"
	"github.com/stretchr/testify/require"
)

// work is an item of the stress test.
type work struct {
	id   int
	keys []string
}

// The goal: whatever becomes of callers, runs, leases and the Client, no two runs have a key at the
// same time while their leases last, no item runs twice, none of a caller that left has run, each
// caller gets its own result, and nothing is left.
func TestDo_Stress(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	for n := range uint64(3) {
		t.Run(strconv.FormatUint(seed+n, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { stress(t, seed+n) })
		})
	}
}

func stress(t *testing.T, seed uint64) {
	locks := fake.NewClient(t)
	var mu sync.Mutex // guards the next three
	users, ran := make(map[string]*lockpipe.Lease), make(map[int]bool)
	var random atomic.Uint64
	random.Store(seed)
	one := func(n int) int {
		return rand.New(rand.NewPCG(random.Add(1), 7)).IntN(n)
	}
	run := func(ctx context.Context, l *lockpipe.Lease, items []work) ([]int, error) {
		results := make([]int, len(items))
		mu.Lock()
		for i, w := range items {
			results[i] = w.id
			require.False(t, ran[w.id], "item %d ran twice", w.id)
			ran[w.id] = true
			for _, k := range w.keys {
				other := users[k]
				require.True(t, other == nil || other == l || other.Err() != nil, "%s is in use", k)
				users[k] = l
				require.Contains(t, l.Keys(), k)
			}
		}
		mu.Unlock()
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			for k, has := range users {
				if has == l {
					delete(users, k)
				}
			}
		}()
		select {
		case <-time.After(time.Duration(one(2000)) * time.Millisecond):
		case <-ctx.Done():
		}
		switch one(20) {
		case 0:
			panic("boom")
		case 1:
			return nil, errors.New("failed")
		case 2:
			return results[1:], nil
		}
		return results, nil
	}
	c := combine.New(locks.Client, run, combine.MaxItems(1+one(8)),
		combine.LockOptions(lockpipe.WithTTL(time.Second+time.Second*time.Duration(one(2)))))
	var callers sync.WaitGroup
	for id := range 400 {
		callers.Go(func() {
			time.Sleep(time.Duration(one(60_000)) * time.Millisecond)
			patience := time.Duration(1+one(20_000)) * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			w := work{id: id}
			for range 1 + one(3) {
				w.keys = append(w.keys, fmt.Sprint("k", one(8)))
			}
			var result int
			var err error
			defer func() {
				value := recover()
				mu.Lock()
				defer mu.Unlock()
				switch {
				case value != nil:
					require.Equal(t, "boom", value)
					require.True(t, ran[id])
				case err == nil, errors.Is(err, lockpipe.ErrExpired) && result == id:
					require.Equal(t, id, result)
					require.True(t, ran[id])
				case errors.Is(err, context.DeadlineExceeded):
					require.False(t, ran[id], "item %d ran after its caller left", id)
				}
			}()
			result, err = c.Do(ctx, w.keys, w)
		})
	}
	for range 20 { // another process
		time.Sleep(time.Duration(one(3000)) * time.Millisecond)
		k := fmt.Sprint("k", one(8))
		mu.Lock()
		l := users[k]
		mu.Unlock()
		if l != nil {
			continue // the fake would take the key from its holder
		}
		if l, err := locks.TryAcquire(t.Context(), k); err == nil {
			time.Sleep(time.Duration(one(2000)) * time.Millisecond)
			require.NoError(t, l.Release(t.Context()))
		}
	}
	if one(2) == 0 {
		require.NoError(t, locks.Close(t.Context()))
	}
	callers.Wait()
	synctest.Wait()
	require.Zero(t, c.Stats().Pending)
	require.Zero(t, locks.Stats().Held)
}
