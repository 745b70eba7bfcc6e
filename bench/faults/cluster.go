package faults

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/lockpipe/lockpipe/lockpipetest"
)

// shards are the nodes of a run that are slots of one Redis Cluster. All methods are safe for
// concurrent use.
type shards struct {
	cluster *lockpipetest.Cluster
	slots   []int // of each node

	mu  sync.Mutex   // held during each change of the cluster
	cut map[int]bool // the servers that are cut off
}

// master returns the server that has the slot of a node.
func (s *shards) master(node int) (server int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cluster.Master(s.slots[node])
}

// failOver has the replica of a node's master replace it, as for planned maintenance, until the
// master takes its role back.
func (s *shards) failOver(node int) (revert func() error, err error) {
	change := func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.cluster.Failover(s.slots[node])
	}
	return change, change()
}

// takeOver has the replica of a node's master replace it, which asks no other server.
func (s *shards) takeOver(node int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cluster.Takeover(s.slots[node])
}

// move moves the slot of a node to the server of the next node, and back.
func (s *shards) move(node int) (revert func() error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slot := s.slots[node]
	next := s.slots[(node+1)%len(s.slots)]
	revert = func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.cluster.MoveSlot(slot, slot+1) // which has stayed
	}
	return revert, s.cluster.MoveSlot(slot, next)
}

// depose cuts the master of a node off from all other servers, but not from clients. Its replica
// replaces it, and the old master does not learn that until the end.
func (s *shards) depose(node, server int) (revert func() error, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut[server] = true
	s.cluster.Cut(slices.Collect(maps.Keys(s.cut))...)
	revert = func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.cut, server)
		s.cluster.Cut(slices.Collect(maps.Keys(s.cut))...)
		return nil
	}
	return revert, s.cluster.Takeover(s.slots[node])
}

// awaitHealthy returns when each server serves clients and names the same masters.
func (s *shards) awaitHealthy() error {
	servers := s.cluster.Servers()
	return awaitRole(func() error {
		for i := range servers.Len() {
			reply, err := servers.Do(i, "CLUSTER", "INFO")
			if err != nil {
				return err
			}
			if !strings.Contains(fmt.Sprint(reply), "cluster_state:ok") {
				return fmt.Errorf("server %d of the cluster does not serve: %v", i, reply)
			}
			for _, slot := range s.slots {
				named, err := s.cluster.Owner(i, slot)
				master, wrong := s.cluster.Master(slot)
				if err := errors.Join(err, wrong); err != nil {
					return err
				}
				if named != master {
					return fmt.Errorf("server %d takes %d for the master of slot %d", i, named, slot)
				}
			}
		}
		return nil
	})
}
