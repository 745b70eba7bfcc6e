//go:build !linux

package bench

import "time"

// coarse is 0 where the timers of the runtime are as good as any.
const coarse = 0

func nap(d time.Duration) { time.Sleep(d) }
