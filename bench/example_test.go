package bench_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lockpipe/lockpipe/bench"
)

// Run a scenario for a moment and check what must always hold.
func ExampleRun() {
	cfg := bench.DefaultConfig(bench.Batch)
	cfg.Nodes = "inprocess:3"
	cfg.Callers, cfg.Keys, cfg.Batch = 4, 1000, 5
	cfg.Duration = 50 * time.Millisecond
	report, err := bench.Run(context.Background(), cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("all were released:", report.Released == report.Acquired)
	fmt.Println("violations:", report.Violations)
	fmt.Println("leftover keys:", report.LeftoverKeys)
	// Output:
	// all were released: true
	// violations: 0
	// leftover keys: 0
}
