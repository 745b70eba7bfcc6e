package bench

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// sampled starts three nodes, a Client of them, and a sampler whose probers run until the test
// ends.
func sampled(t *testing.T) (*lockpipetest.Nodes, *lockpipe.Client, *sampler) {
	t.Helper()
	nodes, err := lockpipetest.StartInProcess(3)
	require.NoError(t, err)
	client, err := lockpipe.New(lockpipe.Config{
		Nodes: nodes.URLs(), TTL: time.Minute,
		NodeTimeout: 10 * time.Second, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	var endpoints []endpoint
	for _, url := range nodes.URLs() {
		endpoints = append(endpoints, endpointOf(t, url))
	}
	s := newSampler(endpoints, nil, time.Minute)
	ctx, cancel := context.WithCancel(context.Background())
	var probing sync.WaitGroup
	for _, p := range s.probers {
		probing.Go(func() { p.run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		probing.Wait()
		for i := range nodes.Len() {
			_ = nodes.Thaw(i)
		}
		_ = client.Close(context.Background())
		require.NoError(t, nodes.Close())
	})
	return nodes, client, s
}

// everywhere takes a lease, and waits until every node has it: it is granted when a quorum has.
func everywhere(t *testing.T, nodes *lockpipetest.Nodes, client *lockpipe.Client,
	key string,
) *lockpipe.Lease {
	t.Helper()
	lease, err := client.TryAcquire(t.Context(), key)
	require.NoError(t, err)
	for i := range nodes.Len() {
		require.Eventually(t, func() bool {
			value, err := nodes.Do(i, "GET", key)
			return err == nil && value == lease.Token()
		}, 10*time.Second, time.Millisecond)
	}
	return lease
}

// A lease whose key is not as it must be is dead where a majority of the nodes says so, and alive
// where a minority does.
func TestSamplerFindsDeadLeases(t *testing.T) {
	nodes, client, s := sampled(t)
	samples, dead := uint64(0), uint64(0)
	for name, damage := range map[string][]string{
		"gone":          {"DEL", "KEY"},
		"another token": {"SET", "KEY", "by another", "PX", "30000"},
		"for ever":      {"PERSIST", "KEY"},
		"too long":      {"PEXPIRE", "KEY", "61000"},
	} {
		for damaged := range 4 {
			lease := everywhere(t, nodes, client, name+strconv.Itoa(damaged))
			for i := range damaged {
				args := append([]string(nil), damage...)
				args[1] = lease.Key()
				_, err := nodes.Do(i, args...)
				require.NoError(t, err)
			}
			s.sample(t.Context(), lease)
			if samples++; damaged >= 2 {
				dead++
			}
			require.Equal(t, samples, s.samples)
			require.Equal(t, dead, s.dead, "%s on %d nodes", name, damaged)
		}
	}
	require.Zero(t, s.unanswered)
	require.NotEmpty(t, s.firstDead)
}

// What is over in its Client's own view is no sample.
func TestSamplerLeavesEndedLeasesAlone(t *testing.T) {
	nodes, client, s := sampled(t)
	released, err := client.TryAcquire(t.Context(), "released")
	require.NoError(t, err)
	require.NoError(t, released.Release(t.Context()))
	s.sample(t.Context(), released)

	short, err := client.Acquire(t.Context(), "short", lockpipe.WithTTL(500*time.Millisecond))
	require.NoError(t, err)
	require.NoError(t, nodes.Freeze(0))
	require.NoError(t, nodes.Freeze(1))
	s.sample(t.Context(), short) // ends with answerTimeout, and the lease before that
	require.ErrorIs(t, short.Err(), lockpipe.ErrExpired)
	require.Zero(t, s.samples)
	require.Zero(t, s.dead)
}

// A frozen minority is neither waited for nor a reason to call a lease dead. A frozen majority is
// one.
func TestSamplerWithFrozenNodes(t *testing.T) {
	nodes, client, s := sampled(t)
	lease := everywhere(t, nodes, client, "key")
	require.NoError(t, nodes.Freeze(2))
	const many = 1000 // more than the test has time for if each waited
	for range many {
		s.sample(t.Context(), lease)
	}
	require.EqualValues(t, many, s.samples)
	require.Zero(t, s.dead, s.firstDead)

	require.NoError(t, nodes.Freeze(1))
	s.sample(t.Context(), lease)
	require.EqualValues(t, 1, s.dead)
	require.EqualValues(t, many+1, s.samples)
	require.GreaterOrEqual(t, s.unanswered, uint64(2))
}

// A sample is over when a quorum has confirmed the lease: the rest need never answer.
func TestSampleEndsWithAQuorum(t *testing.T) {
	nodes, client, s := sampled(t)
	lease := everywhere(t, nodes, client, "key")
	s.probers[2] = newProber(s.probers[2].node, time.Minute) // which does not run
	s.sample(t.Context(), lease)
	require.EqualValues(t, 1, s.samples)
	require.Zero(t, s.dead)
}

// A node that is back is asked again.
func TestSamplerGoesBackToANode(t *testing.T) {
	nodes, client, s := sampled(t)
	lease := everywhere(t, nodes, client, "key")
	require.NoError(t, nodes.Freeze(0))
	require.NoError(t, nodes.Freeze(1))
	s.sample(t.Context(), lease)
	require.EqualValues(t, 1, s.dead)
	require.NoError(t, nodes.Thaw(0))
	require.Eventually(t, func() bool {
		before := s.dead
		s.sample(t.Context(), lease)
		return s.dead == before
	}, 30*time.Second, 10*time.Millisecond)
}

// A sample ends with its context, whatever the nodes do, and does not count.
func TestSampleEndsWithItsContext(t *testing.T) {
	nodes, client, s := sampled(t)
	lease := everywhere(t, nodes, client, "key")
	require.NoError(t, nodes.Freeze(0))
	require.NoError(t, nodes.Freeze(1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.sample(ctx, lease)
	require.Zero(t, s.samples)
}

// A question that finds too many others is unanswered at once.
func TestProberIsBounded(t *testing.T) {
	p := newProber(endpoint{address: "nowhere"}, time.Minute) // and does not run
	answers := make(chan answer, maxQuestions+1)
	for range maxQuestions + 1 {
		p.ask(question{answers: answers})
	}
	require.Len(t, answers, 1)
	a := <-answers
	require.False(t, a.answered)
	require.NotEmpty(t, a.found)
}
