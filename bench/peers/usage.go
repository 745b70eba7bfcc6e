package main

import (
	"context"
	"runtime"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// usage is what has been used since the processes began, up to one moment.
type usage struct {
	at      time.Duration // since epoch
	client  time.Duration // CPU time of this process
	mallocs uint64        // of this process
	// servers is the CPU time of all nodes together, where known. It is looked at a moment after
	// the rest, and as late at the end of a window as at its begin.
	servers time.Duration
	known   bool
}

func usageNow() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{at: time.Since(epoch), client: processCPU(), mallocs: m.Mallocs}
}

// spent enters what was used between two moments into a round.
func (r *round) spent(from, to usage) {
	r.Window = to.at - from.at
	r.CPU = to.client - from.client
	r.Mallocs = to.mallocs - from.mallocs
	if from.known && to.known {
		r.ServerCPU = to.servers - from.servers
	}
}

// cpu is the CPU time that all nodes together have used, and false where one of them does not say.
// Without nodes it is unknown.
func (n *nodes) cpu(ctx context.Context) (time.Duration, bool) {
	if n == nil {
		return 0, false
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	used := make([]time.Duration, len(n.admin))
	err := together(len(n.admin), func(i int) (err error) {
		c := n.admin[i]
		info, err := c.Do(ctx, c.B().Info().Section("cpu").Build()).ToString()
		if err == nil {
			used[i], err = usedCPU(info)
		}
		return err
	})
	var sum time.Duration
	for _, u := range used {
		sum += u
	}
	return sum, err == nil
}

// usedCPU reads the server's CPU time from its INFO.
func usedCPU(info string) (time.Duration, error) {
	var sum float64
	fields := resp.ParseInfo(info)
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		seconds, err := strconv.ParseFloat(fields[name], 64)
		if err != nil {
			return 0, err
		}
		sum += seconds
	}
	return time.Duration(sum * float64(time.Second)), nil
}
