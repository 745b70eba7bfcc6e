package program

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockpipe/lockpipe/adapters/rueidislock"
)

// stock is usual code over rueidislock. program/before has it with rueidislock, program/after with
// the adapter.
type stock struct {
	locker rueidislock.Locker
	left   int
}

// once does its work unless another process does it already.
func (s *stock) once(ctx context.Context, key string) (done bool, err error) {
	ctx, cancel, err := s.locker.TryWithContext(ctx, key)
	if errors.Is(err, rueidislock.ErrNotLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer cancel()
	return true, s.work(ctx)
}

// take waits for its turn.
func (s *stock) take(ctx context.Context, sku string) error {
	ctx, cancel, err := s.locker.WithContext(ctx, "stock:"+sku)
	if errors.Is(err, rueidislock.ErrLockerClosed) {
		return fmt.Errorf("shutting down: %w", err)
	}
	if err != nil {
		return err
	}
	defer cancel()
	return s.work(ctx)
}

func (s *stock) work(ctx context.Context) error {
	s.left--
	return ctx.Err()
}

func (s *stock) close() { s.locker.Close() }
