package lockpipe_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/fence"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// exampleNodes are the masters of all examples that do not break them, once one has used them.
var exampleNodes = sync.OnceValue(startExampleNodes)

// closeExampleNodes is nil until then.
var closeExampleNodes func() error

func startExampleNodes() *lockpipetest.Nodes {
	nodes, err := lockpipetest.Start(3)
	if err != nil {
		panic(err)
	}
	closeExampleNodes = nodes.Close
	return nodes
}

// exampleClient is a client with a prefix of its own; end closes it.
func exampleClient() (client *lockpipe.Client, end func()) {
	client = newExampleClient(exampleNodes(), rand.Text()+":")
	return client, func() { _ = client.Close(context.Background()) }
}

// exampleClientAndNodes is exampleClient for who breaks the masters, which are its own.
func exampleClientAndNodes() (client *lockpipe.Client, nodes *lockpipetest.Nodes, end func()) {
	nodes, err := lockpipetest.Start(3)
	if err != nil {
		panic(err)
	}
	client = newExampleClient(nodes, "")
	return client, nodes, func() {
		_ = client.Close(context.Background())
		_ = nodes.Close()
	}
}

func newExampleClient(nodes *lockpipetest.Nodes, prefix string) *lockpipe.Client {
	client, err := lockpipe.New(lockpipe.Config{
		Nodes:       nodes.URLs(),
		Prefix:      prefix,
		Owner:       "web-3",
		NodeTimeout: 10 * time.Second, // examples also run on busy machines
		Logger:      slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	return client
}

func Example() {
	client, end := exampleClient()
	defer end()
	ctx := context.Background()

	lease, err := client.Acquire(ctx, "sku:42", lockpipe.WithTTL(8*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("holding", lease.Key(), "for more than 4 s:",
		time.Until(lease.Until()) > 4*time.Second)

	_, err = client.TryAcquire(ctx, "sku:42")
	fmt.Println("a second holder:", errors.Is(err, lockpipe.ErrHeld))

	fmt.Println("release:", lease.Release(ctx))
	fmt.Println("ended by:", context.Cause(lease.Context()))
	// Output:
	// holding sku:42 for more than 4 s: true
	// a second holder: true
	// release: <nil>
	// ended by: lockpipe: lease was released
}

// All keys of an order under one lease, or none.
func ExampleClient_AcquireAll() {
	client, end := exampleClient()
	defer end()
	ctx := context.Background()

	lease, err := client.AcquireAll(ctx, []string{"sku:1", "sku:2", "sku:3"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lease.Keys())

	_, err = client.TryAcquireAll(ctx, []string{"sku:9", "sku:2"})
	var held *lockpipe.HeldError
	if errors.As(err, &held) {
		fmt.Println("held:", held.Keys)
	}
	fmt.Println("release:", lease.Release(ctx))
	// Output:
	// [sku:1 sku:2 sku:3]
	// held: [sku:2]
	// release: <nil>
}

// Many keys that have nothing to do with each other, in one round trip to each master.
func ExampleClient_TryAcquireEach() {
	client, end := exampleClient()
	defer end()
	ctx := context.Background()

	other, err := client.Acquire(ctx, "b")
	if err != nil {
		fmt.Println(err)
		return
	}
	var mine []*lockpipe.Lease
	for _, r := range client.TryAcquireEach(ctx, []string{"a", "b", "c"}) {
		fmt.Println(r.Key, "granted:", r.Err == nil)
		if r.Lease != nil {
			mine = append(mine, r.Lease)
		}
	}
	fmt.Println("release:", client.ReleaseAll(ctx, append(mine, other)...))
	// Output:
	// a granted: true
	// b granted: false
	// c granted: true
	// release: <nil>
}

// The context of the work is cancelled when the lease ends, and the key is free when Do returns.
func ExampleClient_Do() {
	client, end := exampleClient()
	defer end()
	ctx := context.Background()

	err := client.Do(ctx, "report:daily", func(ctx context.Context) error {
		fmt.Println("at work:", ctx.Err() == nil)
		return nil
	})
	fmt.Println("done:", err)
	// Output:
	// at work: true
	// done: <nil>
}

// All keys of an order, and the number of the lease for the database, which refuses a lower one.
func ExampleClient_DoAll() {
	client, end := exampleClient()
	defer end()
	ctx := context.Background()

	err := client.DoAll(ctx, []string{"sku:1", "sku:2"}, func(ctx context.Context,
		lease *lockpipe.Lease,
	) error {
		fmt.Println("at work:", lease.Keys(), ctx.Err() == nil, lease.Fence() > 0)
		return nil
	}, lockpipe.WithFencing())
	fmt.Println("done:", err)
	// Output:
	// at work: [sku:1 sku:2] true true
	// done: <nil>
}

// Before the first lock: are these masters what they should be?
func ExampleClient_Inspect() {
	client, end := exampleClient()
	defer end()

	found, err := client.Inspect(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range found {
		if f.Severity > lockpipe.SeverityInfo {
			fmt.Println(f.Severity, f.Node, f.Text)
		}
	}
	fmt.Println("fit for locks:", found.Worst() < lockpipe.SeverityError)
	// Output:
	// fit for locks: true
}

// An operator looks at the nodes of a service without being one of its clients.
func ExampleInspect() {
	found, err := lockpipe.Inspect(context.Background(), lockpipe.Config{
		Nodes: exampleNodes().URLs(), Prefix: "orders:",
		NodeTimeout: 10 * time.Second, // examples also run on busy machines
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("fit for locks:", found.Worst() < lockpipe.SeverityError)
	// Output:
	// fit for locks: true
}

// A lease that is needed for longer is extended; one that is over says how it ended.
func ExampleLease_Extend() {
	client, end := exampleClient()
	defer end()
	ctx := context.Background()

	lease, err := client.Acquire(ctx, "sku:42", lockpipe.WithTTL(5*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("extend:", lease.Extend(ctx, 10*time.Second),
		time.Until(lease.Until()) > 6*time.Second)
	fmt.Println("release:", lease.Release(ctx))
	fmt.Println("extend:", lease.Extend(ctx, time.Second))
	// Output:
	// extend: <nil> true
	// release: <nil>
	// extend: lockpipe: "sku:42": lease was released
}

// Many waiting calls need no goroutine each: the function is called when the keys are granted.
func ExampleClient_AcquireAsync() {
	client, end := exampleClient()
	defer end()
	ctx := context.Background()

	var work sync.WaitGroup
	for order := range 3 {
		work.Add(1)
		err := client.AcquireAsync(ctx, []string{"sku:42"}, func(lease *lockpipe.Lease, err error) {
			defer work.Done()
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Println("order", order)
			_ = lease.Release(ctx)
		})
		if err != nil { // then the function is never called
			work.Done()
		}
	}
	work.Wait()
	// Output:
	// order 0
	// order 1
	// order 2
}

// The resource compares the fences of those who write, and refuses who comes too late.
func ExampleWithFencing() {
	client, end := exampleClient()
	defer end()
	ctx := context.Background()
	var stock fence.Checker // a database compares in the statement that writes: see docs/fencing.md

	var late *lockpipe.Lease
	for range 2 {
		lease, err := client.Acquire(ctx, "sku:42", lockpipe.WithFencing())
		if err != nil {
			fmt.Println(err)
			return
		}
		if late == nil { // it was paused before its write, and its lease ends
			late = lease
		} else {
			fmt.Println("in time:", stock.Allow("sku:42", lease.Fence()))
		}
		_ = lease.Release(ctx)
	}
	fmt.Println("too late:", stock.Allow("sku:42", late.Fence()))
	// Output:
	// in time: true
	// too late: false
}
