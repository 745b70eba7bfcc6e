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

// steady keeps sentinels from a failover that nobody asked for: a busy machine may stop a server
// for a second. It also gives a planned failover enough time.
var steady = []string{
	"SENTINEL", "SET", masterSet, "down-after-milliseconds", "30000", "failover-timeout", "20000",
}

// hasty lets the sentinels find out soon that the master is dead.
var hasty = []string{
	"SENTINEL", "SET", masterSet, "down-after-milliseconds", "500", "failover-timeout", "3000",
}

// hurried makes sentinels look at servers and at each other often, while the master stays. So they
// know each other soon, and a server that came back is a replica soon.
var hurried = []string{
	"SENTINEL", "DEBUG", "INFO-PERIOD", "100", "PUBLISH-PERIOD", "100",
	"ASK-PERIOD", "100", "TILT-PERIOD", "1000",
}

// unhurried has the usual periods, for a change of the master. A sentinel looks at a new master
// once a second. If four PUBLISH-PERIODs are shorter than that, others turn the new master back
// into a replica first. And a replica that did not answer INFO for three INFO-PERIODs is not used.
var unhurried = []string{
	"SENTINEL", "DEBUG", "INFO-PERIOD", "10000", "PUBLISH-PERIOD", "2000",
	"ASK-PERIOD", "100", "TILT-PERIOD", "1000",
}

// startSentinels starts n sentinels that watch the master. They keep their files in dir.
func startSentinels(path, dir, master string, n int) (*Nodes, error) {
	sentinels := &Nodes{backend: backendReal, spawner: newSpawner()}
	return start(sentinels, n, bootSentinel(sentinels.spawner, path, dir, master))
}

// bootSentinel is bootRedis for a sentinel. A sentinel rewrites its configuration, so it needs a
// file of its own, in a directory where it can make more.
func bootSentinel(s *spawner, path, dir, master string) bootFunc {
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
		return bootChild(s, addr, exec.Command(path, file, "--sentinel"))
	}
}

// sentinelConfig is the first configuration of a sentinel at addr.
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
