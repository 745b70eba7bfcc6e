package preflight

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockpipe/lockpipe/internal/link"
	"github.com/lockpipe/lockpipe/internal/resp"
)

// checkState reports a node that has no vote, or could not be asked. all are all nodes.
func (f *findings) checkState(node *Facts, all []Facts) {
	if node.Err != nil {
		f.checkError(node)
		return
	}
	if node.Status == nil {
		return
	}
	switch why := node.StateErr; {
	case node.State == link.Quarantined:
		f.errorf("has no vote: %v", why)
	case node.State == link.Failing:
		f.errorf("is failing, and grants no locks (%v): %s", why, remedy(why))
	case node.State == link.Connecting:
		f.warnf("answers, but has no vote before the client is connected")
	case node.State == link.Down && !explained(node, all):
		f.errorf("answers, but can't be used and has no vote (%v): %s", why, remedy(why))
	}
}

// checkError reports a node that could not be asked.
func (f *findings) checkError(node *Facts) {
	why := node.Err
	if node.isVoting() && !strings.HasPrefix(why.Error(), "no answer ") {
		f.errorf("takes no new connection (%v), so it has no vote when it loses the present "+
			"one: %s", why, remedy(why))
		return
	}
	if node.Status != nil && errors.Is(why, resp.ErrUnanswered) &&
		errors.Is(node.StateErr, resp.ErrUnanswered) {
		why = node.StateErr // it may have advice about TLS
	}
	f.errorf("can't be used and has no vote (%v): %s", why, remedy(why))
}

// explained reports whether other findings say why the node is down.
func explained(node *Facts, all []Facts) bool {
	return node.unfit() != nil ||
		slices.ContainsFunc(all, func(other Facts) bool {
			return other.Node != node.Node && sameServer(node, &other)
		})
}

// remedies say what to do about a node that can't be used, by a part of its error's text. The first
// that matches counts.
var remedies = [...]struct{ says, do string }{
	{"no sentinel names the master:", "do what is said for each sentinel, or correct its URL"},
	{"the cluster announces", "start it, or correct what it announces or its certificate: see " +
		"docs/operations.md"},
	{"as the owner of slot", "start the servers that do not answer, have the cluster forget those " +
		"that are gone, or mend the partition"},
	{"knows the owner of slot", "do what is said for each server, or correct the cluster's URL"},
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
