package lockpipetest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// open returns a client whose timeouts are long enough for a busy test machine.
func open(nodes *lockpipetest.Nodes) (*lockpipe.Client, error) {
	return lockpipe.New(lockpipe.Config{
		Nodes: nodes.URLs(), NodeTimeout: 10 * time.Second,
		Logger: slog.New(slog.DiscardHandler),
	})
}

// While a minority of the nodes is down, a program works as usual. Without a redis-server the nodes
// are inside this process.
func ExampleNodes_Kill() {
	nodes, err := lockpipetest.Start(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = nodes.Close() }()
	client, err := open(nodes)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer func() { _ = client.Close(ctx) }()

	// The client uses new nodes when all of them answer.
	before, err := client.Acquire(ctx, "sku:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := nodes.Kill(0); err != nil {
		fmt.Println(err)
		return
	}
	after, err := client.TryAcquire(ctx, "sku:1001")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("holding:", before.Key(), after.Key())
	fmt.Println("release:", client.ReleaseAll(ctx, before, after))
	// Output:
	// holding: sku:42 sku:1001
	// release: <nil>
}

// A program tries a key that another holder has: the example sets the key itself.
func ExampleStartInProcess() {
	nodes, err := lockpipetest.StartInProcess(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = nodes.Close() }()
	client, err := open(nodes)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	defer func() { _ = client.Close(ctx) }()

	for i := range nodes.Len() {
		if _, err := nodes.Do(i, "SET", "sku:42", "another", "PX", "60000"); err != nil {
			fmt.Println(err)
			return
		}
	}
	_, err = client.TryAcquire(ctx, "sku:42")
	fmt.Println("held by another:", errors.Is(err, lockpipe.ErrHeld))
	// Output:
	// held by another: true
}
