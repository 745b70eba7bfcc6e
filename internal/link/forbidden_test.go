package link

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// The goal: what a probe shows names the command that the user may not use, or that the server does
// not know. Otherwise it is the error of an acquire, and keys that the user may not use are none.
func TestProbe_NamesTheCommand(t *testing.T) {
	for says, test := range map[string]struct {
		failed []string
		err    error
	}{
		"its user may not use PEXPIRE: ERR The user": {failed: []string{
			"SET OOM command not allowed", "PEXPIRE ERR The user executing the script can't run " +
				"this command or subcommand",
		}},
		"its user may not use EVALSHA: NOPERM": {
			err: errors.New("NOPERM this user has no permissions to run the 'evalsha' command"),
		},
		"it can't be a node, because it does not know EVALSHA: ERR unknown": {
			err: errors.New("ERR unknown command 'EVALSHA'"),
		},
		"it can't be a node, because it does not know SET: ERR Unknown": {
			failed: []string{"SET ERR Unknown Redis command called from script"},
		},
		"OOM command": {failed: []string{"SET OOM command not allowed", "DEL MISCONF x"}},
		"NOPERM this user has no permissions to access one of the keys": {err: errors.New(
			"NOPERM this user has no permissions to access one of the keys used as arguments")},
	} {
		require.ErrorContains(t, probed(test.failed, test.err), says)
	}
	require.NoError(t, probed(nil, nil))
	require.NoError(t, probed([]string{"DEL MISCONF x"}, nil))
}
