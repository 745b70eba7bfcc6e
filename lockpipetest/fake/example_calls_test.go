package fake_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/lockpipetest/fake"
)

// Code that takes a *lockpipe.Client gets the one inside. The configuration can be changed.
func ExampleNewClient() {
	_ = func(t *testing.T) {
		locks := fake.NewClient(t, func(cfg *lockpipe.Config) { cfg.TTL = time.Minute })
		newService := func(*lockpipe.Client) {}
		newService(locks.Client)
	}
}

// A lease inside Do is lost as in production: when its extension finds that another has the key. In
// a bubble that takes no time.
func ExampleClient_Hold() {
	_ = func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks := fake.NewClient(t)
			err := locks.Do(t.Context(), "report", func(ctx context.Context) error {
				locks.Hold("report")
				<-ctx.Done()
				return nil
			}, lockpipe.WithAutoExtend(time.Hour))
			if err == nil {
				t.Error("the loss is not reported")
			}
		})
	}
}
