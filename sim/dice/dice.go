// Package dice has random numbers that depend on a seed, the (virtual) time and what is asked for, and on nothing else: not on who
// asked before. So they are the same however the scheduler orders what happens at one instant.
package dice

import (
	"sync/atomic"
	"time"
)

var seed atomic.Uint64

// Seed sets what N depends on from now on.
func Seed(s uint64) { seed.Store(s) }

// N stands in for the function of the same name in math/rand/v2: it returns a number from 0 to n-1.
func N[Int ~int | ~int64](n Int) Int {
	return Int(Mix(seed.Load(), uint64(time.Now().UnixNano()), uint64(n)) % uint64(n))
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
