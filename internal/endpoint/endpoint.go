// Package endpoint says what a master is to the client: how the user names it, how a connection to
// it is opened, how the client logs in there, and how it asks a server who the master is.
package endpoint

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// Endpoint is one node of the configuration, or one server to dial. It does not change.
type Endpoint struct {
	Name           string // what Nodes and errors show, without user and password
	Network        string // "tcp" or "unix"
	Address        string // to dial; if others name the master, that of the first of them
	User, Password string
	Database       int
	ClientName     string      // what CLIENT LIST shows; "" for none
	TLS            *tls.Config // nil without TLS
	// DialTimeout bounds one connect: the look-up of the name, the dial, TLS and the login.
	DialTimeout time.Duration
	// MasterSet is the name of the master at those that name it, which are Sentinels: sentinels, or
	// servers of a Redis Cluster. They are "" and nil if the address is the master's own.
	MasterSet string
	Sentinels []Endpoint
	// Cluster is of how many nodes in a Redis Cluster the node is one; 0 if it is in none. Then it
	// is the server that has Slot, where all keys are that begin with Tag.
	Cluster, Slot int
	Tag           string
}

// Identities returns what no other node may have: the address, or the master set at each of the
// sentinels.
func (e *Endpoint) Identities() (all []string) {
	if e.MasterSet == "" {
		return []string{e.Address}
	}
	for _, s := range e.Sentinels {
		all = append(all, e.MasterSet+"@"+s.Address)
	}
	return all
}

// LayoutName returns what a layout calls the node. Another database is another node, because it has
// other locks. The order in which sentinels are listed makes no difference.
func (e *Endpoint) LayoutName() string {
	name := e.Name
	if e.MasterSet != "" {
		name = slices.Min(e.Identities())
	}
	if e.Database != 0 {
		name += "/" + strconv.Itoa(e.Database)
	}
	return name
}

// WithAddress returns the endpoint of the master that sentinels have named.
func (e *Endpoint) WithAddress(address string) *Endpoint {
	master := *e
	master.Address = address
	if e.TLS != nil && e.TLS.ServerName == "" {
		master.TLS = withServerName(e.TLS, address)
	}
	return &master
}

// withServerName returns a TLS configuration for the server at the address.
func withServerName(secure *tls.Config, address string) *tls.Config {
	secure = secure.Clone()
	secure.ServerName, _, _ = net.SplitHostPort(address)
	return secure
}

// Handshake returns the steps that log in, as the endpoint says, and select the database.
func (e *Endpoint) Handshake() (steps []resp.Step) {
	switch {
	case e.User != "":
		login := []string{"AUTH", e.User, e.Password}
		steps = append(steps, resp.Step{Command: login, OnReply: resp.Value.Err})
	case e.Password != "":
		login := []string{"AUTH", e.Password}
		steps = append(steps, resp.Step{Command: login, OnReply: wrongPassword})
	}
	if e.Database != 0 {
		database := []string{"SELECT", strconv.Itoa(e.Database)}
		steps = append(steps, resp.Step{Command: database, OnReply: e.noDatabase})
	}
	return steps
}

// noDatabase takes the reply to SELECT.
func (e *Endpoint) noDatabase(v resp.Value) error {
	err := v.Err()
	if err != nil && strings.Contains(v.Text, "out of range") {
		err = fmt.Errorf("%w: the URL asks for database %d, the server has fewer", err, e.Database)
	}
	return err
}

// wrongPassword takes the reply to a password without a user. A server that wants none says so with
// a plain ERR, and is used without. From one that wants another, what follows is NOAUTH.
func wrongPassword(v resp.Value) error {
	if strings.HasPrefix(v.Text, "ERR ") {
		return nil
	}
	return v.Err()
}

// Parse reads one entry of the configuration: a node, or a Redis Cluster, which is several: see
// Nodes. tlsConfig is for rediss:// and for a text without a scheme; nil stands for the default of
// rediss://. dialTimeout is 0 for DialTimeout. The errors never contain the user or password.
func Parse(text string, tlsConfig *tls.Config, dialTimeout time.Duration) (*Endpoint, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, errors.New("is empty; give a URL such as redis://host:6379")
	}
	bare := !strings.Contains(text, "://")
	if bare {
		text = "redis://" + text
	}
	if err := checkText(text); err != nil {
		return nil, err
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("is not a URL such as redis://user:password@host:6379: %s",
			explain(text, err))
	}
	u.Scheme = strings.Replace(u.Scheme, "valkey", "redis", 1) // from here on they are the same
	e := &Endpoint{DialTimeout: cmp.Or(dialTimeout, DialTimeout)}
	if err := e.read(u, bare, tlsConfig); err != nil {
		return nil, fmt.Errorf("is not usable: %s", explain(text, err))
	}
	return e, nil
}

// read takes everything from the URL. bare: the user gave no scheme.
func (e *Endpoint) read(u *url.URL, bare bool, tlsConfig *tls.Config) error {
	if err := checkURL(u); err != nil {
		return err
	}
	query := u.Query()
	e.User = u.User.Username()
	e.Password, _ = u.User.Password()
	e.ClientName = query.Get("client_name")
	if err := e.readAddress(u); err != nil {
		return err
	}
	if err := e.readDatabase(u); err != nil {
		return err
	}
	if err := e.readTLS(u, bare, tlsConfig); err != nil {
		return err
	}
	switch {
	case query.Has("cluster"):
		return e.readCluster(u)
	case query.Has("master_set"):
		return e.readMasterSet(u)
	}
	e.TLS = e.WithAddress(e.Address).TLS
	return nil
}

func (e *Endpoint) readAddress(u *url.URL) error {
	if u.Scheme == "unix" {
		e.Network, e.Address = "unix", strings.TrimSpace(u.Path)
		e.Name = e.Address
		if e.Address == "" {
			return badURL("it has no path; give unix:///path/to/socket")
		}
		return nil
	}
	port := cmp.Or(u.Port(), "6379")
	if !IsPort(port) {
		return badURL(noPort)
	}
	e.Network, e.Address = "tcp", strings.ToLower(net.JoinHostPort(u.Hostname(), port))
	e.Name = e.Address
	return nil
}

// readDatabase reads the number of the database: the parameter db, or the path, unless that is the
// one of a socket.
func (e *Endpoint) readDatabase(u *url.URL) (err error) {
	texts := u.Query()["db"]
	if path := strings.TrimPrefix(u.Path, "/"); path != "" && u.Scheme != "unix" {
		texts = append(texts, path)
	}
	switch {
	case len(texts) > 1:
		return badURL("it has two databases: give one, in the path or as db")
	case len(texts) == 1:
		e.Database, err = strconv.Atoi(texts[0])
	}
	switch {
	case err != nil:
		return badURL("the database is not a number")
	case e.Database < 0:
		return badURL("the database is negative")
	}
	return nil
}

func (e *Endpoint) readTLS(u *url.URL, bare bool, tlsConfig *tls.Config) (err error) {
	switch {
	case tlsConfig != nil && u.Scheme == "redis" && !bare:
		return badURL("its scheme is without TLS, and Config.TLS is set: use rediss:// or " +
			"valkeys://, or leave Config.TLS out")
	case tlsConfig != nil && (bare || u.Scheme == "rediss"):
		e.TLS = tlsConfig.Clone()
	case u.Scheme == "rediss":
		e.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	default:
		return nil
	}
	if query := u.Query(); u.Scheme == "rediss" && query.Has("skip_verify") {
		skip, err := strconv.ParseBool(cmp.Or(query.Get("skip_verify"), "true"))
		if err != nil {
			return badURL("skip_verify is neither true nor false")
		}
		e.TLS.InsecureSkipVerify = e.TLS.InsecureSkipVerify || skip
	}
	return nil
}
