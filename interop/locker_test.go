package interop

import (
	"context"
	"errors"
	"testing"
	"time"
)

const (
	// prefix is lockpipe's Config.Prefix. The other libraries have no prefix and lock the whole
	// name.
	prefix = "shop:"
	// longTTL outlasts every test. Tests wait for shortTTL; half of it is long enough for an
	// attempt on a busy machine.
	longTTL  = time.Minute
	shortTTL = 2 * time.Second
	// testTimeout bounds a whole test.
	testTimeout = 2 * time.Minute
)

// errTaken is the error of a locker if another holder has the key, in place of the library's own.
var errTaken = errors.New("taken by another")

// locker is a lock library as one caller uses it. Keys are the full names on the masters.
type locker interface {
	// try makes one attempt; wait retries until key is held or ctx ends.
	try(ctx context.Context, key string, ttl time.Duration) (*lock, error)
	wait(ctx context.Context, key string, ttl time.Duration) (*lock, error)
}

// lock is a lock that a locker holds.
type lock struct {
	value string    // of the key on the masters: see isValue
	until time.Time // when it ends if it is not extended
	// extend extends it by its first TTL, from now; release releases it. They return an error if
	// the library did not do so.
	extend, release func(ctx context.Context) error
}

// library opens lockers on masters; they are closed at the end of the test.
type library struct {
	name string
	open func(t *testing.T, urls []string) locker
}

var (
	// There are two of ours, because locks with fences are acquired by a script of their own.
	ours = []library{
		{"lockpipe", openLockpipe},
		{"lockpipe with fencing", openLockpipeFencing},
	}
	theirs = []library{
		{"redsync over go-redis", openRedsyncGoredis},
		{"redsync over rueidis", openRedsyncRueidis},
		{"redlock 4", openRedlock4},
		{"redlock 5", openRedlock5},
	}
)
