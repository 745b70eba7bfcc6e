package main

import (
	"math/rand/v2"
	"slices"
)

// baskets says which products an order has. Product 0 is the hot one.
type baskets struct {
	kind     string  // see the constants
	products int     // in the shop
	items    int     // of an order
	hotShare float64 // of the orders on a timetable; the closed loop has hot and cold callers
}

const (
	bundle = "bundle" // all hot orders are the same: product 0 and the next ones
	mixed  = "mixed"  // each hot order is product 0 and other products at random
	flash  = "flash"  // a flash sale: a hot order is product 0 and nothing else
	zipf   = "zipf"   // each order takes products by popularity; product 0 is the most popular
)

// zipfExponent makes the most popular of 1,000 products a sixth of all that is sold.
const zipfExponent = 1.1

// isHot returns if an order has the hot product. NewOrder sorts; a basket is not sorted.
func isHot(products []int) bool { return slices.Contains(products, 0) }

// generator returns a function that returns the products of the next order. Generators of one seed
// return the same, so each way gets the same orders.
func (b baskets) generator(seed uint64) func(hot bool) []int {
	random := rand.New(rand.NewPCG(seed, 0))
	popular := rand.NewZipf(random, zipfExponent, 1, uint64(b.products-1))
	return func(hot bool) (products []int) {
		if b.kind == zipf {
			return fill(nil, b.items, func() int { return int(popular.Uint64()) })
		}
		switch {
		case hot && b.kind == flash:
			return []int{0}
		case hot && b.kind == mixed:
			products = []int{0}
		case hot:
			for p := range b.items {
				products = append(products, p)
			}
		}
		return fill(products, b.items, func() int {
			return b.items + random.IntN(b.products-b.items)
		})
	}
}

// fill adds products until there are count, each once.
func fill(products []int, count int, next func() int) []int {
	for len(products) < count {
		if p := next(); !slices.Contains(products, p) {
			products = append(products, p)
		}
	}
	return products
}
