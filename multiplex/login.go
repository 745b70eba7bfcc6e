package multiplex

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// CredentialsFunc returns the user and password for the next connection to a node, or an error.
// node is what NodeStatus.Addr shows. An empty user is the default one, and without both the client
// does not authenticate. It is called before each connect, never twice at the same time for one
// node. ctx ends after three seconds, or when the Mux is closed. A call that does not return then
// is left, and no other is made for the node before it has returned.
type CredentialsFunc func(ctx context.Context, node string) (user, password string, err error)

// login is a user and a password.
type login struct{ user, password string }

// logins has what the client authenticates with at one node.
type logins struct {
	ask   CredentialsFunc // nil: the URL has them
	node  string
	calls outside[login] // owned by the keeper

	// current is that of the newest connection, or of the one that is being made. The keeper writes
	// it.
	current atomic.Pointer[login]
}

func newLogins(e *endpoint, m *Mux) *logins {
	l := &logins{ask: m.cfg.Credentials, node: e.name, calls: outside[login]{
		name: "Config.Credentials", slow: "Config.Credentials", node: e.name, logger: m.cfg.Logger,
		discard: func(login) {}, secret: true,
	}}
	l.current.Store(&login{e.option.Username, e.option.Password})
	return l
}

// renew asks for the login of the next connection.
func (l *logins) renew(ctx context.Context) error {
	if l.ask == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	next, err := l.calls.call(ctx, func(ctx context.Context) (login, error) {
		user, password, err := l.ask(ctx, l.node)
		if err != nil {
			// An error of ctx must not look like one of ours.
			err = errors.New("Config.Credentials: " + err.Error())
		}
		return login{user, password}, err
	})
	if err != nil {
		return l.hide(withoutPassword(err, next.password))
	}
	l.current.Store(&next)
	return nil
}

// hide is the error without the password.
func (l *logins) hide(err error) error {
	if l == nil {
		return err
	}
	return withoutPassword(err, l.current.Load().password)
}

// apply sets the login in the options for a handshake. What rueidis sends later needs none.
func (l *logins) apply(o *rueidis.ClientOption) {
	used := l.current.Load()
	o.Username, o.Password = used.user, used.password
}
