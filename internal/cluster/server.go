package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/resp"
)

// server is one of them, which is asked.
type server struct {
	*endpoint.Asker
	cluster *Cluster

	// Guarded by Cluster.mu:
	stop  context.CancelFunc
	seed  bool          // only the URL names it
	asked time.Duration // the last time that it has answered or failed; by Cluster.now
	err   error
}

// run asks again and again.
func (s *server) run(ctx context.Context) {
	s.Run(ctx, func() {
		asked := s.cluster.now()
		s.cluster.mu.Lock()
		seed := s.seed
		idle := seed && s.cluster.knowsMany()
		s.cluster.mu.Unlock()
		if idle {
			s.HangUp()
			return
		}
		r, err := s.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			err = s.withRemedy(err, seed)
		}
		s.cluster.takeReport(s, asked, r, err)
	})
}

// ask asks once. The moment of the report is before that.
func (s *server) ask(ctx context.Context) (r report, err error) {
	err = s.Ask(ctx, func() []resp.Step {
		asked := s.cluster.now()
		read := func(v resp.Value) (err error) {
			if err = v.Err(); err == nil {
				text, _ := v.AsString()
				r, err = s.cluster.parse(text, s.Endpoint)
				r.at = asked
			}
			return err
		}
		return []resp.Step{{Command: []string{"CLUSTER", "NODES"}, OnReply: read}}
	})
	return r, err
}

// withRemedy returns the error of a server, with what to do about it.
func (s *server) withRemedy(err error, seed bool) error {
	text := err.Error()
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
	return fmt.Errorf("%s %s: %s%s", from, s.Endpoint.Address, text, remedy)
}
