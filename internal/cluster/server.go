package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/resp"
)

// errSilent is why a server has no answer.
var errSilent = errors.New("no answer in time")

// server is one of them, which is asked.
type server struct {
	cluster  *Cluster
	endpoint *endpoint.Endpoint
	wanted   chan struct{} // of capacity 1: an answer is wanted

	// Guarded by Cluster.mu:
	stop  context.CancelFunc
	seed  bool // only the URL names it
	round int  // of its last answer or failure
	err   error

	// Owned by the goroutine of the server:
	dialer *endpoint.Dialer
	conn   *resp.Conn // nil while not connected
}

// run asks again and again.
func (s *server) run(ctx context.Context) {
	defer s.hangUp()
	for {
		s.cluster.mu.Lock()
		round, seed := s.cluster.round, s.seed
		idle := seed && s.cluster.knowsMany()
		s.cluster.mu.Unlock()
		if idle {
			s.hangUp()
		} else {
			r, err := s.ask(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				err = s.withRemedy(err, seed)
			}
			s.cluster.takeReport(s, round, r, err)
		}
		pause := time.NewTimer(AskEvery/2 + rand.N(AskEvery/2))
		select {
		case <-s.wanted:
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
	}
}

// ask asks once, over the connection that is there or a new one.
func (s *server) ask(ctx context.Context) (r report, err error) {
	for {
		kept := s.conn != nil
		if r, err = s.query(ctx); err == nil {
			return r, nil
		}
		s.hangUp()
		if !kept || ctx.Err() != nil { // the server may have ended the connection long ago
			return r, err
		}
	}
}

// hangUp closes the connection, if there is one.
func (s *server) hangUp() {
	if s.conn != nil {
		_ = endpoint.Abort(s.conn.Conn)
		s.conn = nil
	}
}

// query sends the command. The moment of the report is before that.
func (s *server) query(ctx context.Context) (r report, err error) {
	var steps []resp.Step
	if s.conn == nil {
		logins := s.cluster.logins
		if err := logins.Refresh(ctx, endpoint.ForNaming); err != nil {
			return r, err
		}
		conn, err := s.dialer.Open(ctx)
		if err != nil {
			return r, err
		}
		s.conn, steps = resp.NewConn(conn), logins.Handshake(endpoint.ForNaming)
	}
	conn := s.conn.Conn
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = endpoint.Abort(conn) })
	asked := s.cluster.now()
	read := func(v resp.Value) (err error) {
		if err = v.Err(); err == nil {
			text, _ := v.AsString()
			r, err = s.cluster.parse(text, s.endpoint)
		}
		return err
	}
	err = s.conn.Do(append(
		steps, resp.Step{Command: []string{"CLUSTER", "NODES"}, OnReply: read},
	)...)
	r.at = asked
	if !stop() && err != nil {
		return r, errSilent
	}
	return r, err
}

// withRemedy returns the error of a server, with what to do about it and without a password.
func (s *server) withRemedy(err error, seed bool) error {
	text := s.cluster.logins.Hide(err).Error()
	remedy := ""
	switch {
	case strings.HasPrefix(text, "NOAUTH "):
		remedy = ": put a user and password into the cluster's URL"
	case strings.HasPrefix(text, "NOPERM "):
		remedy = ": give the user +cluster|nodes"
	case strings.Contains(text, "cluster support disabled"),
		strings.Contains(text, "unknown command"):
		remedy = ": it is no server of a Redis Cluster; give the address of one, or leave out cluster"
	}
	from := "server"
	if !seed {
		from = "as announced by the cluster, server"
	}
	return fmt.Errorf("%s %s: %s%s", from, s.endpoint.Address, text, remedy)
}
