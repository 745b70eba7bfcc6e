package leases

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/stretchr/testify/require"
)

// lifeline is what happened to one key on one node.
type lifeline struct {
	moves   int       // how often it was set, or its TTL
	last    time.Time // when it was the last time
	deleted bool
	revived int // moves after it was deleted
}

// lifelines follows all keys on all nodes.
type lifelines struct {
	mu sync.Mutex
	of map[string][]lifeline // by key, with the prefix; guarded by mu
	n  int
}

func follow(v *kit.FakeNodes) *lifelines {
	f := &lifelines{of: map[string][]lifeline{}, n: len(v.Nodes)}
	v.Watch(f.see)
	return f
}

func (f *lifelines) see(i int, command string, args []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch command {
	case "DEL":
		for _, key := range args {
			f.at(key, i).deleted = true
		}
	case "SET", "PEXPIRE":
		on := f.at(args[0], i)
		on.moves++
		on.last = time.Now()
		if on.deleted {
			on.revived++
		}
	}
}

// at is where to write down; mu is held.
func (f *lifelines) at(key string, i int) *lifeline {
	if f.of[key] == nil {
		f.of[key] = make([]lifeline, f.n)
	}
	return &f.of[key][i]
}

// forget forgets what happened to a key.
func (f *lifelines) forget(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of[kit.Prefix+key] = make([]lifeline, f.n)
}

// key is what happened to a key so far, by node.
func (f *lifelines) key(key string) []lifeline {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]lifeline{}, f.of[kit.Prefix+key]...)
}

// racing is one way for extensions to get in the way of a release.
type racing struct {
	extends     int // concurrent calls of Extend, during the automatic extension
	nodeTimeout time.Duration
	waves       int
}

// raceLatency is the longest way to a node, and back; raceTTL is long compared with it, so that no
// lease is lost.
const (
	raceLatency = 50 * time.Millisecond
	raceTTL     = time.Second
)

// The goal: nothing of a lease comes after its release, whatever automatic and explicit extensions
// are under way. When the release is confirmed, a quorum of nodes is free and stays free. On no
// node the key comes back, or gets a new TTL, after it was deleted there. What is on its way to a
// minority is followed by its release at once.
func TestRelease_IsTheLastWord(t *testing.T) {
	kit.SkipIfShort(t, "2,800 releases that race with extensions")
	t.Parallel()
	tests := map[string]racing{
		"one Extend, patient":    {1, 10 * time.Second, 11},
		"one Extend, impatient":  {1, 60 * time.Millisecond, 3},
		"two Extends, patient":   {2, 10 * time.Second, 11},
		"two Extends, impatient": {2, 60 * time.Millisecond, 3},
	}
	const together = 100 // 2,800 releases in all waves of all tests
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				v := kit.NewFakeNodes(t, 3)
				v.Latency(raceLatency)
				c := v.Client(t, kit.Timeout(test.nodeTimeout))
				f := follow(v)
				raced := 0
				for wave := range test.waves {
					problems := make([]string, together)
					crossed := make([]bool, together)
					var races sync.WaitGroup
					for i := range together {
						races.Go(func() {
							crossed[i], problems[i] = test.race(v, c, f,
								fmt.Sprint(wave, ":", i))
						})
					}
					races.Wait()
					for i := range together {
						require.Empty(t, problems[i], "%d:%d", wave, i)
						if crossed[i] {
							raced++
						}
					}
				}
				require.Greater(t, raced, test.waves*together/20,
					"too few extensions were under way when the release came")
			})
		})
	}
}

// race releases one lease while it is extended. It reports whether an extension came to a node
// after the release began, and what went wrong, if anything.
func (r racing) race(v *kit.FakeNodes, c *lockpipe.Client, f *lifelines, key string) (crossed bool,
	problem string,
) {
	ctx := context.Background()
	l, err := c.Acquire(ctx, key, kit.Auto(raceTTL, time.Hour)...)
	if err != nil {
		return false, fmt.Sprint("Acquire: ", err)
	}
	time.Sleep(4 * raceLatency) // all nodes have it, and nothing of an earlier attempt
	f.forget(key)
	var extends sync.WaitGroup
	failed := make([]error, r.extends)
	for i := range r.extends {
		extends.Go(func() {
			time.Sleep(rand.N(raceTTL / 2))
			if err := l.Extend(ctx, raceTTL/2+rand.N(raceTTL)); err != nil &&
				!kit.AnyOf(err, lockpipe.ErrReleased, lockpipe.ErrNoQuorum) {
				failed[i] = err
			}
		})
	}
	time.Sleep(rand.N(raceTTL / 2))
	began := f.key(key)
	for err = l.Release(ctx); errors.Is(err, lockpipe.ErrNoQuorum); err = l.Release(ctx) {
		time.Sleep(time.Millisecond) // impatient
	}
	if err != nil {
		return false, fmt.Sprint("Release: ", err)
	}
	confirmed, at := f.key(key), time.Now()
	extends.Wait()
	time.Sleep(4 * raceLatency)
	for i := range v.Nodes {
		if v.Get(i, key) != "" {
			problem += fmt.Sprintf("node %d: still there; ", i)
		}
	}
	time.Sleep(3 * raceTTL)
	final, free := f.key(key), 0
	for i := range v.Nodes {
		crossed = crossed || final[i].moves > began[i].moves
		if confirmed[i].deleted || confirmed[i].moves == 0 {
			// An impatient acquire may have left a node out.
			free++
		}
		switch moved := final[i].moves - confirmed[i].moves; {
		case final[i].revived > 0:
			problem += fmt.Sprintf("node %d: %d moves after it was deleted; ", i, final[i].revived)
		case moved > 1, moved == 1 && final[i].last.Sub(at) > 2*raceLatency:
			problem += fmt.Sprintf("node %d: %d moves, the last %v after the confirmation; ", i,
				moved, final[i].last.Sub(at))
		case final[i].moves > 0 && !final[i].deleted:
			problem += fmt.Sprintf("node %d: never deleted; ", i)
		}
	}
	if free < 2 {
		problem += fmt.Sprintf("only %d nodes were free when the release was confirmed; ", free)
	}
	return crossed, problem + errorText(errors.Join(failed...))
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
