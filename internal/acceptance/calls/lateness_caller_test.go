package calls

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/acceptance/kit"
)

// callerVar has the nodes' URLs where the test binary is to be the program that
// TestNodes_AStoppedProcessBlamesNoNode stops.
const callerVar = "LOCKPIPE_TEST_CALLER"

// callerTimeout is the NodeTimeout of that program. No server of a test needs as long.
const callerTimeout = time.Second

// callerMain acquires and releases until nobody writes to it any more. It returns the exit code.
func callerMain(urls string) int {
	c, err := lockpipe.New(lockpipe.Config{
		Nodes: strings.Split(urls, ","), NodeTimeout: callerTimeout, Prefix: kit.Prefix,
	})
	if err == nil {
		err = c.Ready(context.Background())
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	var callers sync.WaitGroup
	failed := make(chan error, 16)
	for i := range cap(failed) {
		callers.Go(func() {
			for key := "k" + strconv.Itoa(i); ctx.Err() == nil; {
				l, err := c.TryAcquire(context.Background(), key)
				if err != nil {
					failed <- err
					return
				}
				_ = l.Release(context.Background())
			}
		})
	}
	fmt.Println("calls")
	callers.Wait()
	select {
	case err := <-failed:
		fmt.Println(err)
	default:
		fmt.Println("no call failed")
	}
	return 0
}
