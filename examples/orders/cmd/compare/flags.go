package main

import (
	"errors"
	"flag"
	"fmt"
	"time"
)

// flags makes the flags of a load.
func (l *load) flags(flags *flag.FlagSet) {
	l.warmup = time.Second
	flags.IntVar(&l.hot, "hot", 128, "callers who order the hot product")
	flags.IntVar(&l.cold, "cold", 128, "callers who order others")
	flags.IntVar(&l.baskets.products, "products", 10_000, "products in the shop")
	flags.IntVar(&l.baskets.items, "items", 3, "products of an order")
	flags.StringVar(&l.baskets.kind, "baskets", bundle, "what hot orders have: bundle (the same "+
		"products), mixed (the hot product and random others) or flash (only the hot product); or "+
		"zipf: all orders take products by popularity")
	flags.BoolFunc("mixed", "the same as -baskets mixed", func(string) error {
		l.baskets.kind = mixed
		return nil
	})
	flags.DurationVar(&l.duration, "d", 8*time.Second, "how long each way is measured")
	flags.Float64Var((*float64)(&l.perSecond), "rate", 0, "orders a second that become due, "+
		"however long the earlier ones take; 0: -hot and -cold callers place one after another")
	flags.Float64Var(&l.baskets.hotShare, "hotshare", 0.1, "with -rate: the share of hot orders")
	flags.IntVar(&l.callers, "callers", 256, "with -rate: orders in the shop at once, at most")
	flags.IntVar(&l.queue, "queue", 1024, "with -rate: orders that wait for the shop, at most; "+
		"others are dropped")
	flags.DurationVar(&l.patience, "patience", 2*time.Second, "with -rate: an order that has "+
		"waited that long for the shop is dropped")
}

// check returns what is wrong with the flags.
func (l *load) check() error {
	b := l.baskets
	switch {
	case b.kind != bundle && b.kind != mixed && b.kind != flash && b.kind != zipf:
		return errors.New("-baskets: want bundle, mixed, flash or zipf")
	case b.items < 1 || b.products <= 2*b.items:
		return errors.New("it needs an item, and more products than two orders have")
	case l.hot < 0 || l.cold < 0 || l.hot+l.cold < 1 || l.callers < 1:
		return errors.New("it needs a caller")
	case l.perSecond < 0 || l.queue < 0 || b.hotShare < 0 || b.hotShare > 1:
		return errors.New("-rate and -queue can't be below 0, -hotshare is between 0 and 1")
	case l.duration <= 0:
		return errors.New("-d must be above 0")
	}
	return nil
}

// String returns the load as the head of a table names it.
func (l load) String() string {
	who := fmt.Sprintf("%d callers on the hot product, %d on others", l.hot, l.cold)
	if l.perSecond > 0 {
		who = fmt.Sprintf("%v orders/s on a timetable", float64(l.perSecond))
		if l.baskets.kind != zipf {
			who += fmt.Sprintf(", %.0f %% of them hot", 100*l.baskets.hotShare)
		}
	}
	return fmt.Sprintf("%s; %s baskets of %d from %d products", who, l.baskets.kind,
		l.baskets.items, l.baskets.products)
}
