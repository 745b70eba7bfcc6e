package lockpipetest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	masterSet      = "mymaster"
	sentinelCount  = 3
	sentinelQuorum = 2
)

// slowDetection keeps sentinels from a failover that no test asked for: a busy machine may stop a
// server for a second. It also gives a planned failover enough time.
var slowDetection = []string{
	"SENTINEL", "SET", masterSet, "down-after-milliseconds", "30000", "failover-timeout", "20000",
}

// quickDetection lets the sentinels find out soon that the master is dead.
var quickDetection = []string{
	"SENTINEL", "SET", masterSet, "down-after-milliseconds", "500", "failover-timeout", "3000",
}

// shortPeriods lets sentinels check servers and each other often, while the master stays. So they
// soon know each other, and a server that came back soon is a replica.
var shortPeriods = []string{
	"SENTINEL", "DEBUG", "INFO-PERIOD", "100", "PUBLISH-PERIOD", "100",
	"ASK-PERIOD", "100", "TILT-PERIOD", "1000",
}

// usualPeriods has the usual periods, for a change of the master. A sentinel checks a new master
// once a second. If four PUBLISH-PERIODs are shorter than that, other sentinels turn the new master
// back into a replica first. And a replica that did not answer INFO for three INFO-PERIODs is not
// used.
var usualPeriods = []string{
	"SENTINEL", "DEBUG", "INFO-PERIOD", "10000", "PUBLISH-PERIOD", "2000",
	"ASK-PERIOD", "100", "TILT-PERIOD", "1000",
}

// startSentinels starts n sentinels that watch the master. They keep their files in dir.
func startSentinels(path, dir, master string, n int) (*Nodes, error) {
	sentinels := &Nodes{backend: backendReal, spawner: newSpawner()}
	return start(sentinels, n, sentinelLauncher(sentinels.spawner, path, dir, master))
}

// sentinelLauncher returns the launchFunc of sentinels. A sentinel rewrites its configuration, so
// it needs a file of its own, in a directory in which it can make more.
func sentinelLauncher(s *spawner, path, dir, master string) launchFunc {
	return func(addr string) (server, error) {
		config, err := sentinelConfig(addr, master)
		if err != nil {
			return nil, err
		}
		_, port, _ := strings.Cut(addr, ":")
		file := filepath.Join(dir, "sentinel-"+port+".conf")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			return nil, err
		}
		return launchChild(s, addr, exec.Command(path, file, "--sentinel"))
	}
}

// sentinelConfig returns the first configuration of a sentinel at addr.
func sentinelConfig(addr, master string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	masterHost, masterPort, err := net.SplitHostPort(master)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "port %s\nbind %s\nprotected-mode no\n", port, host)
	fmt.Fprintf(&b, "daemonize no\nloglevel warning\ndir %q\n", scratchDir())
	fmt.Fprintf(&b, "sentinel monitor %s %s %s %d\n",
		masterSet, masterHost, masterPort, sentinelQuorum)
	return b.String(), nil
}
