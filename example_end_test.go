package lockpipe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// Work that may take longer than a TTL should: the Client extends the lease until it is released.
func ExampleWithAutoExtend() {
	client, end := exampleClient()
	defer end()
	ctx := context.Background()

	// No work takes longer than that.
	lease, err := client.Acquire(ctx, "sku:42", lockpipe.WithAutoExtend(10*time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	// It looks at its context: that ends with ctx or the lease.
	recount := func(ctx context.Context) error { return ctx.Err() }
	err = recount(lease.Bind(ctx))
	fmt.Println("recount:", errors.Join(err, lease.Err()))
	fmt.Println("release:", lease.Release(context.WithoutCancel(ctx)))
	// Output:
	// recount: <nil>
	// release: <nil>
}

// A holder that hangs does not keep the key for ever: the lease ends after maxHold, and its context
// says so.
func ExampleWithAutoExtend_maxHold() {
	client, end := exampleClient()
	defer end()
	ctx := context.Background()

	lease, err := client.Acquire(ctx, "sku:42", lockpipe.WithAutoExtend(100*time.Millisecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	<-lease.Done() // where it hangs
	fmt.Println("expired:", errors.Is(context.Cause(lease.Context()), lockpipe.ErrExpired))
	fmt.Println("too late to release:", errors.Is(lease.Release(ctx), lockpipe.ErrExpired))
	// Output:
	// expired: true
	// too late to release: true
}

// The keys are gone from the masters before their time: the next extension finds that out, and the
// work is told through its context.
func ExampleLease_Context() {
	client, nodes, end := exampleClientAndNodes()
	defer end()
	ctx := context.Background()

	lease, err := client.Acquire(ctx, "sku:42", lockpipe.WithTTL(time.Second),
		lockpipe.WithAutoExtend(time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = lease.Release(ctx) }()

	for i := range nodes.Len() { // somebody's mistake
		if _, err := nodes.Do(i, "DEL", "sku:42"); err != nil {
			fmt.Println(err)
			return
		}
	}
	<-lease.Context().Done() // where the work is
	fmt.Println("lost:", errors.Is(context.Cause(lease.Context()), lockpipe.ErrLost))
	// Output:
	// lost: true
}

// The work for a request must stop when the request ends, and also when its lock does.
func ExampleLease_Bind() {
	client, end := exampleClient()
	defer end()
	request, cancel := context.WithTimeout(context.Background(), time.Minute) // of an HTTP request
	defer cancel()

	lease, err := client.Acquire(request, "sku:42", lockpipe.WithTTL(200*time.Millisecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := lease.Bind(request) // for the database, and for other services
	<-ctx.Done()               // where the work is
	fmt.Println("the lease expired:", errors.Is(context.Cause(ctx), lockpipe.ErrExpired))
	fmt.Println("the request:", request.Err())
	// Output:
	// the lease expired: true
	// the request: <nil>
}

// A job that many processes start at the same tick runs once: its key stays when the lease ends.
func ExampleLease_Keep() {
	client, end := exampleClient()
	defer end()
	ctx := context.Background()

	report := func() error {
		lease, err := client.TryAcquire(ctx, "report:12h", lockpipe.WithAutoExtend(time.Minute))
		if err != nil {
			return err // ErrHeld: another process runs it, or has run it
		}
		// After an error another process may try. After Keep, Release does nothing.
		defer func() { _ = lease.Release(ctx) }()
		fmt.Println("the report")
		return lease.Keep(ctx, 10*time.Second) // longer than the ticks of the processes differ
	}
	fmt.Println(report())
	fmt.Println("a second time:", errors.Is(report(), lockpipe.ErrHeld))
	// Output:
	// the report
	// <nil>
	// a second time: true
}

// A cart reserves a piece, and the payment takes it over in another request.
func ExampleClient_Adopt() {
	client, end := exampleClient()
	defer end()
	ctx := context.Background()

	cart, err := client.TryAcquire(ctx, "piece:7")
	if err != nil {
		fmt.Println(err)
		return
	}
	handle := cart.Handle() // into the session
	fmt.Println("reserved:", cart.Keep(ctx, 10*time.Minute))

	_, err = client.TryAcquire(ctx, "piece:7")
	fmt.Println("for nobody else:", errors.Is(err, lockpipe.ErrHeld))
	payment, err := client.Adopt(ctx, handle)
	fmt.Println("adopted:", payment.Keys(), err)
	_, err = client.Adopt(ctx, handle)
	fmt.Println("once:", errors.Is(err, lockpipe.ErrHeld))
	fmt.Println("sold:", payment.Release(ctx))
	// Output:
	// reserved: <nil>
	// for nobody else: true
	// adopted: [piece:7] <nil>
	// once: true
	// sold: <nil>
}

// One place that is told of every lease that ended before its holder released it.
func ExampleConfig_onLost() {
	nodes, err := lockpipetest.Start(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = nodes.Close() }()

	told := make(chan error, 1)
	client, err := lockpipe.New(lockpipe.Config{
		Nodes:  nodes.URLs(),
		Logger: slog.New(slog.DiscardHandler),
		OnLost: func(lease *lockpipe.Lease, end error) {
			told <- end // its text says which lease, when and why
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close(context.Background()) }()

	if _, err := client.Acquire(context.Background(), "sku:42",
		lockpipe.WithTTL(200*time.Millisecond)); err != nil {
		fmt.Println(err)
		return
	}
	// Nobody extended it, nor released it.
	fmt.Println("the lease expired:", errors.Is(<-told, lockpipe.ErrExpired))
	// Output:
	// the lease expired: true
}

// One process of many leads: it runs the function, and another takes over when it ends or dies.
func ExampleClient_Elect() {
	client, end := exampleClient()
	defer end()
	ctx, stop := context.WithCancel(context.Background()) // SIGTERM cancels it
	defer stop()

	err := client.Elect(ctx, "leader:billing", func(ctx context.Context,
		lease *lockpipe.Lease,
	) error {
		fmt.Println("leading, with a fence:", lease.Fence() > 0)
		stop()
		<-ctx.Done() // also if the lease is lost: stop at once, another may lead
		return context.Cause(ctx)
	}, lockpipe.WithTTL(3*time.Second), lockpipe.WithFencing())
	fmt.Println("stopped:", errors.Is(err, context.Canceled))
	// Output:
	// leading, with a fence: true
	// stopped: true
}
