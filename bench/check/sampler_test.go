package check

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// fakeLease is a lease that the test writes to the nodes by hand.
type fakeLease struct {
	key   string
	ended atomic.Bool
}

var errEnded = errors.New("ended")

func (l *fakeLease) Key() string   { return l.key }
func (l *fakeLease) Token() string { return "token of " + l.key }

func (l *fakeLease) Err() error {
	if l.ended.Load() {
		return errEnded
	}
	return nil
}

// onlyGroup is the group of every key if there is one.
func onlyGroup(string) int { return 0 }

// newTestSampler starts three nodes, and a Sampler of them whose probes run until the test ends.
func newTestSampler(t *testing.T, nodeTimeout time.Duration) (*lockpipetest.Nodes, *Sampler) {
	t.Helper()
	nodes, err := lockpipetest.StartInProcess(3)
	require.NoError(t, err)
	var endpoints []Endpoint
	for _, url := range nodes.URLs() {
		endpoints = append(endpoints, endpointOf(t, url))
	}
	s := NewSampler([][]Endpoint{endpoints}, onlyGroup, time.Minute, nodeTimeout, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var probing sync.WaitGroup
	for _, p := range s.groups[0] {
		probing.Go(func() { p.run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		probing.Wait()
		for i := range nodes.Len() {
			_ = nodes.Thaw(i)
		}
		require.NoError(t, nodes.Close())
	})
	return nodes, s
}

// newLease returns a lease that lives on every node.
func newLease(t *testing.T, nodes *lockpipetest.Nodes, key string) *fakeLease {
	t.Helper()
	lease := &fakeLease{key: key}
	for i := range nodes.Len() {
		_, err := nodes.Do(i, "SET", key, lease.Token(), "PX", "60000")
		require.NoError(t, err)
	}
	return lease
}

// Goal: a lease whose key is not as it must be is missing if a majority of the nodes says so, and
// not if a minority does.
func TestSampler_FindsMissingLeases(t *testing.T) {
	t.Parallel()
	nodes, s := newTestSampler(t, 0)
	samples, missing := uint64(0), uint64(0)
	for name, damage := range map[string][]string{
		"gone":          {"DEL", "KEY"},
		"another token": {"SET", "KEY", "by another", "PX", "30000"},
		"for ever":      {"PERSIST", "KEY"},
		"too long":      {"PEXPIRE", "KEY", "61000"},
	} {
		for damaged := range 4 {
			lease := newLease(t, nodes, name+strconv.Itoa(damaged))
			for i := range damaged {
				args := append([]string(nil), damage...)
				args[1] = lease.Key()
				_, err := nodes.Do(i, args...)
				require.NoError(t, err)
			}
			s.sample(t.Context(), lease)
			if samples++; damaged >= 2 {
				missing++
			}
			require.Equal(t, samples, s.found.Taken)
			require.Equal(t, missing, s.found.Missing, "%s on %d nodes", name, damaged)
		}
	}
	require.Zero(t, s.found.Unanswered)
	require.NotEmpty(t, s.found.FirstMissing)
}

// Goal: a lease that has ended in its Client's own view, before or during the sample, is no sample.
func TestSampler_EndedLeasesDoNotCount(t *testing.T) {
	t.Parallel()
	nodes, s := newTestSampler(t, 0)
	released := newLease(t, nodes, "released")
	released.ended.Store(true)
	s.sample(t.Context(), released)

	short := newLease(t, nodes, "short")
	require.NoError(t, nodes.Freeze(0))
	require.NoError(t, nodes.Freeze(1))
	time.AfterFunc(queryTimeout/2, func() { short.ended.Store(true) })
	s.sample(t.Context(), short)
	require.Equal(t, Samples{}, s.found)
}

// Goal: a sample does not wait for a frozen minority, and that is no reason to call a lease
// missing. A frozen majority is one.
func TestSampler_FrozenNodes(t *testing.T) {
	t.Parallel()
	nodes, s := newTestSampler(t, 0)
	lease := newLease(t, nodes, "key")
	require.NoError(t, nodes.Freeze(2))
	const many = 1000 // more than the test has time for if each waited
	for range many {
		s.sample(t.Context(), lease)
	}
	require.EqualValues(t, many, s.found.Taken)
	require.Zero(t, s.found.Missing, s.found.FirstMissing)

	require.NoError(t, nodes.Freeze(1))
	s.sample(t.Context(), lease)
	require.EqualValues(t, 1, s.found.Missing)
	require.EqualValues(t, many+1, s.found.Taken)
	require.GreaterOrEqual(t, s.found.Unanswered, uint64(2))
}

// Goal: a node whose answer is late is asked for as long as the Clients wait for it.
func TestSampler_WaitsAsLongAsTheClients(t *testing.T) {
	t.Parallel()
	nodes, s := newTestSampler(t, time.Minute)
	lease := newLease(t, nodes, "key")
	require.NoError(t, nodes.Freeze(0))
	require.NoError(t, nodes.Freeze(1))
	time.AfterFunc(5*queryTimeout/4, func() { _ = errors.Join(nodes.Thaw(0), nodes.Thaw(1)) })
	s.sample(t.Context(), lease)
	require.Equal(t, Samples{Taken: 1}, s.found)
}

// Goal: a sample ends when a quorum has confirmed the lease. The other nodes need never answer.
func TestSampler_ASampleEndsWithAQuorum(t *testing.T) {
	t.Parallel()
	nodes, s := newTestSampler(t, 0)
	lease := newLease(t, nodes, "key")
	probes := s.groups[0]
	probes[2] = newNodeProbe(probes[2].node, time.Minute, queryTimeout) // which does not run
	s.sample(t.Context(), lease)
	require.Equal(t, Samples{Taken: 1}, s.found)
}

// Goal: a node that answers again is asked again.
func TestSampler_ReturnsToANode(t *testing.T) {
	t.Parallel()
	nodes, s := newTestSampler(t, 0)
	lease := newLease(t, nodes, "key")
	require.NoError(t, nodes.Freeze(0))
	require.NoError(t, nodes.Freeze(1))
	s.sample(t.Context(), lease)
	require.EqualValues(t, 1, s.found.Missing)
	require.NoError(t, nodes.Thaw(0))
	require.Eventually(t, func() bool {
		before := s.found.Missing
		s.sample(t.Context(), lease)
		return s.found.Missing == before
	}, 30*time.Second, 10*time.Millisecond)
}

// Goal: a sample ends with its context, whatever the nodes do, and does not count.
func TestSampler_ASampleEndsWithItsContext(t *testing.T) {
	t.Parallel()
	nodes, s := newTestSampler(t, 0)
	lease := newLease(t, nodes, "key")
	require.NoError(t, nodes.Freeze(0))
	require.NoError(t, nodes.Freeze(1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.sample(ctx, lease)
	require.Zero(t, s.found.Taken)
}

// Goal: Run takes samples until its context ends, and returns all that they found.
func TestSampler_RunReturnsWhatItFound(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	lease := newLease(t, nodes, "key")
	ctx, cancel := context.WithCancel(t.Context())
	picked := atomic.Int64{}
	groups := [][]Endpoint{{endpointOf(t, nodes.URLs()[0])}}
	s := NewSampler(groups, onlyGroup, time.Minute, 0, func() Lease {
		if picked.Add(1) == 20 {
			cancel()
		}
		return lease
	})
	found := s.Run(ctx)
	require.NotZero(t, found.Taken)
	require.Zero(t, found.Missing, found.FirstMissing)
}

// Goal: only the nodes of a key's group count. A lease that lives on another group is missing.
func TestSampler_AsksTheGroupOfTheKey(t *testing.T) {
	t.Parallel()
	nodes, all := newTestSampler(t, 0)
	lease := newLease(t, nodes, "key")
	for group, want := range []Samples{{Taken: 1}, {Taken: 1, Missing: 1}} {
		s := &Sampler{
			groupOf: func(string) int { return group },
			groups:  [][]*nodeProbe{all.groups[0][:2], all.groups[0][2:]},
		}
		if group == 1 {
			_, err := nodes.Do(2, "DEL", "key")
			require.NoError(t, err)
		}
		s.sample(t.Context(), lease)
		s.found.FirstMissing = ""
		require.Equal(t, want, s.found)
	}
}

// Goal: a query that finds too many others is unanswered at once.
func TestProbe_IsBounded(t *testing.T) {
	p := newNodeProbe(endpointOf(t, "nowhere"), time.Minute, queryTimeout) // and does not run
	answers := make(chan answer, maxQueries+1)
	for range maxQueries + 1 {
		p.submit(query{answers: answers})
	}
	require.Len(t, answers, 1)
	a := <-answers
	require.False(t, a.answered)
	require.NotEmpty(t, a.found)
}

// Goal: a lease is not called missing because the connection of its probe was cut.
func TestProbe_OutlivesAReset(t *testing.T) {
	nodes := servertest.Start(t, 1)
	p := newNodeProbe(endpointOf(t, nodes.URLs()[0]), time.Minute, queryTimeout)
	defer p.disconnect()
	for range 3 {
		a := p.answer(t.Context(), query{key: "k", token: "t"})
		require.True(t, a.answered, a.found)
		require.Equal(t, "no key", a.found)
		_, err := nodes.Do(0, "CLIENT", "KILL", "TYPE", "normal")
		require.NoError(t, err)
	}
}

// Goal: only the end of a connection that was there counts as a broken one.
func TestConnectionBroken(t *testing.T) {
	require.True(t, ConnectionBroken(io.EOF))
	require.True(t, ConnectionBroken(resp.ErrUnanswered))
	require.False(t, ConnectionBroken(nil))
	require.False(t, ConnectionBroken(context.DeadlineExceeded))
}
