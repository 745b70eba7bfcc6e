package lockpipe_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockpipe/lockpipe"
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
	defer func() { _ = lease.Release(ctx) }()
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

// Who has it? For a person who looks at a dashboard, or at a job that does not start.
func ExampleClient_Peek() {
	client, end := exampleClient() // with Config.Owner: "web-3"
	defer end()
	ctx := context.Background()

	lease, err := client.Acquire(ctx, "report:daily")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = lease.Release(ctx) }()
	keys, err := client.Peek(ctx, []string{"report:daily", "report:weekly"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, k := range keys {
		if k.Held {
			fmt.Println(k.Key, "is held by", k.Owner, "for some", k.Left.Round(5*time.Second))
		} else {
			fmt.Println(k.Key, "is free")
		}
	}
	// Output:
	// report:daily is held by web-3 for some 10s
	// report:weekly is free
}

// A service starts when enough masters can vote, and says otherwise which can't.
func ExampleClient_Ready() {
	client, nodes, end := exampleClientAndNodes()
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println("at the start:", client.Ready(ctx))

	_, _ = nodes.Kill(1), nodes.Kill(2)
	probe, over := context.WithCancel(ctx)
	over() // so Ready does not wait
	err := client.Ready(probe)
	for err == nil { // the client has not noticed it yet
		time.Sleep(10 * time.Millisecond)
		err = client.Ready(probe)
	}
	var quorum *lockpipe.QuorumError
	if errors.As(err, &quorum) { // quorum.Nodes are those that can't vote, and why
		fmt.Println(quorum.Need, "of 3 are needed; so many:", quorum.Granted >= quorum.Need)
	}
	// Output:
	// at the start: <nil>
	// 2 of 3 are needed; so many: false
}
