package main

import (
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/bench/process"
)

// A server's CPU time is that of the kernel for it and its own, without that of its children.
func TestUsage_OfAServer(t *testing.T) {
	info := "# CPU\r\nused_cpu_sys:1.250000\r\nused_cpu_user:2.500000\r\nused_cpu_sys_children:9.0\r\nused_cpu_user_children:9.0\r\n"
	if got, err := usedCPU(info); err != nil || got != 3750*time.Millisecond {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := usedCPU("# CPU\r\nused_cpu_sys:1.25\r\n"); err == nil {
		t.Error("half of it was taken for all")
	}
}

// What a window used is a difference; if the servers did not report theirs at both ends it is
// unknown, which is zero.
func TestUsage_OfAWindow(t *testing.T) {
	from := usage{
		at: time.Second, client: process.Usage{CPU: time.Second, Allocs: 100},
		servers: 5 * time.Second, known: true,
	}
	to := usage{
		at: 3 * time.Second, client: process.Usage{CPU: 2 * time.Second, Allocs: 1100},
		servers: 8 * time.Second, known: true,
	}
	r := round{Locks: 200}
	r.setUsage(from, to)
	if r.Window != 2*time.Second || r.clientCores() != 0.5 || r.serverCores() != 1.5 ||
		r.mallocsPerLock() != 5 || r.cpuPerLock() != 5000 {
		t.Errorf("%+v", r)
	}
	to.known = false
	r = round{}
	if r.setUsage(from, to); r.ServerCPU != 0 || r.mallocsPerLock() != 0 {
		t.Errorf("%+v", r)
	}
}
