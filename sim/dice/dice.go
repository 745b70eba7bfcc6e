// Package dice has random numbers that depend on a seed, the (virtual) time and what is asked for,
// and on nothing else: not on who asked before. So they are the same however the scheduler orders
// what happens at one instant.
package dice

import (
	"sync"
	"sync/atomic"
	"time"
)

// Thrown: the pauses of lockpipe come from here, and not from math/rand/v2, which has no seed, and
// so do the wall clocks. The simulation's tests build it so.
const Thrown = false

var (
	seed    atomic.Uint64
	stopped atomic.Int64 // for how long machines were suspended, in nanoseconds
	broken  string       // set once, before all else
)

// Break lets Broken be true of one name.
func Break(name string) { broken = name }

// Broken reports whether a rule is to be broken, so that the simulation has something to find. It
// is asked in builds for that purpose only.
func Broken(name string) bool { return name == broken }

// Seed sets what N depends on from now on. No machine was suspended before.
func Seed(s uint64) {
	seed.Store(s)
	stopped.Store(0)
}

// Suspend has all machines of clients suspended for d.
func Suspend(d time.Duration) { stopped.Add(int64(d)) }

// Suspended returns what sums up for how long a client's machine was suspended.
func Suspended() func(time.Time) time.Duration {
	return func(time.Time) time.Duration { return time.Duration(stopped.Load()) }
}

// N stands in for the function of the same name in math/rand/v2: it returns a number from 0 to n-1.
func N[Int ~int | ~int64](n Int) Int {
	return Int(Mix(seed.Load(), uint64(time.Now().UnixNano()), uint64(n)) % uint64(n))
}

var (
	numbers sync.Map // of what Number was asked for
	last    atomic.Int32
)

// Number returns a number for something, the same each time it is asked for it.
func Number(what any) byte {
	number, known := numbers.Load(what)
	if !known {
		number, _ = numbers.LoadOrStore(what, byte(last.Add(1)))
	}
	return number.(byte)
}

var shifting struct {
	sync.Mutex
	by time.Duration
}

// Shifted calls do, for whose client Clock is off by d.
func Shifted(d time.Duration, do func()) {
	shifting.Lock()
	defer shifting.Unlock()
	shifting.by = d
	do()
}

// Clock is the wall clock of the client that is being made.
func Clock() func() time.Time {
	d := shifting.by
	return func() time.Time { return time.Now().Add(d + time.Duration(stopped.Load())) }
}

// Mix returns 64 bits that look random and depend on all parts.
func Mix(parts ...uint64) uint64 {
	h := uint64(len(parts))
	for _, p := range parts { // splitmix64
		h += p + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}
