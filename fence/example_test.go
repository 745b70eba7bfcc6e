package fence_test

import (
	"errors"
	"fmt"

	"github.com/lockpipe/lockpipe/fence"
)

var errTooLate = errors.New("a later lease was here before")

// stock is a resource that lives in this process. It asks for the fence of whoever writes.
type stock struct {
	fences fence.Checker
	amount map[string]int
}

// take writes for the holder of a lease, once: Lease.Fence comes with what it wants.
func (s *stock) take(sku string, amount int, fence int64) error {
	if !s.fences.Allow(sku, fence) {
		return errTooLate
	}
	s.amount[sku] -= amount
	return nil
}

// A holder was paused before its write, its lease ended, and another lease came and wrote: what the
// first one writes now is refused.
func ExampleChecker() {
	s := stock{amount: map[string]int{"sku:42": 10}}
	// From Lease.Fence, of two leases one after the other.
	const paused, later = 1700000000000001, 1700000000000002

	fmt.Println("the later one:", s.take("sku:42", 1, later))
	fmt.Println("the paused one:", s.take("sku:42", 3, paused))
	fmt.Println("left:", s.amount["sku:42"])
	// Output:
	// the later one: <nil>
	// the paused one: a later lease was here before
	// left: 9
}
