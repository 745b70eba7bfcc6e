package metrics_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/lockpipe/lockpipe/metrics"
	"github.com/prometheus/client_golang/prometheus"
)

// If a process has several Clients, a label tells them apart.
func ExampleNewCollector() {
	masters, err := lockpipetest.Start(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer masters.Close()
	ctx := context.Background()
	client, err := lockpipe.New(lockpipe.Config{
		Nodes:       masters.URLs(),
		NodeTimeout: 10 * time.Second, // only because examples also run on busy machines
		Logger:      slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)

	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	orders := prometheus.WrapRegistererWith(prometheus.Labels{"locks": "orders"}, registry)
	orders.MustRegister(metrics.NewCollector(client))

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
