package multiplex

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// CredentialsFunc returns the user and password for the next connection to a node, or an error.
// node is what NodeStatus.Addr shows. An empty user is the default one. If both are empty, the
// client does not authenticate.
//
// It is called before each connect, never twice at the same time for one node. ctx ends after three
// seconds, or when the Mux is closed. A call that does not return then is abandoned, and no other
// is made for the node before it has returned.
type CredentialsFunc func(ctx context.Context, node string) (user, password string, err error)

// login is a user and a password.
type login struct{ user, password string }

// logins has what the client authenticates with at one node. The connector and the inspection under
// way ask one after the other, so Config.Credentials is never called twice at the same time.
type logins struct {
	ask       CredentialsFunc // nil: the URL has them
	node      string
	sentinels string          // their password
	serialize chan struct{}   // of capacity 1: full during a call
	calls     userFunc[login] // owned by the one that filled serialize

	// current is the login of the newest connection for locks, or of the one that is being made.
	// The connector writes it. inspection is the same for connections of inspections, which write
	// it.
	current, inspection atomic.Pointer[login]
}

func newLogins(e *endpoint, m *Mux) *logins {
	l := &logins{ask: m.cfg.Credentials, node: e.name, serialize: make(chan struct{}, 1)}
	l.calls = userFunc[login]{
		name: "Config.Credentials", mayHang: "Config.Credentials", node: e.name,
		logger:  m.cfg.Logger,
		discard: func(login) {}, secret: true,
	}
	inURL := &login{e.option.Username, e.option.Password}
	l.current.Store(inURL)
	l.inspection.Store(inURL)
	if len(e.sentinels) > 0 {
		l.sentinels = e.sentinels[0].option.Password // they have one together
	}
	return l
}

// refresh asks for the login of the next connection, current or inspection. If a call for the other
// one is under way, it waits until that has returned or was abandoned, which takes connectTimeout
// at most.
func (l *logins) refresh(ctx context.Context, next *atomic.Pointer[login]) error {
	if l.ask == nil {
		return nil
	}
	select {
	case l.serialize <- struct{}{}:
		defer func() { <-l.serialize }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	fresh, err := l.calls.call(ctx, func(ctx context.Context) (login, error) {
		user, password, err := l.ask(ctx, l.node)
		if err != nil {
			// An error of ctx must not look like one of the client's own.
			err = errors.New("Config.Credentials: " + err.Error())
		}
		return login{user, password}, err
	})
	if err != nil {
		return l.hide(withoutPassword(err, fresh.password))
	}
	next.Store(&fresh)
	return nil
}

// hide returns the error without the passwords.
func (l *logins) hide(err error) error {
	if l == nil {
		return err
	}
	for _, used := range []*login{l.current.Load(), l.inspection.Load()} {
		err = withoutPassword(err, used.password)
	}
	return withoutPassword(err, l.sentinels)
}

// apply sets the login in the options for a handshake. What rueidis sends later needs none.
func (l *login) apply(o *rueidis.ClientOption) { o.Username, o.Password = l.user, l.password }
