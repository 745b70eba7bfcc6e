package combine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/combine"
	"github.com/lockpipe/lockpipe/lockpipetest"
)

// Order is one piece of a product for a customer.
type Order struct{ Product, Customer string }

var errSoldOut = errors.New("sold out")

// One look at the stock and one write serve all orders of a batch. The stock decides who gets a
// piece.
func Example() {
	nodes, err := lockpipetest.StartInProcess(3)
	if err != nil {
		panic(err)
	}
	defer nodes.Close()
	client, err := lockpipe.New(lockpipe.Config{
		Nodes: nodes.URLs(), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	defer client.Close(context.Background())

	stock := map[string]int{"sku:42": 1} // a table in a database
	sell := func(ctx context.Context, _ *lockpipe.Lease, orders []Order) ([]error, error) {
		results := make([]error, len(orders))
		for i, o := range orders {
			if stock[o.Product] == 0 {
				results[i] = errSoldOut // of this order alone
				continue
			}
			stock[o.Product]--
		}
		return results, ctx.Err() // an error for all of them
	}
	sales := combine.New(client, sell, combine.MaxItems(100))

	for _, customer := range []string{"ann", "bob"} {
		o := Order{"sku:42", customer}
		result, err := sales.Do(context.Background(), []string{o.Product}, o)
		if err != nil {
			panic(err)
		}
		fmt.Println(customer, result)
	}
	// Output:
	// ann <nil>
	// bob sold out
}
