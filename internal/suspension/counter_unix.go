//go:build linux || darwin

package suspension

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// narrow is how exact a reading of the gap should be. A few tries are enough, unless the
	// process is stopped in each of them.
	narrow   = 20 * time.Microsecond
	gapTries = 5
)

// Counter returns a function that sums up for how long the machine was suspended until now, counted
// from the call of Counter. now comes from time.Now, just before. All goroutines may call that
// function; it does not block, and its results do not fall. Counter returns nil if the operating
// system can't be asked, or if the monotonic clock does not stop while the machine is suspended.
func Counter() func(now time.Time) time.Duration {
	c, err := newCounter(clockGap)
	if err != nil {
		return nil
	}
	return c.until
}

// clockGap reads how far the clock that continues while the machine is suspended is ahead of the
// one that stops.
func clockGap() (least, most time.Duration, err error) {
	for range gapTries {
		before, err1 := readClock(stoppingClock)
		through, err2 := readClock(continuingClock)
		after, err3 := readClock(stoppingClock)
		for _, err := range []error{err1, err2, err3} {
			if err != nil {
				return 0, 0, err
			}
		}
		if least, most = through-after, through-before; most-least <= narrow {
			break
		}
	}
	return least, most, nil
}

func readClock(id int32) (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(id, &t)
	return time.Duration(t.Nano()), err
}
