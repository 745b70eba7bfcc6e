package lockpipe_test

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// A Client is a prometheus.Collector. Where there are several in one process, a label tells them
// apart.
func ExampleClient_Collect() {
	client, end := exampleClient()
	defer end()
	ctx := context.Background()

	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	prometheus.WrapRegistererWith(prometheus.Labels{"locks": "orders"},
		registry).MustRegister(client)

	lease, err := client.Acquire(ctx, "sku:42")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)

	// promhttp.HandlerFor(registry, ...) does this for Prometheus.
	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range families {
		if f.GetName() == "lockpipe_leases_held" {
			m := f.GetMetric()[0]
			fmt.Println(f.GetName(), m.GetLabel()[0].GetValue(), m.GetGauge().GetValue())
		}
	}
	// Output:
	// lockpipe_leases_held orders 1
}

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
