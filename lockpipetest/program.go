package lockpipetest

import (
	"fmt"
	"os"
	"os/exec"
)

const (
	// programVar names the environment variable that names another program than redis-server.
	programVar = "LOCKPIPE_REDIS_SERVER"
	// requireVar names the environment variable that makes a missing redis-server a failure, for
	// continuous integration.
	requireVar = "LOCKPIPE_REQUIRE_REDIS"
)

// findRedisServer returns the path of the program that all nodes and sentinels run.
func findRedisServer() (string, error) {
	if !programNamed() {
		return exec.LookPath("redis-server")
	}
	path, err := exec.LookPath(os.Getenv(programVar))
	if err != nil {
		return "", fmt.Errorf("the environment variable %s: %w", programVar, err)
	}
	return path, nil
}

// programNamed reports whether the user named a program. If it is missing, nothing replaces it.
func programNamed() bool { return os.Getenv(programVar) != "" }

// missingFailure returns why a test fails that did not find the program, or nil if the test may do
// without it.
func missingFailure(err error) error {
	required := os.Getenv(requireVar)
	switch {
	case programNamed():
		return fmt.Errorf("lockpipetest: %w", err)
	case required != "" && required != "0":
		return fmt.Errorf("lockpipetest: %s is set, but: %w", requireVar, err)
	default:
		return nil
	}
}
