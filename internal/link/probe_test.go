package link

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// The goal: the errors after which a connection is of no use are recognised, also inside a script,
// and others are not.
func TestProbe_ErrorsOfUselessServers(t *testing.T) {
	for text, want := range map[string]bool{
		"READONLY You can't write against a read only replica.": true,
		"READONLY You can't write against a read only replica. " +
			"script: f00, on @user_script:9.": true,
		"LOADING Redis is loading the dataset in memory": true,
		"LOADING": true,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.": true,
		"ERR Error running script (call to f_f00): @user_script:9: @user_script: 9: -READONLY " +
			"You can't write against a read only replica.": true,
		"OOM command not allowed when used memory > 'maxmemory'.": false,
		"NOPERM no permissions to access the key READONLY":        false,
		"READONLYISH":                          false,
		"BUSY Redis is busy running a script.": false,
	} {
		require.Equal(t, want, IsUseless(errors.New(text)), text)
	}
}
