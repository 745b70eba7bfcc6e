package lockpipe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/outage"
	"github.com/stretchr/testify/require"
)

// atOnce is how many calls an outage wakes at once.
const atOnce = outage.MaxAwake

// cable connects one client with all nodes of a group, or with none of them.
type cable struct {
	v *fakeNodes

	mu   sync.Mutex // guards all below
	cut  bool
	open []net.Conn
}

func (k *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cut {
		return nil, errors.New("the cable is cut")
	}
	conn, err := k.v.dial(ctx, network, addr)
	k.open = append(k.open, conn)
	return conn, err
}

// pull cuts all connections.
func (k *cable) pull() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cut = true
	for _, conn := range k.open {
		_ = conn.Close()
	}
	k.open = nil
}

// unplug cuts all connections. When it returns, the client knows that the nodes are down.
func (k *cable) unplug(t *testing.T, c *lockpipe.Client) {
	t.Helper()
	k.pull()
	time.Sleep(time.Second)
	for _, n := range c.Nodes() {
		require.Equal(t, lockpipe.NodeDown, n.State)
	}
}

func (k *cable) plug() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cut = false
}

// reconnected plugs the cable in. When it returns, the client is connected to all nodes again.
func (k *cable) reconnected(t *testing.T, c *lockpipe.Client) {
	t.Helper()
	k.plug()
	for range 100 { // the nodes are dialled at least twice a second
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if allUp(c) {
			return
		}
	}
	require.Fail(t, "the nodes do not come back")
}

// inOutage runs a test in a bubble with n nodes, all of them down, and a client.
func inOutage(t *testing.T, n int, test func(t *testing.T, k *cable, c *lockpipe.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := &cable{v: newFakeNodes(t, n)}
		c := k.v.client(t, func(cfg *lockpipe.Config) { cfg.Dial = k.dial })
		k.unplug(t, c)
		test(t, k, c)
	})
}

// waiters starts n calls one after another, each for a key of its own. It gives their outcomes.
func waiters(t *testing.T, n int, acquire acquireFunc) <-chan outcome {
	t.Helper()
	ended := make(chan outcome, n)
	for i := range n {
		go func() {
			l, err := acquire(t.Context(), []string{"k" + strconv.Itoa(i)})
			ended <- outcome{l, err, time.Now()}
		}()
		time.Sleep(time.Microsecond)
	}
	return ended
}

type acquireFunc = func(context.Context, []string, ...lockpipe.Option) (*lockpipe.Lease, error)

// bothKinds runs a test with calls that wait in a goroutine, and with those that do not.
func bothKinds(t *testing.T, test func(t *testing.T, of func(c *lockpipe.Client) acquireFunc)) {
	t.Helper()
	t.Run("AcquireAll", func(t *testing.T) {
		test(t, func(c *lockpipe.Client) acquireFunc { return c.AcquireAll })
	})
	t.Run("AcquireAsync", func(t *testing.T) {
		test(t, waitForAsync)
	})
}

// allGranted wants all n calls to succeed, and releases what they got. It returns when the last one
// succeeded.
func allGranted(t *testing.T, n int, ended <-chan outcome) (last time.Time) {
	t.Helper()
	for range n {
		o := receive(t, ended, "a call still waits")
		require.NoError(t, o.err)
		release(t, o.lease)
		last = o.at
	}
	return last
}

// The goal: while all nodes are down, each waiting call makes one attempt and no more. When
// the nodes are back, all calls are granted, in about the order of arrival.
func TestOutage_WaitingCallsMakeNoAttempts(t *testing.T) {
	skipIfShort(t, "more calls in an outage than may try at once")
	t.Parallel()
	const calls = 2*atOnce + 1
	bothKinds(t, func(t *testing.T, of func(c *lockpipe.Client) acquireFunc) {
		inOutage(t, 1, func(t *testing.T, k *cable, c *lockpipe.Client) {
			var mu sync.Mutex
			var order []int // the numbers of the calls, as the node sees them
			k.v.watch(func(_ int, command string, args []string) {
				if command != "SET" || !strings.HasPrefix(args[0], prefix+"k") {
					return
				}
				n, err := strconv.Atoi(strings.TrimPrefix(args[0], prefix+"k"))
				mu.Lock()
				defer mu.Unlock()
				if order = append(order, n); err != nil {
					t.Error(err)
				}
			})
			before := c.Stats().Attempts
			ended := waiters(t, calls, of(c))
			time.Sleep(10 * time.Second)
			require.Equal(t, before+calls, c.Stats().Attempts)
			require.Empty(t, ended)
			k.reconnected(t, c)
			back := time.Now()
			last := allGranted(t, calls, ended)
			require.Less(t, last.Sub(back), outage.MaxAwakeTime, "a round ended before")
			require.Equal(t, before+2*calls, c.Stats().Attempts)
			require.Len(t, order, calls)
			for place, n := range order {
				require.Less(t, n, place+atOnce, "this call was woken too early")
			}
			k.v.nothingLeft(t)
		})
	})
}

// The goal: when the nodes are back, so many calls try at once and no more. Calls that hang keep
// the next ones from that for a short time only.
func TestOutage_SoManyCallsAreWokenAtOnce(t *testing.T) {
	skipIfShort(t, "more calls in an outage than may try at once")
	t.Parallel()
	const calls = 2*atOnce + 1
	bothKinds(t, func(t *testing.T, of func(c *lockpipe.Client) acquireFunc) {
		inOutage(t, 1, func(t *testing.T, k *cable, c *lockpipe.Client) {
			ended := waiters(t, calls, of(c))
			time.Sleep(time.Second)
			k.v.silence(0)
			before := c.Stats().Attempts
			k.reconnected(t, c)
			require.Equal(t, before+atOnce, c.Stats().Attempts)
			time.Sleep(outage.MaxAwakeTime)
			synctest.Wait()
			require.Equal(t, before+2*atOnce, c.Stats().Attempts)
			k.v.speak(0)
			allGranted(t, calls, ended)
			require.Equal(t, before+calls, c.Stats().Attempts)
			k.v.nothingLeft(t)
		})
	})
}

// The goal: a call that finds its key held after an outage makes room for the next one at once.
func TestOutage_ACallThatIsRefusedMakesRoom(t *testing.T) {
	t.Parallel()
	bothKinds(t, func(t *testing.T, of func(c *lockpipe.Client) acquireFunc) {
		inOutage(t, 1, func(t *testing.T, k *cable, c *lockpipe.Client) {
			for i := range atOnce {
				k.v.set(0, "k"+strconv.Itoa(i), "another's")
			}
			ended := waiters(t, atOnce+1, of(c))
			time.Sleep(time.Second)
			k.reconnected(t, c)
			synctest.Wait()
			require.Len(t, ended, 1, "its key is free")
			release(t, (<-ended).lease)
			for i := range atOnce {
				k.v.del(0, "k"+strconv.Itoa(i))
			}
			allGranted(t, atOnce, ended)
			k.v.nothingLeft(t)
		})
	})
}

// The goal: when the nodes go away again, only the calls that were awake notice. The others stay
// where they are, and all are granted in the end.
func TestOutage_TheRestStaysParkedInASecondOutage(t *testing.T) {
	t.Parallel()
	const calls = atOnce + 50
	bothKinds(t, func(t *testing.T, of func(c *lockpipe.Client) acquireFunc) {
		inOutage(t, 1, func(t *testing.T, k *cable, c *lockpipe.Client) {
			ended := waiters(t, calls, of(c))
			time.Sleep(time.Second)
			before := c.Stats().Attempts
			k.v.silence(0)
			k.reconnected(t, c)
			k.unplug(t, c)
			time.Sleep(time.Minute)
			require.Equal(t, before+atOnce, c.Stats().Attempts)
			require.Empty(t, ended)
			k.v.speak(0)
			k.reconnected(t, c)
			allGranted(t, calls, ended)
			time.Sleep(time.Minute)
			k.v.nothingLeft(t)
		})
	})
}

// The goal: the end of ctx and Close end a parked call at once, with the reason and their error.
func TestOutage_ParkedCallsEndAtOnce(t *testing.T) {
	t.Parallel()
	bothKinds(t, func(t *testing.T, of func(c *lockpipe.Client) acquireFunc) {
		inOutage(t, 3, func(t *testing.T, k *cable, c *lockpipe.Client) {
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			short := later(func() outcome {
				l, err := of(c)(ctx, []string{"k"})
				return outcome{l, err, time.Now()}
			})
			synctest.Wait()
			behind, other := queueWith(t, of(c), "k"), queueWith(t, of(c), "other")
			o := <-short
			require.Equal(t, time.Minute, o.at.Sub(start))
			require.ErrorIs(t, o.err, context.DeadlineExceeded)
			require.ErrorIs(t, o.err, lockpipe.ErrNoQuorum)
			require.ErrorContains(t, o.err, `waited 1m0s for "k"`)
			time.Sleep(time.Minute) // the call behind it has tried once, and is parked
			start = time.Now()
			require.NoError(t, c.Close(t.Context()))
			for _, ended := range []<-chan outcome{behind, other} {
				o := <-ended
				require.Equal(t, start, o.at)
				require.ErrorIs(t, o.err, lockpipe.ErrClosed)
				require.ErrorIs(t, o.err, lockpipe.ErrNoQuorum)
			}
		})
	})
}

// queueWith starts a call that waits for a key, and returns when it waits.
func queueWith(t *testing.T, acquire acquireFunc, key string) <-chan outcome {
	t.Helper()
	ended := later(func() outcome {
		l, err := acquire(t.Context(), []string{key})
		return outcome{l, err, time.Now()}
	})
	synctest.Wait()
	return ended
}

// The goal: of the calls that wait for one key, the first one alone tries, in an outage too.
func TestOutage_OnlyTheFirstOfAQueueTries(t *testing.T) {
	t.Parallel()
	const calls = 100
	bothKinds(t, func(t *testing.T, of func(c *lockpipe.Client) acquireFunc) {
		inOutage(t, 3, func(t *testing.T, k *cable, c *lockpipe.Client) {
			before := c.Stats().Attempts
			var all []<-chan outcome
			for range calls {
				all = append(all, queueWith(t, of(c), "k"))
			}
			time.Sleep(time.Minute)
			require.Equal(t, before+1, c.Stats().Attempts)
			k.reconnected(t, c)
			for _, next := range all {
				release(t, granted(t, next))
			}
			k.v.nothingLeft(t)
		})
	})
}

// The goal: a call that was parked waits for its retry delay between two attempts, however often
// the nodes come and go.
func TestOutage_TheRetryDelayHoldsBetweenOutages(t *testing.T) {
	t.Parallel()
	bothKinds(t, func(t *testing.T, of func(c *lockpipe.Client) acquireFunc) {
		inOutage(t, 3, func(t *testing.T, k *cable, c *lockpipe.Client) {
			const delay = time.Minute
			start, before := time.Now(), c.Stats().Attempts
			ended := later(func() error {
				l, err := of(c)(t.Context(), []string{"k"}, lockpipe.WithRetryDelay(delay, delay))
				return errors.Join(err, l.Release(t.Context()))
			})
			for range 10 {
				k.reconnected(t, c)
				k.unplug(t, c)
			}
			require.Less(t, time.Since(start), delay)
			require.Equal(t, before+1, c.Stats().Attempts)
			k.reconnected(t, c)
			require.NoError(t, <-ended)
			require.Equal(t, delay, time.Since(start))
		})
	})
}

// The goal: wherever a change of the nodes' states meets the attempts of calls, no call sleeps
// through it: all are granted soon after the nodes are back.
func TestOutage_NobodySleepsThroughTheEnd(t *testing.T) {
	skipIfShort(t, "outages that begin and end at random")
	t.Parallel()
	const calls = 300
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inOutage(t, 3, func(t *testing.T, k *cable, c *lockpipe.Client) {
				r := rand.New(rand.NewPCG(seed, 0))
				var all []<-chan outcome
				for i := range calls {
					acquire := []acquireFunc{c.AcquireAll, waitForAsync(c)}[i%2]
					keys := []string{strconv.Itoa(r.IntN(calls)), "x" + strconv.Itoa(r.IntN(9))}
					all = append(all, later(func() outcome {
						l, err := acquire(t.Context(), keys[:1+i/2%2])
						_ = l.Release(t.Context()) // it may have to wait for the nodes
						return outcome{l, err, time.Now()}
					}))
					switch r.IntN(20) {
					case 0:
						k.plug()
					case 1:
						k.unplug(t, c)
					default:
						time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
					}
				}
				k.reconnected(t, c)
				back := time.Now()
				for _, ended := range slices.Backward(all) {
					o := receive(t, ended, "a call still waits")
					require.NoError(t, o.err)
					require.Less(t, o.at.Sub(back), 10*time.Second)
				}
				time.Sleep(time.Minute) // also what was kept for nodes that were down
				k.v.nothingLeft(t)
			})
		})
	}
}

// The goal: while no quorum can be reached and calls wait, the log of the client has a reminder
// each minute with their number. It has none after they were granted.
func TestOutage_TheLogRemindsOfCallsThatWait(t *testing.T) {
	t.Parallel()
	bothKinds(t, func(t *testing.T, of func(c *lockpipe.Client) acquireFunc) {
		synctest.Test(t, func(t *testing.T) {
			var log lockedBuffer
			k := &cable{v: newFakeNodes(t, 3)}
			c := k.v.client(t, func(cfg *lockpipe.Config) {
				cfg.Dial, cfg.Logger = k.dial, slog.New(slog.NewTextHandler(&log, nil))
			})
			k.unplug(t, c)
			ended := waiters(t, 7, of(c))
			time.Sleep(3*time.Minute + time.Second)
			synctest.Wait()
			const reminder = "no quorum of the nodes can grant, and calls wait"
			require.Equal(t, 3, strings.Count(log.String(), reminder))
			require.Contains(t, log.String(), "calls=7 longest=3m0s")
			k.reconnected(t, c)
			allGranted(t, 7, ended)
			time.Sleep(10 * time.Minute)
			require.Equal(t, 3, strings.Count(log.String(), reminder))
		})
	})
}

// The goal: while a majority answers acquires with errors, one waiting call tries each second, and
// the others wait. When the nodes have memory again, all are granted within about a second.
func TestOutage_CallsWaitWhileTheNodesFail(t *testing.T) {
	t.Parallel()
	const calls = 40
	bothKinds(t, func(t *testing.T, of func(c *lockpipe.Client) acquireFunc) {
		inBubble(t, 3, func(t *testing.T, v *fakeNodes, c *lockpipe.Client) {
			v.fail(0, outOfMemory)
			v.fail(2, outOfMemory)
			ended := waiters(t, calls, of(c))
			time.Sleep(3 * time.Second)
			before := c.Stats().Attempts
			time.Sleep(10 * time.Second)
			require.InDelta(t, 10, c.Stats().Attempts-before, 2)
			require.Empty(t, ended)
			v.heal(0, 2)
			back := time.Now()
			last := allGranted(t, calls, ended)
			require.Less(t, last.Sub(back), 2*outage.ScoutInterval)
			v.nothingLeft(t)
		})
	})
}
