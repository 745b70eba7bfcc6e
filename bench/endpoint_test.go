package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// URLs mean here what they mean to a Client.
func TestParseEndpoint(t *testing.T) {
	for text, want := range map[string]endpoint{
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
		got, err := parseEndpoint(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}

	secure, err := parseEndpoint("rediss://h:7001")
	require.NoError(t, err)
	require.Equal(t, "h", secure.tls.ServerName)
	require.False(t, secure.tls.InsecureSkipVerify)
	for _, waived := range []string{"rediss://h?skip_verify", "rediss://h?skip_verify=true"} {
		secure, err = parseEndpoint(waived)
		require.NoError(t, err)
		require.True(t, secure.tls.InsecureSkipVerify, waived)
	}
}

// What cannot be used is refused, and no error shows a password, not even where the URL is
// malformed.
func TestBadNodesNeverShowTheirPassword(t *testing.T) {
	for _, text := range []string{
		"", "redis://", "http://user:secret@h", "redis://user:secret@h:port", "redis://:sec/ret@h",
		"unix://user:secret@",
		"redis://user:secret@h/first", "redis://user:secret@h/-1", "redis://user:12/secret@h",
		"%zz:secret@h",
	} {
		_, err := parseNodes("good:1," + text)
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), "secret", text)
		require.NotContains(t, err.Error(), "sec/ret", text)
		require.NotContains(t, err.Error(), "user", text)
	}
}

// A report names external nodes by address only.
func TestNodesAreDescribedWithoutPasswords(t *testing.T) {
	plan, err := parseNodes("redis://user:secret@a:1, b:2,unix:///c.sock")
	require.NoError(t, err)
	require.Equal(t, "a:1,b:2,/c.sock", plan.describe())
	for _, text := range []string{"local:5", "inprocess:3"} {
		plan, err := parseNodes(text)
		require.NoError(t, err)
		require.Equal(t, text, plan.describe())
	}
}
