package orders

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe"
)

// Reserved has a row for each piece, as Pieces has. The cart reserves a piece of each product for
// some minutes, by a lease that it keeps. The customer pays meanwhile, and neither a lease nor a
// connection is held. Then another process adopts the pieces and sells them. If no payment comes,
// or a process dies, the pieces are free again when the time is over, and nobody has to look for
// them. An order is refused while others have reserved the last pieces. It needs PostgreSQL.
type Reserved struct {
	Pieces
	Cart     *lockpipe.Client // of the process with the cart
	Payments *lockpipe.Client // of the process that hears of payments
	Refund   Pay
}

const (
	// reservedFor is how long a customer has to pay.
	reservedFor = 10 * time.Minute
	// maxCandidates is how many pieces of a product an order looks at. If all of them are reserved,
	// the order fails as if the product was sold out.
	maxCandidates = 1000
	// pieceKey begins the names of the locks of pieces.
	pieceKey = "piece:"
)

// errSoldMeanwhile means that a piece was sold between the look and the lock.
var errSoldMeanwhile = errors.New("sold meanwhile")

// Place implements Shop. A real shop has three requests instead. The handles are in the customer's
// session from the first to the last.
func (s Reserved) Place(ctx context.Context, o Order) error {
	handles, err := s.reserve(ctx, o)
	if err != nil {
		return err
	}
	if err := s.Pay(ctx, o); err != nil {
		s.giveBack(ctx, handles)
		return err
	}
	err = s.sell(ctx, o, handles)
	if err != nil {
		if refundErr := s.Refund(context.WithoutCancel(ctx), o); refundErr != nil {
			err = errors.Join(err, refundErr)
		}
	}
	return err
}

// reserve keeps a piece of each product for the customer, and returns the handles. Few pieces are
// reserved at a time, so an order tries one of each at random first. If one of these is reserved,
// the order looks for pieces that are free.
func (s Reserved) reserve(ctx context.Context, o Order) ([]string, error) {
	for take, candidates := s.takeAll, 1; ; {
		handles, err := s.tryReserve(ctx, o, take, candidates)
		switch {
		case errors.Is(err, lockpipe.ErrHeld) && candidates == 1:
			take, candidates = s.takeFree, maxCandidates
		case errors.Is(err, lockpipe.ErrHeld):
			return nil, ErrSoldOut
		case !errors.Is(err, errSoldMeanwhile):
			return handles, err
		}
	}
}

// tryReserve is one try of reserve, which looks at so many pieces of each product.
func (s Reserved) tryReserve(ctx context.Context, o Order, take taker, candidates int) (
	handles []string, err error,
) {
	keys, err := s.unsold(ctx, o, candidates)
	if err != nil {
		return nil, err
	}
	leases, err := take(ctx, keys)
	defer func() {
		if err != nil {
			_ = s.Cart.ReleaseAll(context.WithoutCancel(ctx), leases...)
			s.giveBack(ctx, handles)
		}
	}()
	if err != nil {
		return nil, err
	}
	if free, err := s.areUnsold(ctx, leases); err != nil || !free {
		return nil, cmp.Or(err, errSoldMeanwhile)
	}
	for _, lease := range leases {
		handles = append(handles, lease.Handle())
		if err := retried(ctx, func() error { return lease.Keep(ctx, reservedFor) }); err != nil {
			return handles, err
		}
	}
	return handles, nil
}

// taker takes a piece of each product, given the keys of some pieces of each. It may return leases
// with an error.
type taker func(ctx context.Context, keys [][]string) ([]*lockpipe.Lease, error)

// takeAll takes the first piece of each product, under one lease.
func (s Reserved) takeAll(ctx context.Context, keys [][]string) (leases []*lockpipe.Lease,
	err error,
) {
	var first []string
	for _, k := range keys {
		first = append(first, k[0])
	}
	err = retried(ctx, func() error {
		lease, err := s.Cart.TryAcquireAll(ctx, first)
		if err == nil {
			leases = append(leases, lease)
		}
		return err
	})
	return leases, err
}

// takeFree takes any piece of each product, under a lease for each. With lockpipe.WithCount it
// would take more.
func (s Reserved) takeFree(ctx context.Context, keys [][]string) (leases []*lockpipe.Lease,
	err error,
) {
	for _, k := range keys {
		if err := retried(ctx, func() error {
			lease, err := s.Cart.TryAcquireAny(ctx, k)
			if err == nil {
				leases = append(leases, lease)
			}
			return err
		}); err != nil {
			return leases, err
		}
	}
	return leases, nil
}

// sell takes the pieces over and sells them, all or none. The statement has a condition too, in
// case restarts of nodes have freed the pieces: see docs/reservations.md.
func (s Reserved) sell(ctx context.Context, o Order, handles []string) error {
	var leases []*lockpipe.Lease
	defer func() { _ = s.Payments.ReleaseAll(context.WithoutCancel(ctx), leases...) }()
	for _, handle := range handles {
		var lease *lockpipe.Lease
		if err := retried(ctx, func() (err error) {
			lease, err = s.Payments.Adopt(ctx, handle)
			return err
		}); err != nil {
			return err
		}
		leases = append(leases, lease)
	}
	pieces := piecesOf(leases)
	sold, err := changed(s.Store.exec(ctx, s.Store.db, "WITH free AS (SELECT id FROM pieces WHERE"+
		" id = ANY (?::bigint[]) AND order_id IS NULL FOR UPDATE), taken AS (UPDATE pieces SET"+
		" order_id = ?::bigint WHERE id IN (SELECT id FROM free) AND (SELECT COUNT(*) FROM free) ="+
		" ?::bigint RETURNING order_id, product)"+
		" INSERT INTO items (order_id, product) SELECT order_id, product FROM taken",
		pieces, o.ID, len(pieces)))
	if err == nil && !sold {
		err = ErrSoldOut
	}
	return err
}

// retried repeats a call while no quorum of nodes answers, until ctx ends. That nodes restart is no
// reason to refuse an order that is paid.
func retried(ctx context.Context, call func() error) error {
	for {
		err := call()
		if !errors.Is(err, lockpipe.ErrNoQuorum) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// giveBack frees what was reserved. What it can't free is free when the time is over, so the
// customer need not know the error.
func (s Reserved) giveBack(ctx context.Context, handles []string) {
	ctx = context.WithoutCancel(ctx)
	for _, handle := range handles {
		if lease, err := s.Payments.Adopt(ctx, handle); err == nil {
			_ = lease.Release(ctx)
		}
	}
}

// unsold returns for each product the keys of pieces that are not sold, so many at most: from a
// piece at random on, or if all are wanted, the first ones.
func (s Reserved) unsold(ctx context.Context, o Order, count int) ([][]string, error) {
	first := "MIN(id)"
	if count < maxCandidates {
		first = "MIN(id) + (RANDOM() * (MAX(id) - MIN(id)))::bigint"
	}
	const unsold = " FROM pieces WHERE product = wanted.id AND order_id IS NULL"
	query, args := s.Store.bind("SELECT piece.product, piece.id FROM unnest(?::int[]) AS wanted (id),"+
		" LATERAL (SELECT product, id"+unsold+" AND id >= (SELECT "+first+unsold+")"+
		" ORDER BY id LIMIT ?::int) AS piece", o.Products, count)
	rows, err := s.Store.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err reports it
	found := make(map[int][]string)
	for rows.Next() {
		var product, piece int
		if err := rows.Scan(&product, &piece); err != nil {
			return nil, err
		}
		found[product] = append(found[product], pieceKey+strconv.Itoa(piece))
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if len(found) < len(o.Products) {
		return nil, ErrSoldOut
	}
	return slices.Collect(maps.Values(found)), nil
}

// areUnsold reports whether no piece of the leases is sold: a piece may have been sold between the
// look and the lock.
func (s Reserved) areUnsold(ctx context.Context, leases []*lockpipe.Lease) (bool, error) {
	pieces := piecesOf(leases)
	found, err := s.Store.ids(ctx, s.Store.db, "SELECT id FROM pieces WHERE id = ANY (?::bigint[])"+
		" AND order_id IS NULL", pieces)
	return len(found) == len(pieces), err
}

// piecesOf returns the pieces of the leases, from their keys.
func piecesOf(leases []*lockpipe.Lease) (pieces []int) {
	for _, lease := range leases {
		for _, key := range lease.Keys() {
			piece, _ := strconv.Atoi(strings.TrimPrefix(key, pieceKey)) // which unsold has made
			pieces = append(pieces, piece)
		}
	}
	return pieces
}
