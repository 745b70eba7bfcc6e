package bench

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/lockpipetest"
)

const (
	// busyWithin is how long a script may take to be noticed as one that never ends, and busyLook
	// the time between two looks.
	busyWithin = 5 * time.Second
	busyLook   = 5 * time.Millisecond
)

// victim is one node that faults happen to. It is owned by one goroutine.
type victim struct {
	nodes  *lockpipetest.Nodes
	number int // from 0
	routes *routes
	age    func() // lets a copy of the keys get older
	dead   bool
}

// strike begins a fault. What it returns ends it, and is to be called also after an error; nil
// where there is nothing to end.
func (v *victim) strike(a action) (mend func() error, err error) {
	switch a {
	case freeze:
		return func() error { return v.nodes.Thaw(v.number) }, v.nodes.Freeze(v.number)
	case kill:
		v.dead = true
		return nil, v.nodes.Kill(v.number)
	case restart:
		return nil, v.restart()
	case flush:
		return nil, v.nodes.Flush(v.number)
	case scriptFlush:
		return nil, v.do("SCRIPT FLUSH")
	case reset:
		return nil, v.do("CLIENT KILL TYPE normal")
	case readOnly:
		return func() error { return v.do("REPLICAOF NO ONE") }, v.do("REPLICAOF 127.0.0.1 1")
	case oom:
		return func() error { return v.do("CONFIG SET maxmemory 0") },
			errors.Join(v.do("CONFIG SET maxmemory-policy noeviction"),
				v.do("CONFIG SET maxmemory 1"))
	case busy:
		return v.occupy()
	case demote:
		return v.demote()
	case failover:
		return v.failOver()
	}
	return nil, fmt.Errorf("no such fault: %q", a)
}

func (v *victim) restart() error {
	v.dead = false
	return v.nodes.Restart(v.number)
}

// do sends a command of plain words.
func (v *victim) do(command string) error {
	_, err := v.nodes.Do(v.number, strings.Fields(command)...)
	return err
}

// occupy keeps the node busy with a script that never ends. It has written nothing, so the node can
// be told to stop it.
func (v *victim) occupy() (mend func() error, err error) {
	over := make(chan struct{})
	mend = func() error {
		err := v.do("SCRIPT KILL")
		<-over
		return err
	}
	if err := v.do("CONFIG SET lua-time-limit 10"); err != nil {
		close(over)
		return nil, err
	}
	go func() {
		defer close(over)
		// It ends by an error: stopped, or not waited for any longer.
		_, _ = v.nodes.Do(v.number, "EVAL", "while true do end", "0")
	}()
	for start := time.Now(); time.Since(start) < busyWithin; time.Sleep(busyLook) {
		if err := v.do("PING"); err != nil && strings.Contains(err.Error(), "BUSY") {
			return mend, nil
		}
	}
	return mend, errors.New("the script is not noticed")
}
