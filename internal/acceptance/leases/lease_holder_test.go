package leases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
)

const (
	holderTTL = 4 * time.Second
	// holderGap is a jump of the clock that only a stop makes: longer than the TTL, and shorter
	// than the stop.
	holderGap  = holderTTL + time.Second/2
	holderStop = holderGap + time.Second/2
)

// beforeTheStop is what the holder observes where the machine was too busy to extend the lease.
const beforeTheStop = "an end before the stop: "

// holderMain holds a lease that is extended automatically, and writes one line when it does, one
// with what it observes first after the process was stopped, and one with the error that OnLost
// got. It ends with its standard input.
func holderMain(urls string) int {
	// observe takes one processor for itself. The automatic extension must not wait for it.
	runtime.GOMAXPROCS(1 + runtime.GOMAXPROCS(0))
	told := make(chan error, 1)
	c, err := lockpipe.New(kit.Config(strings.Split(urls, ","),
		[]func(*lockpipe.Config){kit.OnLost(func(_ *lockpipe.Lease, err error) { told <- err })}))
	if err != nil {
		fmt.Println("New:", err)
		return 1
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	l, err := c.Acquire(context.Background(), "k", kit.Auto(holderTTL, time.Hour)...)
	if err != nil {
		fmt.Println("Acquire:", err)
		return 1
	}
	ctx := l.Context()
	fmt.Println("holds", l.Token())
	fmt.Println("observes", observe(l, ctx))
	fmt.Println("told", word(<-told), word(c.Close(context.Background())))
	return 0
}

// observe reads the lease in a tight loop, and returns the first that it says after the clock has
// jumped; or earlier, where it gave an end that was over already.
func observe(l *lockpipe.Lease, ctx context.Context) string {
	for last := time.Now(); ; {
		now := time.Now()
		err, until := l.Err(), l.Until()
		switch {
		case now.Sub(last) > holderGap:
			return fmt.Sprint(word(err), " ", until.IsZero(), " ", ctx.Err(), " ",
				word(context.Cause(ctx)))
		case !until.IsZero() && !until.After(now):
			return fmt.Sprintf("an Until that was over for %v", now.Sub(until))
		case err != nil && time.Since(last) <= holderGap:
			// Else it was stopped since now, and the next round tells.
			return fmt.Sprint(beforeTheStop, err)
		}
		last = now
	}
}

// word is an end in one word.
func word(err error) string {
	switch {
	case err == nil:
		return "nil"
	case errors.Is(err, lockpipe.ErrLost):
		return "lost"
	case errors.Is(err, lockpipe.ErrExpired):
		return "expired"
	}
	return err.Error()
}
