package main

import (
	"context"
	"strconv"
	"time"

	"github.com/lockpipe/lockpipe/bench/process"
	"github.com/lockpipe/lockpipe/internal/resp"
)

// usage is what has been used since the processes began, until one moment.
type usage struct {
	at     time.Duration // since epoch
	client process.Usage // of this process
	// servers is the CPU time of all nodes together, if known. It is read a moment after the rest,
	// with the same delay at both ends of a window.
	servers time.Duration
	known   bool
}

func usageNow() usage { return usage{at: time.Since(epoch), client: process.UsageNow()} }

// setUsage enters what was used between two moments.
func (r *round) setUsage(from, to usage) {
	used := to.client.Since(from.client)
	r.Window, r.CPU, r.Mallocs = to.at-from.at, used.CPU, used.Allocs
	if from.known && to.known {
		r.ServerCPU = to.servers - from.servers
	}
}

// cpu returns the CPU time that all nodes together have used, and false if one of them does not
// report it. Without nodes it is unknown.
func (n *nodes) cpu(ctx context.Context) (time.Duration, bool) {
	if n == nil {
		return 0, false
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	used := make([]time.Duration, len(n.admin))
	err := concurrently(len(n.admin), func(i int) (err error) {
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
