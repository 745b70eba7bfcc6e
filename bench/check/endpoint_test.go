package check

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Goal: URLs mean here what they mean to a Client.
func TestEndpoint_URLsMeanWhatTheyMeanToAClient(t *testing.T) {
	for text, want := range map[string]Endpoint{
		"redis://h:7001":       {network: "tcp", address: "h:7001"},
		"h:7001":               {network: "tcp", address: "h:7001"},
		"h":                    {network: "tcp", address: "h:6379"},
		"redis://[::1]:7001/3": {network: "tcp", address: "[::1]:7001", db: 3},
		"redis://u:p%40w@h:7001/3": {
			network: "tcp", address: "h:7001", username: "u",
			password: "p@w", db: 3,
		},
		"redis://:pw@h?db=4":          {network: "tcp", address: "h:6379", password: "pw", db: 4},
		"unix:///run/redis.sock?db=5": {network: "unix", address: "/run/redis.sock", db: 5},
		"unix://u:p@/run/redis.sock": {
			network: "unix", address: "/run/redis.sock", username: "u",
			password: "p",
		},
	} {
		got, err := ParseEndpoint(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}

	secure, err := ParseEndpoint("rediss://h:7001")
	require.NoError(t, err)
	require.Equal(t, "h", secure.tls.ServerName)
	require.False(t, secure.tls.InsecureSkipVerify)
	for _, waived := range []string{"rediss://h?skip_verify", "rediss://h?skip_verify=true"} {
		secure, err = ParseEndpoint(waived)
		require.NoError(t, err)
		require.True(t, secure.tls.InsecureSkipVerify, waived)
	}
}
