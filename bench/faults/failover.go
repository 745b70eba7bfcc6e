package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/lockpipetest"
)

const (
	// roleTimeout bounds each change of a server's role, and rolePoll is the time between two
	// questions.
	roleTimeout = time.Minute
	rolePoll    = 5 * time.Millisecond
	// copyAge is how old the copy is that a demoted node gets. The locks granted since are lost.
	copyAge = 100 * time.Millisecond
)

func waitForAge() { time.Sleep(copyAge) }

// Routes maps the address of each node to the server that answers behind it, as the name of a
// managed Redis does. An open connection stays with its server. The zero value maps each address to
// its own server.
type Routes struct {
	servers sync.Map // from the address of a node to that of its server; none: its own
}

// Dial connects to the server behind an address. Give it to the Clients.
func (r *Routes) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if server, ok := r.servers.Load(address); ok {
		address, _ = server.(string)
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// address returns host:port of the target's server.
func (t *target) address() string {
	return strings.TrimPrefix(t.nodes.URLs()[t.number], "redis://")
}

// startReplica starts a replica of the node. It ends with the fault.
func (t *target) startReplica() (*target, error) {
	nodes, err := lockpipetest.Start(1)
	if err != nil {
		return nil, err
	}
	replica := &target{nodes: nodes}
	if err := replica.replicate(t); err != nil {
		return nil, errors.Join(err, nodes.Close())
	}
	return replica, nil
}

// demote makes the node the replica of an older copy of its keys, until it is a master again. Then
// the guard's key has the name of its own former memory, and it has forgotten what it granted since
// the copy was made. That happens if a replica that lagged is promoted, and the former master has
// to replicate it.
func (t *target) demote() (revert func() error, err error) {
	replica, err := t.startReplica()
	if err != nil {
		return nil, err
	}
	revert = func() error { return errors.Join(t.do("REPLICAOF NO ONE"), replica.nodes.Close()) }
	if err := replica.do("REPLICAOF NO ONE"); err != nil {
		return revert, err
	}
	t.growOld()
	return revert, t.replicate(replica)
}

// failOver gives the role of the master to a replica, as planned maintenance does. New connections
// lead there until the end of the fault, when the node takes its role back.
func (t *target) failOver() (revert func() error, err error) {
	replica, err := t.startReplica()
	if err != nil {
		return nil, err
	}
	return t.swapWith(replica)
}

// swapWith is failOver to a replica in sync, which ends with the fault.
func (t *target) swapWith(replica *target) (revert func() error, err error) {
	revert = func() error {
		err := replica.yieldTo(t)
		if err != nil { // the node must not stay a replica
			err = errors.Join(err, t.do("REPLICAOF NO ONE"))
		}
		t.routes.servers.Delete(t.address())
		return errors.Join(err, replica.nodes.Close()) // that cuts the Clients' connections to it
	}
	if err := t.yieldTo(replica); err != nil {
		return revert, err
	}
	t.routes.servers.Store(t.address(), replica.address())
	return revert, nil
}

// replicate makes the server a replica of another one, and returns when it is in sync.
func (t *target) replicate(master *target) error {
	host, port, _ := net.SplitHostPort(master.address())
	if err := t.do("REPLICAOF " + host + " " + port); err != nil {
		return err
	}
	return awaitRole(t.inSync)
}

// yieldTo makes a replica in sync the master, and the server its replica. No write is lost.
func (t *target) yieldTo(replica *target) error {
	host, port, _ := net.SplitHostPort(replica.address())
	order := fmt.Sprintf("FAILOVER TO %s %s TIMEOUT %d", host, port, roleTimeout.Milliseconds())
	// The server refuses until it knows the replica well.
	err := awaitRole(func() error { return t.do(order) })
	if err != nil {
		return err
	}
	return awaitRole(t.inSync)
}

// inSync returns an error if the server is no replica, or is not in sync with its master yet.
func (t *target) inSync() error {
	reply, err := t.nodes.Do(t.number, "ROLE")
	if err != nil {
		return err
	}
	if role, _ := reply.([]any); len(role) != 5 || role[0] != "slave" || role[3] != "connected" {
		return fmt.Errorf("%s is no replica in sync: its role is %v", t.address(), reply)
	}
	return nil
}

// awaitRole returns when check returns nil. It returns the error of check if that takes too long,
// or if a server is gone.
func awaitRole(check func() error) error {
	for start := time.Now(); ; time.Sleep(rolePoll) {
		err := check()
		var broken net.Error
		gone := errors.As(err, &broken) && !broken.Timeout() // else it is slow
		if err == nil || gone || time.Since(start) > roleTimeout {
			return err
		}
	}
}
