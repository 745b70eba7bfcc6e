package check

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/internal/resp/resptest"
)

// Goal: URLs mean here what they mean to a Client, also those that it refuses.
func TestEndpoint_URLsMeanWhatTheyMeanToAClient(t *testing.T) {
	for text, want := range map[string]string{
		"H":                           "h:6379",
		"redis://[::1]:7001/3":        "[::1]:7001",
		"unix://u:p@/run/redis.sock":  "/run/redis.sock",
		"redis://s:1?master_set=main": "main@s:1",
		"valkey://h":                  "h:6379",
	} {
		require.Equal(t, want, endpointOf(t, text).Name())
	}
	for _, text := range []string{"http://h", "redis://h?read_timeout=1s", "redis://h:0"} {
		_, err := ParseEndpoint(text)
		require.Error(t, err, text)
	}
}

// Goal: a sentinel is not taken for its master. It gets no command, and no password.
func TestEndpoint_ChecksLeaveSentinelsAlone(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	seen := fakeNode(listener)
	url := "redis://:pw@" + listener.Addr().String() + "?master_set=main"
	_, err = LeftoverKeys(t.Context(), []Endpoint{endpointOf(t, url)}, "run:")
	require.ErrorContains(t, err, "main@"+listener.Addr().String())
	require.ErrorContains(t, err, "give the master's own URL")
	require.NoError(t, listener.Close())
	select {
	case commands := <-seen:
		t.Fatal(commands)
	default:
	}
}

// Goal: a node that repeats the password in its error does not make a check show it.
func TestEndpoint_ErrorsOfANodeShowNoPassword(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		resptest.Serve(conn, func(words []string) string {
			return "-WRONGPASS not " + words[len(words)-1] + "\r\n"
		})
	}()
	node := endpointOf(t, "redis://me:s3cret@"+listener.Addr().String())
	_, err = countKeys(t.Context(), node, "run:")
	require.ErrorContains(t, err, "AUTH: WRONGPASS not")
	require.NotContains(t, err.Error(), "s3cret")
}
