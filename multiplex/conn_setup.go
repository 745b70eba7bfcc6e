package multiplex

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
	"github.com/redis/rueidis"
)

// setup returns what the client does first on a new connection for locks, before the restart guard
// asks anything: it authenticates, selects the database, loads the scripts, finds out how the user
// may delete, and lets the server report watched keys, if it can. The key that it uses does not
// exist. rueidis does some of it again.
func (n *node) setup(c *nodeConn) []resp.Step {
	option := n.endpoint.option
	n.logins.current.Load().apply(&option)
	none := n.mux.cfg.Prefix + probeKey + rand.Text()
	steps := credentials(&option)
	steps = append(steps, permitted(none, n.mux.cfg.Guard != GuardOff)...)
	// No NOLOOP: the server reports the releases of this process too.
	tracking := []string{"CLIENT", "TRACKING", "ON", "OPTIN"}
	return append(steps, resp.Step{Command: tracking, OnReply: busy})
}

// credentials authenticates, and selects the database.
func credentials(o *rueidis.ClientOption) (steps []resp.Step) {
	switch {
	case o.Username != "":
		login := []string{"AUTH", o.Username, o.Password}
		steps = append(steps, resp.Step{Command: login, OnReply: resp.Value.Err})
	case o.Password != "":
		login := []string{"AUTH", o.Password}
		steps = append(steps, resp.Step{Command: login, OnReply: wrongPassword})
	}
	if o.SelectDB != 0 {
		database := []string{"SELECT", strconv.Itoa(o.SelectDB)}
		steps = append(steps, resp.Step{Command: database, OnReply: resp.Value.Err})
	}
	return steps
}

// permitted loads the scripts and asks whether a lock could be released: by a user who may set
// locks and not delete them, they would stay for their TTL. guarded: the scripts for the marker are
// needed as well.
func permitted(none string, guarded bool) (steps []resp.Step) {
	var unloaded error
	for _, s := range script.All() {
		load := func(v resp.Value) error {
			unloaded = cmp.Or(unloaded, v.Err())
			return nil
		}
		steps = append(steps, resp.Step{
			Command: []string{"SCRIPT", "LOAD", s.Source}, OnReply: load,
		})
	}
	missing := func(v resp.Value) error {
		if strings.HasPrefix(v.Text, "NOSCRIPT") {
			return unloaded
		}
		return nil
	}
	unusable := func(v resp.Value) error { return cmp.Or(missing(v), forbidden(v)) }
	release := []string{"EVALSHA", script.Release.SHA, "1", none, "1", "none"}
	steps = append(
		steps,
		resp.Step{Command: release, OnReply: unusable},
		// If the key of that name is not allowed, the script did not get that far.
		resp.Step{Command: []string{"MGET", none}, OnReply: forbidden},
		resp.Step{Command: []string{"DEL", none}, OnReply: forbidden},
	)
	if guarded {
		for _, s := range []*script.Script{script.WriteMarker, script.Renew} { // they write nothing
			run := []string{"EVALSHA", s.SHA, "2", none, none, "seen", "wanted", "", ""}
			steps = append(steps, resp.Step{Command: run, OnReply: missing})
		}
	}
	return steps
}

// forbidden takes the reply to a command that the user may not, or nobody can, use. What is said
// about the key of that name need not hold for those of locks, and another error may be that of the
// moment.
func forbidden(v resp.Value) error {
	code, text, _ := strings.Cut(v.Text, " ")
	if err := v.Err(); err != nil && (code == "NOPERM" || code == "ERR") &&
		strings.Contains(text, "command") {
		return fmt.Errorf("locks could not be released: %w", err)
	}
	return nil
}

// wrongPassword takes the reply to a password without a user. A server that wants none says so with
// a plain ERR, and is used without. From one that wants another, what follows is NOAUTH.
func wrongPassword(v resp.Value) error {
	if strings.HasPrefix(v.Text, "ERR ") {
		return nil
	}
	return v.Err()
}

// busy takes the reply to what is asked for once on a connection: a server that is busy for the
// moment is to be asked again, on another one.
func busy(v resp.Value) error {
	if strings.HasPrefix(v.Text, "BUSY ") {
		return v.Err()
	}
	return nil
}
