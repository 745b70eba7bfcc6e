package kit

import (
	"context"
	"reflect"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/locker"
	"github.com/lockpipe/lockpipe/internal/stats"
)

// inside returns the Locker of a client, which the public face does not show.
func inside(c *lockpipe.Client) *locker.Locker {
	field := reflect.ValueOf(c).Elem().FieldByName("locker")
	return *(**locker.Locker)(field.Addr().UnsafePointer())
}

// ShiftClock sets the wall clock that the client's fences come from off by d. It is called before
// the client is used.
func ShiftClock(c *lockpipe.Client, d time.Duration) {
	setClock(c, func() time.Time { return time.Now().Add(d) })
}

// BehindClock calls do each time when the client has looked at the wall clock for a fence. It is
// called before the client is used.
func BehindClock(c *lockpipe.Client, do func()) {
	setClock(c, func() time.Time {
		now := time.Now()
		do()
		return now
	})
}

func setClock(c *lockpipe.Client, now func() time.Time) {
	maxTTL := reflect.ValueOf(c).Elem().FieldByName("cfg").FieldByName("MaxTTL").Int()
	inside(c).Fences = ids.NewFenceClock(now, time.Duration(maxTTL))
}

// QueueIdle reports whether the queue of the process knows nothing of these keys any more.
func QueueIdle(c *lockpipe.Client, keys ...string) bool {
	queue := &inside(c).Queue
	return queue.Waiting() == 0 && !queue.Knows(keys)
}

// Overload lets the client have as many pending calls as it may, until the returned function is
// called.
func Overload(c *lockpipe.Client) (end func()) {
	k, begun := inside(c), 0 // the client may have other calls
	for k.Begin(context.Background(), stats.Try, 0) == nil {
		begun++
	}
	return func() {
		for range begun {
			k.End()
		}
	}
}
