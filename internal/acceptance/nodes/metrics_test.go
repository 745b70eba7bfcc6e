package nodes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/lockpipe/lockpipe/metrics"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

// scrape gathers the metrics of a client through a registry that checks all that can be checked. A
// sample is named as in PromQL, labels in the order of their names; of a histogram there are the
// samples _count and _sum, and _bucket for the last bound, 10 s.
func scrape(t *testing.T, c *lockpipe.Client) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(metrics.NewCollector(c)))
	families, err := registry.Gather()
	require.NoError(t, err)
	samples := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			addSamples(samples, f.GetName(), m)
		}
	}
	return samples
}

func addSamples(samples map[string]float64, name string, m *dto.Metric) {
	labels := ""
	for _, l := range m.GetLabel() {
		labels += fmt.Sprintf(",%s=%q", l.GetName(), l.GetValue())
	}
	if labels != "" {
		labels = "{" + labels[1:] + "}"
	}
	if h := m.GetHistogram(); h != nil {
		samples[name+"_count"+labels], samples[name+"_sum"+labels] = float64(h.GetSampleCount()),
			h.GetSampleSum()
		last := h.GetBucket()[len(h.GetBucket())-1]
		samples[name+"_bucket"+labels] = float64(last.GetCumulativeCount())
		return
	}
	samples[name+labels] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

// total adds up the samples of a name that have all of these labels.
func total(samples map[string]float64, name string, labels ...string) float64 {
	sum := 0.0
	for sample, v := range samples {
		found, rest, _ := strings.Cut(sample, "{")
		for _, l := range labels {
			if !strings.Contains(rest, l) {
				found = ""
			}
		}
		if found == name {
			sum += v
		}
	}
	return sum
}

// The goal: each time and number is exact where the test knows it: of calls, attempts, waits,
// extensions, releases and ends.
func TestMetrics_AreExact(t *testing.T) {
	t.Parallel()
	kit.InBubble(t, 3, func(t *testing.T, _ *kit.FakeNodes, c *lockpipe.Client) {
		first := kit.Take(t, c, "k")
		// Until all nodes have it: an extension that refilled one would keep the lease from being
		// handed over.
		time.Sleep(time.Second)
		require.NoError(t, first.Extend(t.Context(), kit.LongTTL))
		_, err := c.TryAcquire(t.Context(), "k")
		require.ErrorIs(t, err, lockpipe.ErrHeld)
		_, err = c.TryAcquire(t.Context(), "")
		require.ErrorIs(t, err, lockpipe.ErrInvalid)
		waited := make(chan *lockpipe.Lease, 1)
		start := time.Now()
		go func() {
			l, _ := c.Acquire(t.Context(), "k")
			waited <- l
		}()
		time.Sleep(3 * time.Second)
		now := scrape(t, c)
		require.InDelta(t, 1.0, now["lockpipe_waiters"], 0)
		require.InDelta(t, 1.0, now["lockpipe_calls_pending"], 0)
		require.InDelta(t, 1.0, now["lockpipe_leases_held"], 0)
		held := time.Since(start)
		require.NoError(t, first.Release(t.Context())) // handed over
		second := <-waited
		require.NotNil(t, second)
		time.Sleep(2 * time.Second)
		require.NoError(t, second.Release(t.Context()))
		require.NoError(t, second.Release(t.Context()))
		short := kit.Try(t, c, "short", lockpipe.WithTTL(time.Second))
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, short.Release(t.Context()), lockpipe.ErrExpired)
		require.NoError(t, c.AcquireAsync(t.Context(), []string{"a"}, func(l *lockpipe.Lease,
			_ error,
		) {
			waited <- l
		}))
		require.NotNil(t, <-waited)
		left, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		require.NoError(t, c.AcquireAsync(left, []string{"a"}, func(l *lockpipe.Lease,
			_ error,
		) {
			waited <- l
		}))
		require.Nil(t, <-waited)
		require.ErrorIs(t, c.AcquireAsync(left, []string{"a"}, func(*lockpipe.Lease, error) {}),
			context.DeadlineExceeded)
		for _, r := range c.TryAcquireEach(t.Context(), []string{"x", "y", "a"}) {
			require.Equal(t, r.Key == "a", errors.Is(r.Err, lockpipe.ErrHeld))
		}
		require.NoError(t, c.Close(t.Context()))

		got := scrape(t, c)
		for sample, want := range map[string]float64{
			`lockpipe_calls_total{kind="try",outcome="granted"}`:    1,
			`lockpipe_calls_total{kind="try",outcome="held"}`:       1,
			`lockpipe_calls_total{kind="try",outcome="invalid"}`:    1,
			`lockpipe_calls_total{kind="wait",outcome="granted"}`:   2,
			`lockpipe_calls_total{kind="async",outcome="canceled"}`: 2,
			`lockpipe_calls_total{kind="async",outcome="granted"}`:  1,
			`lockpipe_calls_total{kind="each",outcome="granted"}`:   2,
			`lockpipe_calls_total{kind="each",outcome="held"}`:      1,
			`lockpipe_attempts_total{outcome="granted"}`:            5,
			`lockpipe_extensions_total{outcome="confirmed"}`:        1,
			`lockpipe_releases_total{outcome="confirmed"}`:          2,
			`lockpipe_releases_total{outcome="handed_over"}`:        1,
			`lockpipe_releases_total{outcome="already_ended"}`:      1,
			`lockpipe_handovers_total`:                              1,
			`lockpipe_leases_ended_total{outcome="released"}`:       2,
			`lockpipe_leases_ended_total{outcome="expired"}`:        1,
			`lockpipe_leases_ended_total{outcome="closed"}`:         3,
			`lockpipe_leases_ended_total{outcome="lost"}`:           0,
			`lockpipe_leases_held`:                                  0,
			`lockpipe_waiters`:                                      0,
			`lockpipe_calls_pending`:                                0,
			`lockpipe_spare_nodes`:                                  -2,
			`lockpipe_node_state{node="node-0:6379",state="down"}`:  1,
			`lockpipe_node_state{node="node-0:6379",state="up"}`:    0,
			`lockpipe_node_connects_total{node="node-0:6379"}`:      1,
			`lockpipe_acquire_duration_seconds_count{kind="wait"}`:  2,
			`lockpipe_acquire_duration_seconds_count{kind="async"}`: 1,
			`lockpipe_attempt_duration_seconds_count`: total(got,
				"lockpipe_attempts_total"),
			`lockpipe_hold_duration_seconds_count`: 6,
		} {
			require.Contains(t, got, sample)
			require.InDelta(t, want, got[sample], 0, sample)
		}
		require.InDelta(t, got["lockpipe_hold_duration_seconds_count"],
			got["lockpipe_hold_duration_seconds_bucket"], 0, "none took longer than 10 s")
		latency := 0.1 // of all that the nodes were asked for, by far
		require.InDelta(t, held.Seconds(),
			got[`lockpipe_acquire_duration_seconds_sum{kind="wait"}`], latency)
		require.InDelta(t, (held + 4*time.Second + 990*time.Millisecond).Seconds(),
			got["lockpipe_hold_duration_seconds_sum"], latency)
		for i := range 3 {
			node := fmt.Sprintf(`{node="node-%d:6379"}`, i)
			require.InDelta(t, got["lockpipe_node_flushes_total"+node],
				got["lockpipe_node_flush_duration_seconds_count"+node], 0)
			require.GreaterOrEqual(t, got["lockpipe_node_operations_total"+node],
				got["lockpipe_node_flushes_total"+node])
		}
	})
}

// The goal: a collection disturbs nothing and is right at any time: under load, while the client
// closes, and afterwards. Counters never fall.
func TestMetrics_CollectingIsSafeAtAnyTime(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	c := kit.Connected(t, kit.NewClient(t, nodes))
	var callers, scrapers sync.WaitGroup
	// Under load each round of a caller allows one scrape: scrapers without a pause would take the
	// processors from the callers.
	rounds := make(chan struct{})
	done := make(chan struct{})
	for i := range 8 {
		callers.Go(func() {
			for n := 0; ; n++ {
				l, err := c.Acquire(t.Context(), fmt.Sprint("k", (i+n)%4))
				if err != nil {
					return
				}
				_ = l.Extend(t.Context(), kit.LongTTL)
				_ = l.Release(t.Context())
				select {
				case rounds <- struct{}{}:
				default:
				}
			}
		})
	}
	closing := make(chan struct{})
	for range 2 {
		scrapers.Go(func() {
			for before := map[string]float64{}; ; {
				now := scrape(t, c)
				for sample, v := range before {
					if strings.Contains(sample, "_total") || strings.Contains(sample, "_count") {
						require.GreaterOrEqual(t, now[sample], v, sample)
					}
				}
				before = now
				select {
				case <-done:
					return
				case <-closing:
				case <-rounds:
				}
			}
		})
	}
	kit.Eventually(t, func() bool {
		s := c.Stats()
		return s.Attempts+s.Handovers > 200
	}, "the calls do not get on")
	require.Greater(t, total(scrape(t, c), "lockpipe_calls_total"), 100.0)
	close(closing)
	require.NoError(t, c.Close(t.Context()))
	callers.Wait()
	close(done)
	scrapers.Wait()
	require.Zero(t, scrape(t, c)["lockpipe_leases_held"])
}

// ledger is what callers themselves have counted.
type ledger struct {
	mu     sync.Mutex
	counts map[string]float64
	leases []*lockpipe.Lease
}

func (g *ledger) add(sample string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counts[sample]++
}

// seen names the outcome of an acquiring call, an extension or a release.
func seen(err error, success string) string {
	if err != nil && strings.LastIndex(err.Error(), "lockpipe: ") != 0 {
		return "a text without the prefix, or with two: " + err.Error()
	}
	switch {
	case err == nil:
		return success
	case kit.AnyOf(err, context.Canceled, context.DeadlineExceeded):
		return "canceled"
	case errors.Is(err, lockpipe.ErrLost):
		return "lost"
	case kit.AnyOf(err, lockpipe.ErrExpired, lockpipe.ErrReleased):
		return "already_ended"
	case errors.Is(err, lockpipe.ErrHeld):
		return "held"
	}
	return "no_quorum"
}

// use takes a key, keeps it for a while, perhaps extends it or lets it run out, and notes every
// outcome.
func (g *ledger) use(ctx context.Context, c *lockpipe.Client, random *rand.Rand) {
	key, kind := fmt.Sprint("k", random.IntN(6)), "try"
	acquire := c.TryAcquire
	if random.IntN(4) == 0 {
		kind, acquire = "wait", c.Acquire
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond+
		time.Duration(random.IntN(300))*time.Millisecond)
	defer cancel()
	l, err := acquire(short, key)
	g.add(fmt.Sprintf("lockpipe_calls_total{kind=%q,outcome=%q}", kind, seen(err, "granted")))
	if err != nil {
		time.Sleep(time.Millisecond)
		return
	}
	g.mu.Lock()
	g.leases = append(g.leases, l)
	g.mu.Unlock()
	time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond)
	for range random.IntN(4) {
		err := l.Extend(ctx, 300*time.Millisecond)
		if errors.Is(err, lockpipe.ErrExpired) {
			// Whether it was tried depends on a moment. Any other error says that it was, though
			// the lease may be over by now.
			break
		}
		g.add(fmt.Sprintf("lockpipe_extensions_total{outcome=%q}", seen(err, "confirmed")))
		if l.Err() != nil {
			break
		}
	}
	if random.IntN(8) == 0 {
		return // forgotten
	}
	err = l.Release(ctx)
	if !errors.Is(l.Err(), lockpipe.ErrReleased) {
		g.add(`lockpipe_releases_total{outcome="already_ended"}`)
		return
	}
	g.add(fmt.Sprintf("lockpipe_releases_total{outcome=%q}", seen(err, "confirmed")))
}

// lose takes a lease that all nodes forget, and extends it: whether one is lost must not depend on
// chance.
func (g *ledger) lose(t *testing.T, v *kit.FakeNodes, c *lockpipe.Client) {
	for {
		l, err := c.TryAcquire(t.Context(), "lost")
		g.add(fmt.Sprintf("lockpipe_calls_total{kind=%q,outcome=%q}", "try", seen(err, "granted")))
		if err != nil {
			continue // of an earlier one that ran out meanwhile, perhaps
		}
		g.leases = append(g.leases, l)
		for _, n := range v.Nodes {
			n.Wipe()
		}
		if err := l.Extend(t.Context(), 300*time.Millisecond); errors.Is(err, lockpipe.ErrLost) {
			g.add(`lockpipe_extensions_total{outcome="lost"}`)
			return
		} else if !errors.Is(err, lockpipe.ErrExpired) {
			g.add(fmt.Sprintf("lockpipe_extensions_total{outcome=%q}", seen(err, "confirmed")))
		}
	}
}

// ends notes how the leases ended, when all have.
func (g *ledger) ends(t *testing.T) {
	for _, l := range g.leases {
		kit.Ended(t, l)
		how := "released"
		switch {
		case errors.Is(l.Err(), lockpipe.ErrLost):
			how = "lost"
		case errors.Is(l.Err(), lockpipe.ErrExpired):
			how = "expired"
		}
		g.add(fmt.Sprintf("lockpipe_leases_ended_total{outcome=%q}", how))
	}
}

// hurt does harm to nodes until ctx ends, to majorities as well, and leaves them well. Each node
// has a cable of its own.
func hurt(ctx context.Context, v *kit.FakeNodes, cables []*kit.Cable) {
	random := rand.New(rand.NewPCG(1, 2))
	for ctx.Err() == nil {
		first, count := random.IntN(len(v.Nodes)), 1+random.IntN(len(v.Nodes)-1)
		var which []int
		for k := range count {
			which = append(which, (first+k)%len(v.Nodes))
		}
		kind := random.IntN(3)
		for _, i := range which {
			switch kind {
			case 0:
				v.Silence(i)
			case 1:
				cables[i].Pull()
				v.Nodes[i].Wipe()
			default:
				v.Nodes[i].Wipe()
			}
		}
		time.Sleep(time.Duration(20+random.IntN(150)) * time.Millisecond)
		v.Speak(which...)
		for _, i := range which {
			cables[i].Plug()
		}
		time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
	}
}

// The goal: after a run with nodes that freeze, die and forget, the metrics are exactly what the
// callers have seen.
func TestMetrics_AgreeWithWhatCallersSaw(t *testing.T) {
	kit.SkipIfShort(t, "the metrics of a run with nodes that freeze, die and forget")
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := kit.NewFakeNodes(t, 5)
		v.Latency(3 * time.Millisecond)
		var cables []*kit.Cable
		for range v.Nodes {
			cables = append(cables, &kit.Cable{V: v})
		}
		c := v.Client(t, kit.Timeout(30*time.Millisecond), func(cfg *lockpipe.Config) {
			cfg.TTL, cfg.MaxTTL = 300*time.Millisecond, 300*time.Millisecond
			cfg.RestartGuard = lockpipe.GuardOff
			cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				return cables[slices.Index(v.URLs, addr)].Dial(ctx, network, addr)
			}
		})
		g := &ledger{counts: map[string]float64{}}
		faulty, end := context.WithTimeout(t.Context(), 3*time.Second)
		defer end()
		var working sync.WaitGroup
		for i := range 12 {
			random := rand.New(rand.NewPCG(7, uint64(i)))
			working.Go(func() {
				for faulty.Err() == nil {
					g.use(t.Context(), c, random)
				}
			})
		}
		hurt(faulty, v, cables)
		working.Wait()
		kit.Connected(t, c)
		g.lose(t, v, c)
		g.ends(t)
		time.Sleep(10 * time.Second) // what was kept for nodes is sent
		synctest.Wait()
		require.True(t, kit.AllUp(c))
		require.Zero(t, c.Stats().PendingReleases, "releases are kept for nodes that are well")
		g.agrees(t, scrape(t, c))
	})
}

// agrees compares what was counted.
func (g *ledger) agrees(t *testing.T, got map[string]float64) {
	t.Helper()
	// Both nil.
	got[`lockpipe_releases_total{outcome="confirmed"}`] += got[`lockpipe_releases_total{outcome="handed_over"}`]
	compared := map[string]bool{
		"lockpipe_calls_total": true, "lockpipe_releases_total": true,
		"lockpipe_leases_ended_total": true,
	}
	for sample, v := range got {
		name, labels, _ := strings.Cut(sample, "{")
		if compared[name] && !strings.Contains(labels, "handed_over") ||
			sample == `lockpipe_extensions_total{outcome="confirmed"}` ||
			sample == `lockpipe_extensions_total{outcome="lost"}` ||
			sample == `lockpipe_extensions_total{outcome="no_quorum"}` {
			require.InDelta(t, g.counts[sample], v, 0, sample)
		}
	}
	for _, outcome := range []string{"granted", "held", "no_quorum"} {
		require.Positive(t, total(got, "lockpipe_calls_total", fmt.Sprintf("outcome=%q", outcome)),
			"the faults were of no effect: %v", g.counts)
	}
	require.Positive(t, got[`lockpipe_leases_ended_total{outcome="lost"}`],
		"the faults were of no effect: %v", g.counts)
	require.InDelta(t, total(got, "lockpipe_calls_total", `outcome="granted"`),
		total(got, "lockpipe_leases_ended_total"), 0)
	require.Zero(t, got["lockpipe_leases_held"])
	require.Positive(t, total(got, "lockpipe_node_failures_total"))
	require.InDelta(t, 2.0, got["lockpipe_spare_nodes"], 0)
}
