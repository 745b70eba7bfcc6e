package sentinel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/resp"
)

// errSilent is why a sentinel has no answer.
var errSilent = errors.New("no answer in time")

// sentinel is one of them.
type sentinel struct {
	index    int
	set      string
	endpoint *endpoint.Endpoint
	wanted   chan struct{} // of capacity 1: an answer is wanted

	// Owned by the goroutine of the sentinel:
	dialer   *endpoint.Dialer
	conn     *resp.Conn // nil while not connected
	answered bool       // once at least
}

// run asks again and again.
func (s *sentinel) run(ctx context.Context, all *Sentinels) {
	defer s.hangUp()
	for {
		all.mu.Lock()
		round := all.round
		all.mu.Unlock()
		w := s.ask(ctx)
		w.round = round
		if ctx.Err() != nil {
			return
		}
		all.takeReport(s.index, w)
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
func (s *sentinel) ask(ctx context.Context) (w report) {
	for {
		kept := s.conn != nil
		w = report{namedAt: time.Now()}
		if w.err = s.query(ctx, &w); w.err == nil {
			s.answered = true
			return w
		}
		s.hangUp()
		if !kept || ctx.Err() != nil { // the sentinel may have ended the connection long ago
			w.err = s.withRemedy(w.err)
			return w
		}
	}
}

// hangUp closes the connection, if there is one.
func (s *sentinel) hangUp() {
	if s.conn != nil {
		_ = endpoint.Abort(s.conn.Conn)
		s.conn = nil
	}
}

// query sends the commands. The first one is for the epoch. So a change between the two makes a new
// master look older, and not the other way round.
func (s *sentinel) query(ctx context.Context, w *report) error {
	var steps []resp.Step
	if s.conn == nil {
		conn, err := s.dialer.Open(ctx)
		if err != nil {
			return err
		}
		s.conn, steps = resp.NewConn(conn), s.endpoint.Handshake()
	}
	conn := s.conn.Conn
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = endpoint.Abort(conn) })
	err := s.conn.Do(append(
		steps,
		resp.Step{Command: []string{"SENTINEL", "MASTER", s.set}, OnReply: w.takeEpoch},
		resp.Step{
			Command: []string{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.set}, OnReply: w.takeMaster,
		},
	)...)
	if !stop() && err != nil {
		return errSilent
	}
	return err
}

// takeEpoch takes the fields of the master. If a sentinel does not show them, the epoch is 0. But
// if only its user may not see them, a stale sentinel could win, so that is an error.
func (w *report) takeEpoch(r resp.Value) error {
	if strings.HasPrefix(r.Text, "NOPERM ") {
		return r.Err()
	}
	w.epoch, _ = strconv.ParseInt(resp.Pairs(r.Items)["config-epoch"], 10, 64)
	return nil
}

// unknownSetError is the answer of a sentinel that does not know the master.
type unknownSetError struct{}

func (*unknownSetError) Error() string { return "it knows no such master set" }

// takeMaster takes host and port of the master.
func (w *report) takeMaster(r resp.Value) error {
	switch {
	case r.Err() != nil:
		return r.Err()
	case r.Null:
		return new(unknownSetError)
	case len(r.Items) != 2 || !isHost(r.Items[0].Text) || !endpoint.IsPort(r.Items[1].Text):
		return resp.ErrNotRedis
	}
	w.master = net.JoinHostPort(r.Items[0].Text, r.Items[1].Text)
	return nil
}

// isHost reports whether a sentinel's answer can be the name or the address of a host.
func isHost(text string) bool {
	return text != "" && len(text) <= 255 && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r > '~'
	})
}

// withRemedy returns the error of a sentinel, with what to do about it and without a password.
func (s *sentinel) withRemedy(err error) error {
	text := endpoint.WithoutPassword(err, s.endpoint.Password).Error()
	var none *unknownSetError
	remedy := ""
	switch {
	case errors.As(err, &none):
		return fmt.Errorf("sentinel %s knows no master set %q: correct master_set in the node's "+
			"URL, or let the sentinel monitor it (%w)", s.endpoint.Address, s.set, err)
	case strings.HasPrefix(text, "NOAUTH "):
		remedy = ": put sentinel_password into the node's URL"
	case strings.HasPrefix(text, "WRONGPASS "):
		remedy = ": correct sentinel_user and sentinel_password in the node's URL"
	case strings.HasPrefix(text, "NOPERM "):
		remedy = ": give the user at the sentinels " +
			"+sentinel|get-master-addr-by-name and +sentinel|master"
	case strings.Contains(text, "unknown command"):
		remedy = ": it is no sentinel; give the address of one, or leave out master_set"
	case err == resp.ErrUnanswered && !s.answered && s.endpoint.TLS == nil:
		remedy = "; if the sentinel wants TLS, give rediss:// and sentinel_tls=true"
	}
	return fmt.Errorf("sentinel %s: %s%s", s.endpoint.Address, text, remedy)
}
