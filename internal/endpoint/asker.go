package endpoint

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
)

const (
	// AskEvery is how often an Asker asks at least, at random times.
	AskEvery = time.Second
	// AnswerTimeout is how long one answer may take.
	AnswerTimeout = time.Second
)

// ErrSilent is why a server has no answer.
var ErrSilent = errors.New("no answer in time")

// Asker asks one server again and again who the master is, over a connection of its own. The server
// is a sentinel, or one of a Redis Cluster.
type Asker struct {
	Endpoint *Endpoint // of the server

	logins *Logins
	wanted chan struct{} // of capacity 1: an answer is wanted

	// Owned by the goroutine in Run:
	dialer *Dialer
	conn   *resp.Conn // nil while not connected
}

// NewAsker returns an Asker of a server where these logins are for. dial and logger are those of
// NewDialer.
func NewAsker(e *Endpoint, l *Logins, dial DialFunc, logger *slog.Logger) *Asker {
	return &Asker{
		Endpoint: e, logins: l, wanted: make(chan struct{}, 1), dialer: NewDialer(e, dial, logger),
	}
}

// Want has the server asked now. It does not block. Any goroutine may call it.
func (a *Asker) Want() {
	select {
	case a.wanted <- struct{}{}:
	default: // an answer is wanted already
	}
}

// Run calls ask again and again until ctx ends. ask calls Ask or HangUp.
func (a *Asker) Run(ctx context.Context, ask func()) {
	defer a.HangUp()
	for ctx.Err() == nil {
		ask()
		pause := time.NewTimer(AskEvery/2 + rand.N(AskEvery/2))
		select {
		case <-a.wanted:
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
	}
}

// Ask takes the steps once, over the connection that is there or a new one. It calls steps just
// before it sends them, and again if the server has ended the connection long ago. The error has no
// password.
func (a *Asker) Ask(ctx context.Context, steps func() []resp.Step) error {
	for {
		kept := a.conn != nil
		err := a.try(ctx, steps)
		if err == nil {
			return nil
		}
		a.HangUp()
		if !kept || ctx.Err() != nil {
			return a.logins.Hide(err)
		}
	}
}

// try is Ask without a second try.
func (a *Asker) try(ctx context.Context, steps func() []resp.Step) error {
	var login []resp.Step
	if a.conn == nil {
		if err := a.logins.Refresh(ctx, ForNaming); err != nil {
			return err
		}
		conn, err := a.dialer.Open(ctx)
		if err != nil {
			return err
		}
		a.conn, login = resp.NewConn(conn), a.logins.Handshake(ForNaming)
	}
	conn := a.conn.Conn
	ctx, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = Abort(conn) })
	err := a.conn.Do(append(login, steps()...)...)
	if !stop() && err != nil {
		return ErrSilent
	}
	return err
}

// HangUp closes the connection, if there is one.
func (a *Asker) HangUp() {
	if a.conn != nil {
		_ = Abort(a.conn.Conn)
		a.conn = nil
	}
}
