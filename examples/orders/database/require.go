package database

import (
	"errors"
	"os"
	"testing"
)

// Require fails the test if err, which Start returned, is not nil. If err says that a program is
// missing, it skips the test instead, unless LOCKPIPE_REQUIRE_DATABASES is set (to anything but 0).
func Require(t testing.TB, err error) {
	t.Helper()
	required := os.Getenv("LOCKPIPE_REQUIRE_DATABASES")
	switch {
	case err == nil:
	case errors.Is(err, ErrMissing) && (required == "" || required == "0"):
		t.Skip("SKIPPED:", err)
	default:
		t.Fatal(err)
	}
}
