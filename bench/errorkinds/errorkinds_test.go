package errorkinds

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe"
)

// Goal: the kind of an error is the same on every node and at every time.
func TestCounts_Kinds(t *testing.T) {
	for text, err := range map[string]error{
		"read-only":          errors.New("READONLY You can't write against a read only replica."),
		"out of memory":      errors.New("OOM: command not allowed when used memory > 'maxmemory'."),
		"NOPERM":             errors.New("NOPERM: this user has no permissions"),
		"timeout":            errors.New("no answer within 50ms"),
		"quarantined":        errors.New("quarantined until 2026-11-27T05:00:00Z: restarted"),
		"key N of N is long": errors.New("key 1 of 17 is long"),
		"connection refused": fmt.Errorf("dial tcp 127.0.0.1:1: %w", syscall.ECONNREFUSED),
		"connection broken":  fmt.Errorf("read: %w", io.EOF),
		"no route":           &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("no route: 7")},
		"not sent":           errors.New("not sent: a later release or extension took its place"),
	} {
		require.Equal(t, text, kind(err))
	}
	var c Counts
	failure := &lockpipe.QuorumError{Nodes: []*lockpipe.NodeError{
		{Node: "a", Err: errors.New("BUSY a")},
		{Node: "b", Err: errors.New("BUSY b")},
		{Node: "c", Err: io.EOF},
		{Node: "d", Err: errors.New("answer not needed")}, // no failure of d
	}}
	c.Add(failure)
	c.Add(fmt.Errorf("k: %w", failure))
	c.Add(&lockpipe.QuorumError{})
	c.Add(io.EOF)
	require.Equal(t, Counts{"busy with a script": 2, "connection broken": 3, "split votes": 1}, c)
	for i := range 2 * maxKinds {
		c.Add(errors.New(strings.Repeat("x", i+1)))
	}
	require.Len(t, c, maxKinds+1)
	require.NotZero(t, c["other"])
}
