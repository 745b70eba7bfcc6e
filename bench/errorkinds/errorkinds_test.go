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
		"READONLY":           errors.New("READONLY You can't write against a read only replica."),
		"no answer in time":  errors.New("no answer within 50ms"),
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
	}}
	c.Add(failure)
	c.Add(fmt.Errorf("k: %w", failure))
	c.Add(&lockpipe.QuorumError{})
	c.Add(io.EOF)
	require.Equal(t, Counts{"BUSY": 2, "connection broken": 3, "split votes": 1}, c)
	for i := range 2 * maxKinds {
		c.Add(errors.New(strings.Repeat("x", i+1)))
	}
	require.Len(t, c, maxKinds+1)
	require.NotZero(t, c["other"])
}
