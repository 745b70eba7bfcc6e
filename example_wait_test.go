package lockpipe_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockpipe/lockpipe"
)

// One attempt: who finds the key held does something else.
func ExampleClient_TryAcquire() {
	client, end := exampleClient()
	defer end()
	ctx := context.Background()

	other, err := client.Acquire(ctx, "report:daily")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.TryAcquire(ctx, "report:daily")
	fmt.Println("another one is at it:", errors.Is(err, lockpipe.ErrHeld))

	fmt.Println("release:", other.Release(ctx))
	lease, err := client.TryAcquire(ctx, "report:daily")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = lease.Release(ctx) }()
	fmt.Println("holding", lease.Key())
	// Output:
	// another one is at it: true
	// release: <nil>
	// holding report:daily
}

// A call that waits is woken when the holder releases.
func ExampleClient_Acquire() {
	client, end := exampleClient()
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // how long to wait
	defer cancel()

	first, err := client.Acquire(ctx, "sku:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		fmt.Println("first: done")
		_ = first.Release(ctx)
	}()

	second, err := client.Acquire(ctx, "sku:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer second.Release(context.WithoutCancel(ctx))
	fmt.Println("second: holding", second.Key())
	// Output:
	// first: done
	// second: holding sku:42
}

// The context says how long a call waits.
func ExampleClient_Acquire_deadline() {
	client, end := exampleClient()
	defer end()

	lease, err := client.Acquire(context.Background(), "sku:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = lease.Release(context.Background()) }()

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = client.Acquire(ctx, "sku:42")
	fmt.Println("gave up:", errors.Is(err, context.DeadlineExceeded))
	// Output:
	// gave up: true
}

// A few attempts, instead of waiting for as long as the context lasts.
func ExampleWithMaxAttempts() {
	client, end := exampleClient()
	defer end()
	ctx := context.Background()

	lease, err := client.Acquire(ctx, "sku:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = lease.Release(ctx) }()

	_, err = client.Acquire(ctx, "sku:42", lockpipe.WithMaxAttempts(3),
		lockpipe.WithRetryDelay(time.Millisecond, 5*time.Millisecond))
	fmt.Println("held after three attempts:", errors.Is(err, lockpipe.ErrHeld))
	// Output:
	// held after three attempts: true
}

// Many leases, given back in one round trip to each master.
func ExampleClient_ReleaseAll() {
	client, end := exampleClient()
	defer end()
	ctx := context.Background()

	var leases []*lockpipe.Lease
	for _, key := range []string{"sku:1", "sku:2"} {
		lease, err := client.Acquire(ctx, key)
		if err != nil {
			fmt.Println(err)
			return
		}
		leases = append(leases, lease)
	}
	fmt.Println("release:", client.ReleaseAll(ctx, leases...))
	for _, lease := range leases {
		fmt.Println(lease.Key(), lease.Err())
	}
	// Output:
	// release: <nil>
	// sku:1 lockpipe: lease was released
	// sku:2 lockpipe: lease was released
}

func ExampleClient_AcquireAny() {
	client, end := exampleClient()
	defer end()
	ctx := context.Background()

	// At most two exports run at the same time, in all processes together.
	slots := lockpipe.Slots("export", 2)
	for range 3 {
		lease, err := client.TryAcquireAny(ctx, slots)
		if errors.Is(err, lockpipe.ErrHeld) {
			fmt.Println("too many exports: AcquireAny would wait")
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		defer func() { _ = lease.Release(ctx) }()
		fmt.Println("holding", len(lease.Keys()), "slot")
	}
	// Output:
	// holding 1 slot
	// holding 1 slot
	// too many exports: AcquireAny would wait
}
