package inspection

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/sentinel"
)

// Node is one node to look at.
type Node struct {
	// Logins say how to log in, and have the endpoint. A client shares them with its connector.
	Logins *endpoint.Logins
	// Voter returns the server that votes for the client now: its address and its run_id. They are
	// "" if none does, or if it shows no run_id. nil without a client.
	Voter func() (address, runID string)
}

// node is a Node, and what makes the Inspector's own connections to it. An inspection owns it.
type node struct {
	Node
	dialer    *endpoint.Dialer
	sentinels *sentinel.Sentinels // nil if the endpoint is the master's own
}

// newNode returns the node with a dialer of its own, and with sentinels that nobody runs yet.
func newNode(n Node, cfg Config) *node {
	e := n.Logins.Endpoint()
	return &node{
		Node: n, dialer: endpoint.NewDialer(e, cfg.Dial, cfg.Logger),
		sentinels: sentinel.New(e, Timeout, cfg.Dial, cfg.Logger, func() {}),
	}
}

// findMaster asks the sentinels which server is the master now, if there are sentinels. Later
// connections lead to that server.
func (n *node) findMaster(ctx context.Context) error {
	if n.sentinels == nil {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	wait := n.sentinels.Run(ctx)
	defer wait()
	defer stop()
	master, err := n.sentinels.FindMaster(ctx)
	if err == nil {
		n.dialer.Endpoint = n.Logins.Endpoint().WithAddress(master)
	}
	return err
}

// dial makes a connection, and returns the steps that log in there.
func (n *node) dial(ctx context.Context) (net.Conn, []resp.Step, error) {
	if err := n.Logins.Refresh(ctx, endpoint.ForInspection); err != nil {
		return nil, nil, err
	}
	conn, err := n.dialer.Open(ctx)
	var unknown *net.DNSError // it names the host, also after a timeout
	if errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &unknown) {
		err = fmt.Errorf("not connected within %v", endpoint.DialTimeout)
	}
	steps := n.Logins.Handshake(endpoint.ForInspection)
	if name := n.dialer.Endpoint.ClientName; name != "" { // an error is of no interest
		steps = append(steps, resp.Step{Command: []string{"CLIENT", "SETNAME", name}})
	}
	return conn, steps, err
}
