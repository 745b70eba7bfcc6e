package preflight

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/lockpipe/lockpipe/internal/cluster"
	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/sentinel"
)

// node is one node, and what makes the Inspector's own connections to it. A look owns it.
type node struct {
	logins *endpoint.Logins // which a client shares with its connector
	link   *link.Link       // of the client; nil without a client
	// votes returns the server that votes for the client: see the function votes.
	votes   func() (address, runID string)
	dialer  *endpoint.Dialer
	masters endpoint.Masters // nil if the endpoint is the master's own
}

// newNode returns a node without a link, and with masters that nobody runs yet. logger is as in
// endpoint.NewDialer.
func newNode(logins *endpoint.Logins, dial endpoint.DialFunc, logger *slog.Logger) *node {
	e := logins.Endpoint()
	n := &node{
		logins: logins, dialer: endpoint.NewDialer(e, dial, logger),
		votes: func() (address, runID string) { return "", "" },
	}
	switch {
	case e.Cluster > 0:
		n.masters = new(cluster.Clusters).Slot(logins, dial, logger)
	case e.MasterSet != "":
		n.masters = sentinel.New(e, e.DialTimeout+AfterConnect, dial, logger)
	}
	return n
}

// findMaster asks which server is the master now, if others name it. Later connections lead to that
// server.
func (n *node) findMaster(ctx context.Context) error {
	if n.masters == nil {
		return nil
	}
	ctx, stop := context.WithCancel(ctx)
	wait := n.masters.Run(ctx)
	defer wait()
	defer stop()
	master, err := n.masters.FindMaster(ctx, func(error) {})
	if err == nil {
		n.dialer.Endpoint = n.logins.Endpoint().WithAddress(master)
	}
	return err
}

// connect makes a connection, and logs in there. timeout is for one round trip. Without an error
// the caller ends the interview. If ctx ends first, the connection is closed.
func (n *node) connect(ctx context.Context, f *Facts, timeout time.Duration) (*interview, error) {
	if err := n.logins.Refresh(ctx, endpoint.ForInspection); err != nil {
		return nil, err
	}
	conn, err := n.dialer.Open(ctx)
	if err != nil {
		return nil, err
	}
	f.readCertificates(conn, n.dialer.Endpoint.TLS)
	steps := n.logins.Handshake(endpoint.ForInspection)
	if name := n.dialer.Endpoint.ClientName; name != "" { // an error is of no interest
		steps = append(steps, resp.Step{Command: []string{"CLIENT", "SETNAME", name}})
	}
	stop := context.AfterFunc(ctx, func() { _ = endpoint.Abort(conn) })
	end := func() {
		stop()
		_ = endpoint.Abort(conn)
	}
	v := &interview{n, resp.NewConn(conn), f, timeout, end}
	if err := v.ask(steps...); err != nil { // before the rest, which would be for another user
		v.end()
		return nil, err
	}
	return v, nil
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
