//go:build !linux

package process

import "time"

// TimerSlack is 0: the timers of the Go runtime are as precise as any here.
const TimerSlack = 0

// PreciseSleep sleeps by a timer of the Go runtime.
func PreciseSleep(d time.Duration) { time.Sleep(d) }
