package lease

import "time"

// rounding is the part of the clock drift that does not grow with the TTL.
const rounding = 2 * time.Millisecond

// Validity returns how long a lease is valid from when it was asked for with ttl. It subtracts
// Redlock's "clock drift": 1 % for clocks that run at different rates, and 2 ms because servers
// expire keys in whole milliseconds
// (https://redis.io/docs/latest/develop/use/patterns/distributed-locks/). The "elapsed time" is
// subtracted too, because validity counts from before the first byte is sent.
func Validity(ttl time.Duration) time.Duration { return ttl - ttl/100 - rounding }

// TTLFor returns a TTL in whole milliseconds whose validity is at least d, and hardly longer.
func TTLFor(d time.Duration) time.Duration {
	ttl := d + rounding
	ttl += ttl/99 + 1
	if part := ttl % time.Millisecond; part > 0 {
		ttl += time.Millisecond - part
	}
	return ttl
}
