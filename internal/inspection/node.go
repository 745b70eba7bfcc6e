package inspection

import (
	"context"
	"crypto/tls"
	"net"
	"time"

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
		sentinels: sentinel.New(e, e.DialTimeout+AfterConnect, cfg.Dial, cfg.Logger, func() {}),
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

// readCertificates notes for how long the certificates of a connection last.
func (f *Facts) readCertificates(conn net.Conn, config *tls.Config) {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return
	}
	for i, c := range secure.ConnectionState().PeerCertificates {
		if left := time.Until(c.NotAfter); i == 0 || left < f.ServerCertificate {
			f.ServerCertificate = left
		}
	}
	if own := config.Certificates; len(own) > 0 && own[0].Leaf != nil {
		f.ClientCertificate = time.Until(own[0].Leaf.NotAfter)
	}
}

// dial makes a connection, and returns the steps that log in there.
func (n *node) dial(ctx context.Context) (net.Conn, []resp.Step, error) {
	if err := n.Logins.Refresh(ctx, endpoint.ForInspection); err != nil {
		return nil, nil, err
	}
	conn, err := n.dialer.Open(ctx)
	steps := n.Logins.Handshake(endpoint.ForInspection)
	if name := n.dialer.Endpoint.ClientName; name != "" { // an error is of no interest
		steps = append(steps, resp.Step{Command: []string{"CLIENT", "SETNAME", name}})
	}
	return conn, steps, err
}
