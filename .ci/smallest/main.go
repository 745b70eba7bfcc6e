// A program that only locks. .ci/run limits its size.
package main

import (
	"context"
	"log"

	"github.com/lockpipe/lockpipe"
)

func main() {
	client, err := lockpipe.New(lockpipe.Config{Nodes: []string{"127.0.0.1:6379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
	lease, err := client.Acquire(context.Background(), "sku:42")
	if err != nil {
		log.Print(err)
		return
	}
	if err := lease.Release(context.Background()); err != nil {
		log.Print(err)
	}
}
