package faults

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/lockpipetest"
)

const (
	// busyTimeout is how long a server may take to notice that a script does not end, and busyPoll
	// is the time between two questions.
	busyTimeout = 5 * time.Second
	busyPoll    = 5 * time.Millisecond
)

// target is one node that faults happen to. It is owned by one goroutine.
type target struct {
	nodes   *lockpipetest.Nodes
	number  int     // from 0, of the server; in a cluster it is the one that has the slot
	node    int     // from 0
	shards  *shards // nil unless the nodes are in a cluster
	routes  *Routes
	growOld func() // waits until a copy of the keys is old enough
	killed  bool
}

// inject begins a fault. revert ends it: call it also after an error. It is nil if there is nothing
// to end.
func (t *target) inject(a action) (revert func() error, err error) {
	if t.shards != nil && !t.killed {
		if t.number, err = t.shards.master(t.node); err != nil {
			return nil, err
		}
	}
	switch a {
	case freeze:
		return func() error { return t.nodes.Thaw(t.number) }, t.nodes.Freeze(t.number)
	case kill:
		t.killed = true
		return nil, t.nodes.Kill(t.number)
	case restart:
		return nil, t.restart()
	case wipe:
		return nil, t.nodes.Flush(t.number)
	case scriptFlush:
		return nil, t.do("SCRIPT FLUSH")
	case reset:
		return nil, t.do("CLIENT KILL TYPE normal")
	case readOnly:
		return func() error { return t.do("REPLICAOF NO ONE") }, t.do("REPLICAOF 127.0.0.1 1")
	case oom:
		return func() error { return t.do("CONFIG SET maxmemory 0") },
			errors.Join(t.do("CONFIG SET maxmemory-policy noeviction"),
				t.do("CONFIG SET maxmemory 1"))
	case busy:
		return t.runEndlessScript()
	case demote:
		return t.demote()
	case failover:
		if t.shards != nil {
			return t.shards.failOver(t.node)
		}
		return t.failOver()
	case takeover:
		return nil, t.shards.takeOver(t.node)
	case reshard:
		return t.shards.move(t.node)
	case deposed:
		return t.shards.depose(t.node, t.number)
	}
	return nil, fmt.Errorf("no such fault: %q", a)
}

func (t *target) restart() error {
	t.killed = false
	return t.nodes.Restart(t.number)
}

// do sends a command of plain words.
func (t *target) do(command string) error {
	_, err := t.nodes.Do(t.number, strings.Fields(command)...)
	return err
}

// runEndlessScript keeps the node busy. The script writes nothing, so the server lets it be killed.
func (t *target) runEndlessScript() (revert func() error, err error) {
	ended := make(chan struct{})
	revert = func() error {
		err := t.do("SCRIPT KILL")
		<-ended
		return err
	}
	if err := t.do("CONFIG SET lua-time-limit 10"); err != nil {
		close(ended)
		return nil, err
	}
	go func() {
		defer close(ended)
		// It ends by an error: it is killed, or Do gives up.
		_, _ = t.nodes.Do(t.number, "EVAL", "while true do end", "0")
	}()
	for start := time.Now(); time.Since(start) < busyTimeout; time.Sleep(busyPoll) {
		if err := t.do("PING"); err != nil && strings.Contains(err.Error(), "BUSY") {
			return revert, nil
		}
	}
	return revert, errors.New("the server did not notice the endless script")
}
