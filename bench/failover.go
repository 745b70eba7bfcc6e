package bench

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
	// rolesWithin bounds each change of a server's role, and rolesLook is the time between two
	// looks.
	rolesWithin = time.Minute
	rolesLook   = 5 * time.Millisecond
	// copyAge is how old the copy is that a demoted node gets. What the node granted since is lost.
	copyAge = 100 * time.Millisecond
)

func age() { time.Sleep(copyAge) }

// routes says which server answers behind the address of a node, as the name of a managed Redis
// does. A connection that is there stays where it is.
type routes struct {
	servers sync.Map // from the address of a node to that of its server; none: its own
}

// dial connects to the server behind an address. It is the Dial of the Clients.
func (r *routes) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if server, ok := r.servers.Load(address); ok {
		address, _ = server.(string)
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// address returns host:port of the victim's server.
func (v *victim) address() string {
	return strings.TrimPrefix(v.nodes.URLs()[v.number], "redis://")
}

// startReplica starts a replica of the node. It ends with the fault.
func (v *victim) startReplica() (*victim, error) {
	nodes, err := lockpipetest.Start(1)
	if err != nil {
		return nil, err
	}
	replica := &victim{nodes: nodes}
	if err := replica.follow(v); err != nil {
		return nil, errors.Join(err, nodes.Close())
	}
	return replica, nil
}

// demote makes the node the replica of an older copy of its keys, until it is a master again. Then
// it has its own marker, and has forgotten what it granted since the copy was made. That happens
// if a replica that lagged is promoted, and the former master has to follow it.
func (v *victim) demote() (undo func() error, err error) {
	replica, err := v.startReplica()
	if err != nil {
		return nil, err
	}
	undo = func() error { return errors.Join(v.do("REPLICAOF NO ONE"), replica.nodes.Close()) }
	if err := replica.do("REPLICAOF NO ONE"); err != nil {
		return undo, err
	}
	v.age()
	return undo, v.follow(replica)
}

// failOver gives the role of the master to a replica, as planned maintenance does. New connections
// lead there until the end of the fault, when the node takes its role back.
func (v *victim) failOver() (undo func() error, err error) {
	replica, err := v.startReplica()
	if err != nil {
		return nil, err
	}
	return v.swapWith(replica)
}

// swapWith is failOver to a replica in sync, which ends with the fault.
func (v *victim) swapWith(replica *victim) (undo func() error, err error) {
	undo = func() error {
		err := replica.yieldTo(v)
		if err != nil { // it must not stay a replica
			err = errors.Join(err, v.do("REPLICAOF NO ONE"))
		}
		v.routes.servers.Delete(v.address())
		return errors.Join(err, replica.nodes.Close()) // that cuts the Clients' connections to it
	}
	if err := v.yieldTo(replica); err != nil {
		return undo, err
	}
	v.routes.servers.Store(v.address(), replica.address())
	return undo, nil
}

// follow makes the server a replica of another one, and returns when it is in sync.
func (v *victim) follow(master *victim) error {
	host, port, _ := net.SplitHostPort(master.address())
	if err := v.do("REPLICAOF " + host + " " + port); err != nil {
		return err
	}
	return awaitRoles(v.inSync)
}

// yieldTo makes a replica in sync the master and the server its replica. No write is lost.
func (v *victim) yieldTo(replica *victim) error {
	host, port, _ := net.SplitHostPort(replica.address())
	order := fmt.Sprintf("FAILOVER TO %s %s TIMEOUT %d", host, port, rolesWithin.Milliseconds())
	// Refused until it knows the replica well.
	err := awaitRoles(func() error { return v.do(order) })
	if err != nil {
		return err
	}
	return awaitRoles(v.inSync)
}

// inSync returns an error if the server is no replica, or one that does not follow its master yet.
func (v *victim) inSync() error {
	reply, err := v.nodes.Do(v.number, "ROLE")
	if err != nil {
		return err
	}
	if role, _ := reply.([]any); len(role) != 5 || role[0] != "slave" || role[3] != "connected" {
		return fmt.Errorf("%s is no replica in sync: its role is %v", v.address(), reply)
	}
	return nil
}

// awaitRoles returns when check returns nil. It returns the error of check if that takes too long,
// or if a server is gone.
func awaitRoles(check func() error) error {
	for start := time.Now(); ; time.Sleep(rolesLook) {
		err := check()
		var broken net.Error
		gone := errors.As(err, &broken) && !broken.Timeout() // else it is slow
		if err == nil || gone || time.Since(start) > rolesWithin {
			return err
		}
	}
}
