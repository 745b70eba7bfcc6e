package sentinel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/resp"
)

// sentinel is one of them.
type sentinel struct {
	*endpoint.Asker
	index    int
	set      string
	answered bool // once at least; owned by the goroutine of the sentinel
}

// run asks again and again.
func (s *sentinel) run(ctx context.Context, all *Sentinels) {
	s.Run(ctx, func() {
		asked := time.Now()
		w := s.ask(ctx)
		if w.askedAt = asked; ctx.Err() == nil {
			all.takeReport(s.index, w)
		}
	})
}

// ask asks once. The first command is for the epoch. So a change between the two makes a new master
// look older, and not the other way round.
func (s *sentinel) ask(ctx context.Context) (w report) {
	err := s.Ask(ctx, func() []resp.Step {
		w = report{namedAt: time.Now()}
		return []resp.Step{
			{Command: []string{"SENTINEL", "MASTER", s.set}, OnReply: w.takeEpoch},
			{
				Command: []string{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.set},
				OnReply: w.takeMaster,
			},
		}
	})
	if s.answered = s.answered || err == nil; err != nil {
		w.err = s.withRemedy(err)
	}
	return w
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

// withRemedy returns the error of a sentinel, with what to do about it.
func (s *sentinel) withRemedy(err error) error {
	text := err.Error()
	var none *unknownSetError
	remedy := ""
	switch {
	case errors.As(err, &none):
		return fmt.Errorf("sentinel %s knows no master set %q: correct master_set in the node's "+
			"URL, or let the sentinel monitor it (%w)", s.Endpoint.Address, s.set, err)
	case strings.HasPrefix(text, "NOAUTH "):
		remedy = ": put sentinel_password into the node's URL"
	case strings.HasPrefix(text, "WRONGPASS "):
		remedy = ": correct sentinel_user and sentinel_password in the node's URL"
	case strings.HasPrefix(text, "NOPERM "):
		remedy = ": give the user at the sentinels " +
			"+sentinel|get-master-addr-by-name and +sentinel|master"
	case strings.Contains(text, "unknown command"):
		remedy = ": it is no sentinel; give the address of one, or leave out master_set"
	case err == resp.ErrUnanswered && !s.answered && s.Endpoint.TLS == nil:
		remedy = "; if the sentinel wants TLS, give rediss:// and sentinel_tls=true"
	}
	return fmt.Errorf("sentinel %s: %s%s", s.Endpoint.Address, text, remedy)
}
