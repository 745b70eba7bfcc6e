package lockpipe_test

import (
	"context"
	"fmt"
)

// How much work the leases were, without Prometheus.
func ExampleClient_Stats() {
	client, end := exampleClient()
	defer end()
	ctx := context.Background()

	lease, err := client.Acquire(ctx, "sku:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held:", client.Stats().Held)
	fmt.Println("release:", lease.Release(ctx))
	fmt.Println("held:", client.Stats().Held, "lost:", client.Stats().Lost)
	// Output:
	// held: 1
	// release: <nil>
	// held: 0 lost: 0
}

// How often calls ended how, for a system of metrics. Package metrics does this for Prometheus.
func ExampleClient_Outcomes() {
	client, end := exampleClient()
	defer end()
	ctx := context.Background()

	lease, err := client.Acquire(ctx, "sku:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	_, err = client.TryAcquire(ctx, "sku:42")
	fmt.Println("a second holder:", err == nil)

	for _, o := range client.Outcomes() {
		if o.What == "call" && o.Count > 0 {
			fmt.Println(o.Kind, o.Outcome, o.Count)
		}
	}
	// Output:
	// a second holder: false
	// try held 1
	// wait granted 1
}

// The state of each master, for a health check: locks need N/2+1 of them.
func ExampleClient_Nodes() {
	client, end := exampleClient()
	defer end()

	for i, node := range client.Nodes() {
		if node.Err != nil { // NodeDown, NodeQuarantined or NodeFailing
			fmt.Println(node.Addr, node.State, node.Err)
		}
		fmt.Println("master", i, "has failed:", node.Err != nil)
	}
	// Output:
	// master 0 has failed: false
	// master 1 has failed: false
	// master 2 has failed: false
}
