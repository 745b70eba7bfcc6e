package preflight

import (
	"fmt"
	"strings"
)

// remedies say what to do about a node that can't be used, by a part of its error's text. The first
// that matches counts.
var remedies = [...]struct{ says, do string }{
	{"no sentinel names the master:", "do what is said for each sentinel, or correct its URL"},
	{"Config.Credentials", "correct Config.Credentials"},
	{"WRONGPASS ", "correct the user or password in its URL or of Config.Credentials, " +
		"or on the server (ACL SETUSER)"},
	{"NOAUTH ", "the server wants a password: put user and password into its URL, " +
		"or set Config.Credentials"},
	{"its user may not use", "give its user the permissions that docs/operations.md lists " +
		"(ACL SETUSER)"},
	{"NOPERM ", "give its user the permissions that docs/operations.md lists (ACL SETUSER)"},
	{"DENIED ", "set a password on the server, and put it into its URL"},
	{"OOM ", "raise its maxmemory, or keep other data off it"},
	{"MISCONF ", "look at its disk and its log"},
	{"max number of clients", "raise its maxclients, or close other clients"},
	{"lookup ", "correct the host name in its URL, or the name service (DNS) of this machine"},
	{"connection refused", "start it, or correct its URL: nothing listens at that address"},
	{"came without TLS", "start the server behind the proxy, if it is one; if the server wants TLS, " +
		"use rediss:// in its URL"},
	{"answer the TLS handshake", "if the server speaks no TLS, use redis:// in its URL"},
	{"x509: ", "correct Config.TLS or the server's certificate: see docs/operations.md"},
	{"tls: ", "correct Config.TLS or the server's certificate: see docs/operations.md"},
	{"Config.Dial", "correct Config.Dial"},
	{"not connected within", hangs},
	{"no answer ", hangs},
	{"timeout", hangs},
	{"unreachable", route},
	{"no route to host", route},
}

// What to do about a node that answers nothing, and about one that can't be reached.
const (
	hangs = "find out whether the server hangs, or a firewall drops what is sent to it"
	route = "correct its URL, or the route and the firewalls in between"
)

// remedy says what to do about a node that can't be used.
func remedy(err error) string {
	text := fmt.Sprint(err)
	for _, r := range remedies {
		if strings.Contains(text, r.says) {
			return r.do
		}
	}
	return "start the server, correct its URL, or mend what its error says"
}
