package batch

import (
	"sync/atomic"
	"testing"
)

// benchmark has callers that append one operation after the other, each once a quorum of five
// readers, which answer at once, has read the one before.
func benchmark(b *testing.B, callers int) {
	type call struct {
		read  atomic.Int32
		woken chan struct{}
	}
	log := New(Config[call, struct{}]{
		Readers: 5, Quorum: 3, Weight: func(*call) int { return 1 },
		Read: func(t *Trip[call, struct{}]) {
			for _, r := range t.Rounds {
				for _, c := range r.Ops() {
					if c.read.Add(1) == 3 {
						c.woken <- struct{}{}
					}
				}
			}
			t.End()
		},
		Missed:    func(int, []*Round[call, struct{}]) {},
		MaxWeight: 512, Window: 4, OverlapAt: func(int) int { return 512 }, Limit: 1 << 18,
	})
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan struct{})
	b.ReportAllocs()
	b.ResetTimer()
	for range callers {
		go func() {
			defer func() { done <- struct{}{} }()
			woken := make(chan struct{}, 1)
			for left.Add(-1) >= 0 {
				if _, err := log.Append(&call{woken: woken}, All); err != nil {
					b.Error(err)
					return
				}
				<-woken
			}
		}()
	}
	for range callers {
		<-done
	}
	b.StopTimer()
	b.ReportMetric(float64(log.sealed)/float64(b.N), "rounds/op")
	if err := log.Close(b.Context()); err != nil {
		b.Error(err)
	}
}

func BenchmarkAppend_1Caller(b *testing.B)    { benchmark(b, 1) }
func BenchmarkAppend_512Callers(b *testing.B) { benchmark(b, 512) }
