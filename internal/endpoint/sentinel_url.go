package endpoint

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const sentinelPort = "26379"

// sentinelParameter returns the first parameter of a URL that only a master by Sentinel has; "" if
// there is none.
func sentinelParameter(query url.Values) string {
	for _, name := range [...]string{
		"addr", "master_set", "sentinel_user", "sentinel_password", "sentinel_tls",
	} {
		if query.Has(name) {
			return name
		}
	}
	return ""
}

// readMasterSet reads the parameters of a master by Sentinel.
func (e *Endpoint) readMasterSet(u *url.URL) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
	query := u.Query()
	e.MasterSet = query.Get("master_set")
	if e.MasterSet == "" || strings.Trim(e.MasterSet, letters) != "" {
		return badURL("master_set has to be a name of letters, digits and . - _")
	}
	if query.Get("sentinel_user") != "" && query.Get("sentinel_password") == "" {
		return badURL("it has sentinel_user, and sentinel_password is missing")
	}
	s := Endpoint{
		Network: "tcp", User: query.Get("sentinel_user"), Password: query.Get("sentinel_password"),
		DialTimeout: e.DialTimeout,
	}
	if query.Has("sentinel_tls") {
		wanted, err := strconv.ParseBool(cmp.Or(query.Get("sentinel_tls"), "true"))
		switch {
		case err != nil:
			return badURL("sentinel_tls is neither true nor false")
		case wanted && e.TLS == nil:
			return badURL("sentinel_tls needs a master with TLS: use rediss://")
		case wanted:
			s.TLS = e.TLS
		}
	}
	return e.readSentinels(u, &s, "sentinel", sentinelPort)
}

// readSentinels reads the addresses of those that name the master: what they are, and their usual
// port. All are as s, but for the address.
func (e *Endpoint) readSentinels(u *url.URL, s *Endpoint, what, port string) error {
	for _, text := range append([]string{u.Host}, u.Query()["addr"]...) {
		address, err := sentinelAddress(text, what, port)
		if err != nil {
			return err
		}
		s.Address = address
		same := func(other Endpoint) bool { return other.Address == address }
		if slices.ContainsFunc(e.Sentinels, same) {
			return badURL("it names a " + what + " twice")
		}
		e.Sentinels = append(e.Sentinels, *s.WithAddress(address))
	}
	e.Address = e.Sentinels[0].Address
	e.setNames()
	return nil
}

// setNames names the node by its master set and the first sentinel.
func (e *Endpoint) setNames() {
	e.Name = e.MasterSet + "@" + e.Address
	for i := range e.Sentinels {
		e.Sentinels[i].Name = e.Name
	}
}

// sentinelAddress reads host, or host:port. The text may be a piece of a password, so the error
// does not show it.
func sentinelAddress(text, what, usual string) (string, error) {
	u, err := url.Parse("//" + strings.ToLower(text))
	if err != nil || u.Hostname() == "" || u.Host != strings.ToLower(text) ||
		strings.ContainsAny(u.Hostname(), ", =") {
		return "", badURL("addr has to be host:port of one " + what)
	}
	port := cmp.Or(u.Port(), usual)
	if !IsPort(port) {
		return "", badURL("the port of a " + what + " is not a number from 1 to 65535")
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}
