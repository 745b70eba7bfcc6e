package keyqueue

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// silent is a Caller that does nothing.
type silent struct{}

func (silent) Notify(News) {}

// someNames returns n names of keys.
func someNames(n int) (list []string) {
	for i := range n {
		list = append(list, "key"+strconv.Itoa(i))
	}
	return list
}

func BenchmarkQueue_WithoutContention(b *testing.B) {
	for _, n := range []int{1, 3, 100} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			var q Queue
			list := someNames(n)
			c := &Call{Caller: silent{}}
			b.ReportAllocs()
			for b.Loop() {
				q.Enter(c, list, unlimited)
				q.Hold(c, time.Time{})
				q.Leave(c, time.Time{})
			}
		})
	}
}

// A holder leaves, the next call runs and holds, and the former holder waits again.
func BenchmarkQueue_LeaveAndRun(b *testing.B) {
	for _, set := range []string{"one", "another"} {
		for _, n := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("%s/waiting=%d", set, n), func(b *testing.B) {
				var q Queue
				all := crowd(&q, n+1, set == "another")
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					c := all[i%len(all)]
					q.Hold(&c.Call, time.Time{})
					q.Leave(&c.Call, time.Time{})
					q.Enter(&c.Call, c.keys, unlimited)
				}
			})
		}
	}
}

// crowd are calls that want one key, and another one each if they want two.
func crowd(q *Queue, n int, another bool) (all []*guest) {
	for i := range n {
		g := &guest{keys: []string{"hot"}}
		g.Caller = silent{}
		if another {
			g.keys = append(g.keys, strconv.Itoa(i))
		}
		q.Enter(&g.Call, g.keys, unlimited)
		all = append(all, g)
	}
	return all
}

const sizeOfCall = uint64(unsafe.Sizeof(Call{}))

// heapInUse returns the bytes of the heap that are reachable.
func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// The goal: waiting is cheap, and what it took is given back.
func TestQueue_BytesOfAWaitingCall(t *testing.T) {
	const n = 10_000
	for _, test := range []struct {
		name    string
		another bool
		limit   uint64
	}{{"one key", false, 250}, {"two keys, one of its own", true, 700}} {
		var q Queue
		calls := make([]Call, n)
		names := someNames(n)
		list := []string{"hot"}
		if test.another {
			list = []string{"hot", ""}
		}
		before := heapInUse()
		for i := range calls {
			calls[i].Caller = silent{}
			if test.another {
				list[1] = names[i]
			}
			q.Enter(&calls[i], list, unlimited)
		}
		each := (heapInUse()-before)/n + sizeOfCall
		for i := range calls {
			q.Leave(&calls[i], time.Time{})
		}
		after := heapInUse()
		require.LessOrEqual(t, each, test.limit)
		require.Less(t, after, before+n*8, "what is left of %d calls", n)
		t.Logf("%s: %d bytes a waiting call, %d of it the Call", test.name, each, sizeOfCall)
		runtime.KeepAlive(&q)
		runtime.KeepAlive(names)
	}
}
