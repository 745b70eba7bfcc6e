package interop

import (
	"context"
	"errors"
	"testing"
	"time"
)

const (
	// prefix is lockpipe's Config.Prefix; the others know nothing of prefixes and lock the whole
	// name.
	prefix = "shop:"
	// longTTL outlasts every test. shortTTL is waited for; half of it is time enough for an attempt
	// on a busy machine.
	longTTL  = time.Minute
	shortTTL = 2 * time.Second
	// patience bounds a whole test.
	patience = 2 * time.Minute
)

// errTaken is what a locker says where another holds the key, whatever its library calls that.
var errTaken = errors.New("taken by another")

// locker is a lock library as one caller uses it. A key is named as on the masters.
type locker interface {
	// try makes one attempt; wait goes on until key is held or ctx ends.
	try(ctx context.Context, key string, ttl time.Duration) (*lock, error)
	wait(ctx context.Context, key string, ttl time.Duration) (*lock, error)
}

// lock is what a locker holds.
type lock struct {
	value string    // of the key on the masters
	until time.Time // how long it is the holder's, if it is not extended
	// extend gives it the TTL that it was taken for, from now; release gives it back. An error says
	// that the library did not do it.
	extend, release func(ctx context.Context) error
}

// library opens lockers on masters; they are closed at the end of the test.
type library struct {
	name string
	open func(t *testing.T, urls []string) locker
}

var (
	// ours are two, because locks with fences are taken by a script of their own.
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
