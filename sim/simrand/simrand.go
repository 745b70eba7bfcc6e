// Package simrand has random numbers that depend only on a seed, the (virtual) time and the
// arguments, and not on earlier calls. So they are the same in whatever order the scheduler runs
// what happens at one instant.
package simrand

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Enabled is true in a build in which lockpipe takes its random delays and its wall clocks from
// this package. Otherwise they come from math/rand/v2, which has no seed, and package time. The
// simulation's tests make such a build.
const Enabled = false

var (
	seed       atomic.Uint64
	suspended  atomic.Int64 // how long machines were suspended in total, in nanoseconds
	stalls     atomic.Int64 // of 1000 calls of Stall, how many take time
	brokenRule string       // set once, before all else
)

// EnableMutant lets Mutant return true for one name.
func EnableMutant(name string) { brokenRule = name }

// Mutant reports whether the mutant of this name is enabled: its rule is broken, and the simulation
// has something to find. Only builds for that purpose call it.
func Mutant(name string) bool { return name == brokenRule }

// Seed sets the seed of N and Stall, and resets Suspended and SetStalls to zero.
func Seed(s uint64) {
	seed.Store(s)
	suspended.Store(0)
	stalls.Store(0)
}

// SetStalls sets of how many in 1000 calls of Stall take time.
func SetStalls(perMille int64) { stalls.Store(perMille) }

// MaxStall is the longest time that Stall takes.
const MaxStall = 1 << 10 * time.Millisecond

// Stall takes some time now and then: the scheduler of a busy machine leaves out a goroutine of
// lockpipe between two steps. Builds of the simulation's tests call it there, for node i. Most
// stalls are short.
func Stall(i int) {
	h := Hash(seed.Load(), uint64(time.Now().UnixNano()), uint64(i), 1)
	if h%1000 < uint64(stalls.Load()) && !isWriterOfRueidis() {
		time.Sleep(MaxStall >> (h >> 10 % 11))
	}
}

// isWriterOfRueidis reports whether the caller runs in the goroutine by which rueidis writes to a
// connection. When a connection breaks, rueidis' other goroutine is busy until the writer is gone.
// Virtual time does not pass while a goroutine is busy.
func isWriterOfRueidis() bool {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers[:])])
	for frame, more := frames.Next(); more; frame, more = frames.Next() {
		if strings.HasSuffix(frame.Function, "._backgroundWrite") {
			return true
		}
	}
	return false
}

// Suspend records that all machines of clients were suspended for d.
func Suspend(d time.Duration) { suspended.Add(int64(d)) }

// Suspended returns a function that returns how long a client's machine was suspended in total.
func Suspended() func(time.Time) time.Duration {
	return func(time.Time) time.Duration { return time.Duration(suspended.Load()) }
}

// N replaces the function of the same name in math/rand/v2. It returns a number from 0 to n-1.
func N[Int ~int | ~int64](n Int) Int {
	return Int(Hash(seed.Load(), uint64(time.Now().UnixNano()), uint64(n)) % uint64(n))
}

// Shuffle replaces the function of the same name in math/rand/v2.
func Shuffle(n int, swap func(i, j int)) {
	from := Hash(seed.Load(), uint64(time.Now().UnixNano()), uint64(n), 2)
	rand.New(rand.NewPCG(from, 0)).Shuffle(n, swap)
}

var (
	stableIDs sync.Map // by the argument of StableID
	lastID    atomic.Int32
)

// StableID returns a number for a value: the same number each time for the same value.
func StableID(value any) byte {
	id, known := stableIDs.Load(value)
	if !known {
		id, _ = stableIDs.LoadOrStore(value, byte(lastID.Add(1)))
	}
	return id.(byte)
}

var skewing struct {
	sync.Mutex
	by time.Duration
}

// WithClockSkew calls do. The client that do makes has a Clock that is d ahead.
func WithClockSkew(d time.Duration, do func()) {
	skewing.Lock()
	defer skewing.Unlock()
	skewing.by = d
	do()
}

// Clock returns the wall clock of the client that is being made.
func Clock() func() time.Time {
	d := skewing.by
	return func() time.Time { return time.Now().Add(d + time.Duration(suspended.Load())) }
}

// Hash returns 64 bits that look random and depend on all parts.
func Hash(parts ...uint64) uint64 {
	h := uint64(len(parts))
	for _, p := range parts { // splitmix64
		h += p + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

// Mutex is a sync.Mutex for virtual time, which passes while a goroutine waits for it. So a
// goroutine may stall that has it.
type Mutex struct {
	once   sync.Once
	locked chan struct{}
}

// Lock waits until nobody has the mutex, and takes it.
func (m *Mutex) Lock() {
	m.once.Do(func() { m.locked = make(chan struct{}, 1) })
	m.locked <- struct{}{}
}

// Unlock gives it back.
func (m *Mutex) Unlock() { <-m.locked }
