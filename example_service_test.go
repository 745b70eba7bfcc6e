package lockpipe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/lockpipe/lockpipe/metrics"
	"github.com/prometheus/client_golang/prometheus"
)

// orders is a service that reserves all items of an order, or none.
type orders struct {
	locks *lockpipe.Client

	// In a real service the stock is a table, and the database takes writes at the same time. A Go
	// map does not, and orders of different items hold different locks.
	mu    sync.Mutex // guards stock
	stock map[string]int
}

// reserve handles /reserve?item=a&item=b.
func (o *orders) reserve(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	items := r.URL.Query()["item"]
	lease, err := o.locks.AcquireAll(ctx, items, lockpipe.WithAutoExtend(30*time.Second))
	switch {
	case errors.Is(err, lockpipe.ErrInvalid):
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case errors.Is(err, lockpipe.ErrHeld): // another order has held an item for two seconds
		http.Error(w, "busy, try again", http.StatusConflict)
		return
	case err != nil: // too few nodes answer
		http.Error(w, "no locks", http.StatusServiceUnavailable)
		return
	}
	defer func() { _ = lease.Release(context.WithoutCancel(ctx)) }()
	err = o.take(lease.Bind(ctx), lease.Keys()) // each once, whatever the request says
	switch {
	case lease.Err() != nil: // the locks were gone before the work was done: look at the stock
		http.Error(w, errors.Join(err, lease.Err()).Error(), http.StatusInternalServerError)
	case err != nil:
		http.Error(w, err.Error(), http.StatusGone)
	}
}

// take ends early if the request or the lease ends. A database takes ctx in its calls.
func (o *orders) take(ctx context.Context, items []string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, item := range items {
		if o.stock[item] == 0 {
			return fmt.Errorf("%s is sold out", item)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, item := range items {
		o.stock[item]--
	}
	return nil
}

// ready handles /ready. The service is ready when a majority of the nodes can vote.
func (o *orders) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	if err := o.locks.Ready(ctx); err != nil { // it names the nodes that can't, and why
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// A service has one Client for its whole life. It closes the Client after it has served the last
// request, so that no key stays locked.
func Example_service() {
	nodes, err := lockpipetest.Start(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = nodes.Close() }()
	locks, err := lockpipe.New(lockpipe.Config{
		Nodes:       nodes.URLs(),
		TTL:         5 * time.Second, // a crashed process blocks its keys for this long
		NodeTimeout: 2 * time.Second, // only because examples also run on busy machines
		Logger:      slog.New(slog.DiscardHandler),
		OnLost: func(lease *lockpipe.Lease, err error) {
			slog.Error("order lost its locks", "keys", lease.Keys(), "error", err)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewCollector(locks))

	service := &orders{locks: locks, stock: map[string]int{"sku:42": 1, "sku:1001": 5}}
	mux := http.NewServeMux()
	mux.HandleFunc("/reserve", service.reserve)
	mux.HandleFunc("/ready", service.ready)
	server := httptest.NewServer(mux)
	for range 2 {
		response, err := http.Post(server.URL+"/reserve?item=sku:42&item=sku:1001", "", nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		response.Body.Close()
		fmt.Println(response.Status)
	}

	server.Close() // waits for the requests under way
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	fmt.Println("closed:", locks.Close(ctx))
	fmt.Println("left:", service.stock["sku:42"], service.stock["sku:1001"])
	// Output:
	// 200 OK
	// 410 Gone
	// closed: <nil>
	// left: 0 4
}
