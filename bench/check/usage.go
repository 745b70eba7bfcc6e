package check

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// Servers watches how much CPU time some nodes use. The zero value watches none.
type Servers struct {
	nodes  []Endpoint
	before []time.Duration
}

// WatchServers begins to watch nodes. If one of them does not report its CPU time, it watches none.
func WatchServers(ctx context.Context, nodes []Endpoint) Servers {
	before, err := serverCPUs(ctx, nodes)
	if err != nil {
		return Servers{}
	}
	return Servers{nodes: nodes, before: before}
}

// Busiest returns the CPU time that one of the nodes has used since WatchServers: the one that has
// used the most. It is 0 if that is not known.
func (s Servers) Busiest(ctx context.Context) (most time.Duration) {
	after, err := serverCPUs(ctx, s.nodes)
	if err != nil {
		return 0
	}
	for i := range after {
		most = max(most, after[i]-s.before[i])
	}
	return most
}

// serverCPUs returns the CPU time that each node's process has used since it began, in their order.
// If one does not report it, that is an error.
func serverCPUs(ctx context.Context, nodes []Endpoint) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	used, errs := make([]time.Duration, len(nodes)), make([]error, len(nodes))
	var asking sync.WaitGroup
	for i, node := range nodes {
		asking.Go(func() { used[i], errs[i] = serverCPU(ctx, node) })
	}
	asking.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("CPU time of %s: %w", nodes[i].Name(), err)
		}
	}
	return used, nil
}

func serverCPU(ctx context.Context, node Endpoint) (time.Duration, error) {
	c, err := dial(ctx, node)
	if err != nil {
		return 0, err
	}
	defer c.close()
	reply, err := c.do("INFO", "cpu")
	if err != nil {
		return 0, err
	}
	fields := resp.ParseInfo(fmt.Sprint(reply))
	sum := 0.0
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		seconds, err := strconv.ParseFloat(fields[name], 64)
		if err != nil {
			return 0, fmt.Errorf("%s of INFO: %w", name, err)
		}
		sum += seconds
	}
	return time.Duration(sum * float64(time.Second)), nil
}
