package otellock_test

import (
	"context"
	"log"

	"github.com/lockpipe/lockpipe"
	otellock "github.com/lockpipe/lockpipe/adapters/otel"
)

func Example() {
	_ = func(ctx context.Context, urls []string) error {
		client, err := lockpipe.New(lockpipe.Config{Nodes: urls})
		if err != nil {
			return err
		}
		defer func() { _ = client.Close(context.Background()) }()
		locks := otellock.Wrap(client, otellock.Config{}) // with the global TracerProvider

		return locks.Do(ctx, "report:daily", func(context.Context) error {
			log.Print("spans that begin here belong to lockpipe.hold")
			return nil
		})
	}
}
