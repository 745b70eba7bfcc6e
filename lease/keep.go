package lease

import (
	"context"
	"time"
)

// BeginKeep begins an extension for ttl when no other one is under way. Its confirmation ends the
// lease with ErrKept. If it is not confirmed, the lease lasts as before. MaxHold does not bound
// ttl, because nobody holds the lease then. An error is ctx's, or how the lease has ended.
func (t *Term) BeginKeep(ctx context.Context, ttl time.Duration) (Extension, error) {
	if err := t.lockExtension(ctx); err != nil {
		return Extension{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return Extension{
		Owner: t.owner, TTL: ttl, SendBefore: t.manager.timeOf(t.until), term: t, keeps: true,
	}, nil
}
