package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	products = 1000 // in each shop; product 0 is the one on sale
	items    = 3    // of a Zipf order
	// zipfExponent makes the most popular product a sixth of all that is ordered.
	zipfExponent = 1.1
)

// What callers order.
const (
	flash = "flash" // half of the callers want the product on sale, the others any other product
	zipf  = "zipf"  // each order takes products by popularity; the product on sale comes first
)

// load is what each shop has to do. The page changes it.
type load struct {
	Callers   int    `json:"callers"`   // each places one order after another
	OutsideMs int    `json:"outsideMs"` // the payment, outside of the database
	Products  string `json:"products"`  // flash or zipf
}

// The loads that the page offers.
var (
	callerChoices   = []int{0, 16, 64, 128, 256}
	outsideChoices  = []int{0, 5, 50}
	productsChoices = []string{flash, zipf}
)

// check returns an error that says which field is wrong.
func (l load) check() error {
	switch {
	case !slices.Contains(callerChoices, l.Callers):
		return fmt.Errorf("callers is %d: choose one of %v", l.Callers, callerChoices)
	case !slices.Contains(outsideChoices, l.OutsideMs):
		return fmt.Errorf("outsideMs is %d: choose one of %v", l.OutsideMs, outsideChoices)
	case !slices.Contains(productsChoices, l.Products):
		return fmt.Errorf("products is %q: choose one of %q", l.Products, productsChoices)
	}
	return nil
}

func (l load) outside() time.Duration { return time.Duration(l.OutsideMs) * time.Millisecond }

// basket chooses the products of an order.
type basket struct {
	random  *rand.Rand
	popular *rand.Zipf
}

func newBasket(seed int) basket {
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	return basket{random, rand.NewZipf(random, zipfExponent, 1, products-1)}
}

// next returns the products of a caller's next order, in any order, each once.
func (b basket) next(l load, caller int) []int {
	switch {
	case l.Products == zipf:
		var chosen []int
		for len(chosen) < items {
			if p := int(b.popular.Uint64()); !slices.Contains(chosen, p) {
				chosen = append(chosen, p)
			}
		}
		return chosen
	case caller%2 == 0:
		return []int{0}
	}
	return []int{1 + b.random.IntN(products-1)}
}
