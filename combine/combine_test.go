package combine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/combine"
	"github.com/lockpipe/lockpipe/lockpipetest/fake"
	"github.com/stretchr/testify/require"
)

// shop is a Combiner whose run can be held up, and records its batches.
type shop struct {
	*combine.Combiner[string, string]
	locks   *fake.Client
	mu      sync.Mutex
	batches []string
	then    func(ctx context.Context, items []string) ([]string, error)
}

func newShop(t *testing.T, opts ...combine.Option) *shop {
	s := &shop{locks: fake.NewClient(t)}
	s.Combiner = combine.New(s.locks.Client, s.run, opts...)
	return s
}

func (s *shop) run(ctx context.Context, l *lockpipe.Lease, items []string) ([]string, error) {
	if l.Err() != nil {
		return nil, l.Err()
	}
	s.mu.Lock()
	s.batches = append(s.batches, strings.Join(items, " "))
	s.mu.Unlock()
	if s.then != nil {
		return s.then(ctx, items)
	}
	return upper(items), nil
}

func upper(items []string) []string {
	results := make([]string, len(items))
	for i, item := range items {
		results[i] = strings.ToUpper(item)
	}
	return results
}

// slowly works for a time that no context shortens.
func slowly(d time.Duration) func(context.Context, []string) ([]string, error) {
	return func(_ context.Context, items []string) ([]string, error) {
		time.Sleep(d)
		return upper(items), nil
	}
}

// reply is what a call of Do has come to.
type reply struct {
	result string
	err    error
	value  any // of a panic
}

// do calls Do in the background, behind all calls before it.
func (s *shop) do(ctx context.Context, item string, keys ...string) <-chan reply {
	to := make(chan reply, 1)
	go func() {
		var r reply
		defer func() {
			r.value = recover()
			to <- r
		}()
		r.result, r.err = s.Do(ctx, keys, item)
	}()
	synctest.Wait()
	return to
}

func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

// The goal: what comes while a batch is under way runs together in the order of arrival, MaxItems
// at most, and each caller gets its own result. Other keys do not wait.
func TestDo_WhatComesMeanwhileRunsTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShop(t, combine.MaxItems(3))
		s.then = slowly(time.Second)
		replies := make(map[string]<-chan reply)
		for _, item := range []string{"a", "b", "c", "d", "e"} {
			replies[item] = s.do(t.Context(), item, "hot", "with:"+item)
		}
		replies["cold"] = s.do(t.Context(), "cold", "other")
		require.Equal(t, 6, s.Stats().Pending)
		for item, to := range replies {
			r := <-to
			require.NoError(t, r.err)
			require.Equal(t, strings.ToUpper(item), r.result)
		}
		require.Equal(t, []string{"a", "cold", "b c d", "e"}, s.batches)
		stats := s.Stats()
		require.Equal(t, uint64(4), stats.Batches)
		require.Equal(t, uint64(6), stats.Items)
		require.InDelta(t, 5*time.Second, stats.Waited, float64(time.Second/10))
		require.Zero(t, stats.Pending)
		require.Zero(t, s.locks.Stats().Held)
	})
}

// The goal: a caller that leaves before run has begun is not in the batch. After that it waits for
// its result.
func TestDo_ACallerLeavesOnlyBeforeRunHasBegun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShop(t)
		s.then = slowly(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		first, gone := s.do(ctx, "first", "k"), s.do(ctx, "gone", "k")
		last := s.do(t.Context(), "last", "k")
		r := <-gone
		require.ErrorIs(t, r.err, context.DeadlineExceeded)
		require.ErrorIs(t, r.err, lockpipe.ErrHeld)
		require.Equal(t, reply{result: "FIRST"}, <-first)
		require.Equal(t, reply{result: "LAST"}, <-last)
		require.Equal(t, []string{"first", "last"}, s.batches)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		r = <-s.do(over, "late", "k")
		require.ErrorIs(t, r.err, context.Canceled)
	})
}

// The goal: the wait for the lease ends with the last caller.
func TestDo_WaitsForTheLeaseAsLongAsACallerWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShop(t)
		s.locks.Hold("k")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		gone := s.do(ctx, "gone", "k")
		require.ErrorIs(t, (<-gone).err, context.DeadlineExceeded)
		synctest.Wait()
		require.Zero(t, s.locks.Stats().PendingCalls)
		next := s.do(t.Context(), "next", "k")
		s.locks.Free("k")
		require.Equal(t, reply{result: "NEXT"}, <-next)
		require.Equal(t, []string{"next"}, s.batches)
	})
}

// The goal: if another process has one key of a batch, only the calls that want it wait, and new
// calls that share another key with these do not wait.
func TestDo_OnlyCallsThatWantAHeldKeyWaitForIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShop(t)
		s.then = slowly(time.Second)
		first := s.do(t.Context(), "first", "hot", "cold")
		s.locks.Hold("elsewhere")
		waits := s.do(t.Context(), "waits", "hot", "elsewhere", "other")
		free := s.do(t.Context(), "free", "hot")
		require.Equal(t, "FIRST", (<-first).result)
		require.Equal(t, "FREE", (<-free).result)
		require.Equal(t, "NEW", (<-s.do(t.Context(), "new", "other")).result)
		require.Empty(t, waits)
		s.locks.Free("elsewhere")
		require.Equal(t, reply{result: "WAITS"}, <-waits)
		require.Equal(t, []string{"first", "free", "new", "waits"}, s.batches)
	})
}

// The goal: an error of run, and a wrong number of results, are those of all callers.
func TestDo_AnErrorOfRunIsForAllOfTheBatch(t *testing.T) {
	failed := errors.New("failed")
	for name, then := range map[string]func(context.Context, []string) ([]string, error){
		"error":   func(context.Context, []string) ([]string, error) { return nil, failed },
		"too few": func(context.Context, []string) ([]string, error) { return nil, nil },
		"too many": func(context.Context, []string) ([]string, error) {
			return make([]string, 9), nil
		},
		"Goexit": func(context.Context, []string) ([]string, error) {
			runtime.Goexit()
			return nil, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newShop(t)
				s.then = slowly(time.Second)
				first := s.do(t.Context(), "first", "k")
				s.then = then
				a, b := s.do(t.Context(), "a", "k"), s.do(t.Context(), "b", "k")
				require.NoError(t, (<-first).err)
				for _, r := range []reply{<-a, <-b} {
					require.Error(t, r.err)
					require.Empty(t, r.result)
					if name == "error" {
						require.Equal(t, failed, r.err)
					}
				}
				s.then = nil
				require.NoError(t, (<-s.do(t.Context(), "next", "k")).err)
			})
		})
	}
}

// The goal: a panic of run is one of each caller, and the keys are free then.
func TestDo_PanicsInEachCaller(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShop(t)
		s.then = slowly(time.Second)
		first := s.do(t.Context(), "first", "k")
		s.then = func(context.Context, []string) ([]string, error) { panic("boom") }
		a, b := s.do(t.Context(), "a", "k"), s.do(t.Context(), "b", "k")
		require.NoError(t, (<-first).err)
		require.Equal(t, "boom", (<-a).value)
		require.Equal(t, "boom", (<-b).value)
		s.then = nil
		require.NoError(t, (<-s.do(t.Context(), "next", "k")).err)
		require.Zero(t, s.locks.Stats().Held)
	})
}

// The goal: if the lease ends while run works, the context of run ends, and Do returns the result
// and how the lease ended.
func TestDo_TellsThatTheLeaseEnded(t *testing.T) {
	for want, end := range map[error]func(s *shop){
		lockpipe.ErrLost:    func(s *shop) { s.locks.Hold("k") },
		lockpipe.ErrExpired: func(*shop) { time.Sleep(time.Minute) },
	} {
		t.Run(want.Error(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newShop(t)
				s.then = func(ctx context.Context, items []string) ([]string, error) {
					end(s)
					<-ctx.Done()
					return upper(items), nil
				}
				opts := combine.LockOptions(lockpipe.WithTTL(time.Second))
				if want == lockpipe.ErrLost {
					opts = combine.LockOptions(lockpipe.WithAutoExtend(time.Hour))
				}
				s.Combiner = combine.New(s.locks.Client, s.run, opts)
				r := <-s.do(t.Context(), "a", "k")
				require.ErrorIs(t, r.err, want)
				require.Equal(t, "A", r.result)
			})
		})
	}
}

// The goal: Close ends the context of run, and the calls that wait.
func TestDo_ReturnsErrClosedAtClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShop(t)
		s.then = func(ctx context.Context, items []string) ([]string, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			return upper(items), context.Cause(ctx)
		}
		runs := s.do(t.Context(), "runs", "k", "j")
		waits := s.do(t.Context(), "waits", "k")
		also := s.do(t.Context(), "also", "j")
		begun := time.Now()
		closed := make(chan error, 1)
		go func() { closed <- s.locks.Close(t.Context()) }()
		require.ErrorIs(t, (<-waits).err, lockpipe.ErrClosed)
		require.ErrorIs(t, (<-also).err, lockpipe.ErrClosed)
		require.Zero(t, time.Since(begun))
		require.ErrorIs(t, (<-runs).err, lockpipe.ErrClosed)
		require.NoError(t, <-closed)
		require.ErrorIs(t, (<-s.do(t.Context(), "late", "k")).err, lockpipe.ErrClosed)
		require.Equal(t, []string{"runs"}, s.batches)
	})
}

// The goal: with bounded attempts all of the batch get ErrHeld or ErrNoQuorum, and nothing ran.
func TestDo_ErrorsOfTheLeaseAreForAllOfTheBatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShop(t, combine.LockOptions(lockpipe.WithMaxAttempts(2)))
		s.then = slowly(time.Second)
		first := s.do(t.Context(), "first", "k")
		a, b := s.do(t.Context(), "a", "k"), s.do(t.Context(), "b", "k", "j")
		s.locks.StopVotes()
		require.NoError(t, (<-first).err)
		require.ErrorIs(t, (<-a).err, lockpipe.ErrNoQuorum)
		require.ErrorIs(t, (<-b).err, lockpipe.ErrNoQuorum)
		require.Equal(t, []string{"first"}, s.batches)
	})
}

// The goal: what makes no sense is ErrInvalid, and nothing is sent. It does not fail other calls.
func TestDo_RefusesWhatMakesNoSense(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShop(t)
		many := make([]string, 1<<16+1)
		for i := range many {
			many[i] = fmt.Sprint("key", i)
		}
		sent := s.locks.Stats().Operations
		for _, keys := range [][]string{nil, {""}, many, {"lockpipe:reserved"}} {
			_, err := s.Do(t.Context(), keys, "a")
			require.ErrorIs(t, err, lockpipe.ErrInvalid)
		}
		_, err := s.Do(nil, []string{"k"}, "a") //nolint:staticcheck // on purpose
		require.ErrorIs(t, err, lockpipe.ErrInvalid)
		for _, c := range []*combine.Combiner[string, string]{
			combine.New[string, string](s.locks.Client, nil), combine.New(nil, s.run),
			combine.New(s.locks.Client, s.run, combine.MaxItems(0)),
			combine.New(s.locks.Client, s.run, combine.LockOptions(lockpipe.WithTTL(0))),
		} {
			_, err := c.Do(t.Context(), []string{"k"}, "a")
			require.ErrorIs(t, err, lockpipe.ErrInvalid)
		}
		require.Equal(t, sent, s.locks.Stats().Operations)
		s.then = slowly(time.Second)
		first := s.do(t.Context(), "first", "k")
		bad := s.do(t.Context(), "bad", "k", "lockpipe:reserved")
		good := s.do(t.Context(), "good", "k", "k")
		require.NoError(t, (<-first).err)
		require.ErrorIs(t, (<-bad).err, lockpipe.ErrInvalid)
		require.Equal(t, reply{result: "GOOD"}, <-good)
	})
}
