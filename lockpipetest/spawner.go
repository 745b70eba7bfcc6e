package lockpipetest

import (
	"os/exec"
	"runtime"
)

// spawner starts child processes from one OS thread that lives until close.
//
// Linux sends a child its parent-death signal when the THREAD that created it ends, not when the
// process does. The Go runtime ends a thread when a goroutine returns without unlocking it. So a
// child that is started on the caller's thread may be killed at any moment. Therefore one goroutine
// locks a thread and creates all children there. It runs until the children are gone, and then
// unlocks the thread. Each Nodes has a goroutine of its own, so that none is left after Close.
type spawner struct {
	jobs chan func()
	done chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{jobs: make(chan func()), done: make(chan struct{})}
	go s.run()
	return s
}

func (s *spawner) run() {
	defer close(s.done)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for job := range s.jobs {
		job()
	}
}

// start runs cmd.Start on the spawner's thread. It must not be called after close.
func (s *spawner) start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	s.jobs <- func() { result <- cmd.Start() }
	return <-result
}

// close ends the goroutine. Children that are still alive may die with it.
func (s *spawner) close() {
	close(s.jobs)
	<-s.done
}
