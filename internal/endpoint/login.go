package endpoint

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// CredentialsFunc returns the user and password for the next connection to a node, or an error.
// node is Endpoint.Name. An empty user is the default one. If both are empty, the client does not
// authenticate.
//
// It is called before each connect, never twice at the same time for one node. ctx ends after
// LoginTimeout, or when the owner is closed. A call that does not return then is abandoned, and no
// other is made for the node before it has returned.
type CredentialsFunc func(ctx context.Context, node string) (user, password string, err error)

// Purpose is what a connection is for.
type Purpose int

// The purposes: locks, an inspection of the node, and to ask a cluster who has its slot.
const (
	ForLocks Purpose = iota
	ForInspection
	ForNaming
	purposes
)

// login is a user and a password.
type login struct{ user, password string }

// Logins has what the client authenticates with at one node. The owners of its purposes ask one
// after the other, so a CredentialsFunc is never called twice at the same time. All methods are
// safe for concurrent use.
type Logins struct {
	ask       CredentialsFunc // nil: the URL has them
	endpoint  *Endpoint
	serialize chan struct{}   // of capacity 1: full during a call
	calls     userFunc[login] // owned by the one that filled serialize

	// newest is for each purpose the login of its newest connection, or of the one that is being
	// made. The owner of the purpose writes it.
	newest [purposes]atomic.Pointer[login]
}

// NewLogins returns the logins of a node. ask is nil if its URL has them. logger logs a panic of
// ask, once.
func NewLogins(e *Endpoint, ask CredentialsFunc, logger *slog.Logger) *Logins {
	l := &Logins{ask: ask, endpoint: e, serialize: make(chan struct{}, 1)}
	l.calls = userFunc[login]{
		name: "Config.Credentials", mayHang: "Config.Credentials", node: e.Name, logger: logger,
		discard: func(login) {}, secret: true,
	}
	for i := range l.newest {
		l.newest[i].Store(&login{e.User, e.Password})
	}
	return l
}

// Endpoint returns the node that the logins are for.
func (l *Logins) Endpoint() *Endpoint { return l.endpoint }

// Refresh asks for the login of the next connection for the purpose. If a call for another purpose
// is under way, it waits until that has returned or was abandoned, which takes LoginTimeout at
// most.
func (l *Logins) Refresh(ctx context.Context, p Purpose) error {
	if l.ask == nil {
		return nil
	}
	select {
	case l.serialize <- struct{}{}:
		defer func() { <-l.serialize }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, LoginTimeout)
	defer cancel()
	fresh, err := l.calls.call(ctx, func(ctx context.Context) (login, error) {
		user, password, err := l.ask(ctx, l.endpoint.Name)
		if err != nil {
			// An error of ctx must not look like one of the client's own.
			err = errors.New("Config.Credentials: " + err.Error())
		}
		return login{user, password}, err
	})
	if err != nil {
		return l.Hide(WithoutPassword(err, fresh.password))
	}
	l.newest[p].Store(&fresh)
	return nil
}

// Handshake returns the steps that log in with the newest login for the purpose, and select the
// database.
func (l *Logins) Handshake(p Purpose) []resp.Step {
	e, newest := *l.endpoint, l.newest[p].Load()
	e.User, e.Password = newest.user, newest.password
	return e.Handshake()
}

// Hide returns the error without the passwords, also that of the sentinels. l may be nil.
func (l *Logins) Hide(err error) error {
	if l == nil {
		return err
	}
	for i := range l.newest {
		err = WithoutPassword(err, l.newest[i].Load().password)
	}
	for _, s := range l.endpoint.Sentinels {
		err = WithoutPassword(err, s.Password)
	}
	return err
}

// repeatedArguments is how a server begins to repeat the arguments of a command that it does not
// know: AUTH with a long password, as far as there is space.
const repeatedArguments = ", with args beginning with"

// WithoutPassword hides the password if a server repeats what it did not understand.
func WithoutPassword(err error, password string) error {
	text := err.Error()
	shown, _, _ := strings.Cut(text, repeatedArguments)
	if password != "" {
		shown = strings.ReplaceAll(shown, password, "...")
	}
	if shown == text {
		return err
	}
	return errors.New(shown)
}
