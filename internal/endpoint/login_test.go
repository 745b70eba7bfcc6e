package endpoint

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// The goal: what is before the arguments is kept, and an error without them is what it was.
func TestPasswords_AreCutOutOfAnError(t *testing.T) {
	same := errors.New("WRONGPASS invalid username-password pair or user is disabled.")
	require.Same(t, same, WithoutPassword(same, "secret"))
	require.Same(t, same, WithoutPassword(same, ""))
	require.EqualError(t, WithoutPassword(errors.New("ERR unknown command 'AUTH', with args "+
		"beginning with: 'u' 'sec"), "secret"), "ERR unknown command 'AUTH'")
	require.EqualError(t, WithoutPassword(errors.New("ERR secret is no command"), "secret"),
		"ERR ... is no command")
}

// The goal: what a server repeats of a password is hidden, and other errors are what they were.
func TestLogin_PasswordsAreHidden(t *testing.T) {
	e := &Endpoint{Password: "secret", Sentinels: []Endpoint{{Password: "watcher"}}}
	l := NewLogins(e, func(context.Context, string) (string, string, error) {
		return "u", "s3cret", nil
	}, nil)
	require.NoError(t, l.Refresh(t.Context(), ForInspection))
	for text, hidden := range map[string]string{
		"ERR s3cret is no command": "ERR ... is no command",
		"ERR secret is none":       "ERR ... is none",
		"ERR watcher":              "ERR ...",
	} {
		require.EqualError(t, l.Hide(errors.New(text)), hidden)
	}
	same := errors.New("OOM")
	require.Same(t, same, l.Hide(same))
	require.Same(t, same, (*Logins)(nil).Hide(same))
}
