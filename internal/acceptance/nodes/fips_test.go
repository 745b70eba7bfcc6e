package nodes

import (
	"crypto/fips140"
	"os"
	"os/exec"
	"testing"

	"github.com/lockpipe/lockpipe/lockpipetest/fake"
	"github.com/stretchr/testify/require"
)

// The goal: a program that may use approved cryptography alone can import the package, and takes
// and releases a lock. The test is that program too, as a second process.
func TestFIPS_AProgramInFIPSModeTakesLocks(t *testing.T) {
	t.Parallel()
	const mode = "fips140=only"
	if os.Getenv("GODEBUG") != mode {
		program := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		program.Env = append(os.Environ(), "GODEBUG="+mode)
		output, err := program.CombinedOutput()
		require.NoError(t, err, "%s", output)
		require.Contains(t, string(output), "--- PASS: "+t.Name())
		return
	}
	require.True(t, fips140.Enabled())
	lease, err := fake.NewClient(t).Acquire(t.Context(), "k")
	require.NoError(t, err)
	require.NoError(t, lease.Release(t.Context()))
}
