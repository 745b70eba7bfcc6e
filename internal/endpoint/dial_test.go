package endpoint

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: a name service that hangs, and a server that speaks no TLS, are told apart in the error
// of a connect that was not made in time.
func TestOpen_SaysWhichStepTookLong(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, silent.Close()) }()
	standard := net.DefaultResolver
	defer func() { net.DefaultResolver = standard }()
	hangs := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, errors.New("no answer")
	}
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: hangs}
	for url, says := range map[string]string{
		"redis://db.invalid": "not connected within 50ms: the look-up is not over after ",
		"rediss://" + silent.Addr().String(): "write redis:// in the URL (not connected within " +
			"50ms: ",
	} {
		e, err := Parse(url, nil, 50*time.Millisecond)
		require.NoError(t, err)
		_, err = NewDialer(e, nil, nil).Open(t.Context())
		require.ErrorContains(t, err, says)
		if e.TLS != nil {
			require.ErrorContains(t, err, "TLS is not over after ")
		}
		require.NotErrorIs(t, err, context.DeadlineExceeded)
	}
}
