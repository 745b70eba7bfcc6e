package lockpipe_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockpipe/lockpipe"
)

// Who is in the way: the keys that another holds.
func ExampleHeldError() {
	client, end := exampleClient()
	defer end()
	ctx := context.Background()

	lease, err := client.AcquireAll(ctx, []string{"seat:12A", "seat:12B"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = lease.Release(ctx) }()

	_, err = client.TryAcquireAll(ctx, []string{"seat:12B", "seat:12C"})
	var held *lockpipe.HeldError
	if errors.As(err, &held) {
		fmt.Println("taken:", held.Keys)
		fmt.Println("is ErrHeld:", errors.Is(err, lockpipe.ErrHeld))
	}
	// Output:
	// taken: [seat:12B]
	// is ErrHeld: true
}

// Too few masters: what is wrong with each of them. Nothing is held, and trying again may help.
func ExampleQuorumError() {
	client, nodes, end := exampleClientAndNodes()
	defer end()
	ctx := context.Background()

	lease, err := client.Acquire(ctx, "sku:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, i := range []int{0, 1} {
		if err := nodes.Kill(i); err != nil {
			fmt.Println(err)
			return
		}
	}
	_, err = client.TryAcquire(ctx, "sku:1001")
	var quorum *lockpipe.QuorumError
	if errors.As(err, &quorum) {
		// quorum.Nodes has the address of each master that has not voted, and why
		fmt.Println("granted by less than", quorum.Need, "of three:", quorum.Granted < quorum.Need)
	}
	fmt.Println("is ErrNoQuorum:", errors.Is(err, lockpipe.ErrNoQuorum))
	fmt.Println("what was held before, is:", lease.Err() == nil)
	// Output:
	// granted by less than 2 of three: true
	// is ErrNoQuorum: true
	// what was held before, is: true
}

// What a service makes of the errors of a call.
func Example_errors() {
	client, end := exampleClient()
	defer end()
	ctx := context.Background()

	status := func(err error) int {
		switch {
		case err == nil:
			return 200
		case errors.Is(err, lockpipe.ErrInvalid): // a mistake in the program
			return 500
		case errors.Is(err, lockpipe.ErrHeld): // another has it, also where ctx ended meanwhile
			return 409
		default: // ErrNoQuorum, ErrOverloaded, ErrClosed, the context's error: later perhaps
			return 503
		}
	}
	lease, err := client.Acquire(ctx, "sku:42")
	fmt.Println(status(err))
	_, err = client.TryAcquire(ctx, "sku:42")
	fmt.Println(status(err))
	_, err = client.TryAcquire(ctx, "")
	fmt.Println(status(err))
	fmt.Println(lease.Release(ctx), client.Close(ctx))
	_, err = client.TryAcquire(ctx, "sku:42")
	fmt.Println(status(err))
	// Output:
	// 200
	// 409
	// 500
	// <nil> <nil>
	// 503
}
