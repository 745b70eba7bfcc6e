package lockpipetest_test

import (
	"fmt"
	"log"

	"github.com/lockpipe/lockpipe/lockpipetest"
)

// Outside a test: start three nodes, kill one, and bring it back empty.
func Example() {
	nodes, err := lockpipetest.Start(3)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = nodes.Close() }()

	for i := range nodes.Len() {
		if _, err := nodes.Do(i, "SET", "sku:42", "token", "NX", "PX", "30000"); err != nil {
			log.Fatal(err)
		}
	}
	if err := nodes.Restart(0); err != nil {
		log.Fatal(err)
	}
	for i := range nodes.Len() {
		keys, err := nodes.Keys(i, "sku:")
		fmt.Println(i, keys, err)
	}
	// Output:
	// 0 [] <nil>
	// 1 [sku:42] <nil>
	// 2 [sku:42] <nil>
}
