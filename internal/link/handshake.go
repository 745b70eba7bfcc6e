package link

import (
	"cmp"
	"crypto/rand"
	"log/slog"
	"strings"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
)

// handshake returns what the client does first on a new connection, before the restart guard
// asks anything: it authenticates, selects the database, loads the scripts, finds out how the user
// may delete and which newer commands there are, and lets the server report watched keys, if it
// can. The key that it uses does not exist. rueidis does some of it again.
func (l *Link) handshake(c *Conn) []resp.Step {
	none := l.cfg.Prefix + ids.ProbeKey + rand.Text()
	if l.Tag() != "" {
		c.Allow(Tagged)
	}
	steps := l.logins.Handshake(endpoint.ForLocks)
	steps = append(steps, permitted(none, l.cfg.Guard != guard.Off)...)
	steps = append(steps, c.findCommands(none)...)
	steps = append(steps, resp.Step{Command: []string{"INFO", "memory"}, OnReply: l.warnOfEviction})
	// No NOLOOP: the server reports the releases of this process too.
	tracking := []string{"CLIENT", "TRACKING", "ON", "OPTIN"}
	return append(steps, resp.Step{Command: tracking, OnReply: busy})
}

// warnOfEviction takes the reply to INFO memory. It logs each policy once that evicts keys.
func (l *Link) warnOfEviction(v resp.Value) error {
	text, _ := v.AsString()
	policy := resp.ParseInfo(text)["maxmemory_policy"]
	if policy == "" || policy == l.policy {
		return nil
	}
	if l.policy = policy; policy != "noeviction" {
		l.cfg.Logger.Warn("lockpipe: node may evict locks while they are held: set its "+
			"maxmemory-policy to noeviction", slog.String("node", l.Name()),
			slog.String("maxmemory-policy", policy))
	}
	return nil
}

// permitted loads the scripts, and asks for the permissions that locks need: locks of a user who
// may set them and not delete them would stay for their TTL. It also finds out whether the server
// is useless for another reason. guarded: the script of the guard is needed as well.
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
	steps = append(steps, resp.Step{
		Command: []string{"EVALSHA", script.Probe.SHA, "1", none},
		OnReply: func(v resp.Value) error {
			if err := probed(v.Texts(), v.Err()); err != nil && IsUseless(err) {
				return err // another error may be that of the moment
			}
			return missing(v)
		},
	})
	for _, command := range [][]string{{"CLIENT", "ID"}, {"CLIENT", "KILL", "ID", noClient}} {
		steps = append(steps, resp.Step{Command: command, OnReply: func(v resp.Value) error {
			if strings.HasPrefix(v.Text, "NOPERM ") {
				return &ForbiddenError{command[0] + " " + command[1], v.Text}
			}
			return nil
		}})
	}
	if guarded {
		run := []string{"EVALSHA", script.Guard.SHA, "1", none, "seen", "wanted", "", "", ""}
		steps = append(steps, resp.Step{Command: run, OnReply: missing}) // it writes nothing
	}
	return steps
}

// noClient is a number of a connection that no server has.
const noClient = "9223372036854775807"

// busy takes the reply to what is asked for once on a connection: a server that is busy for the
// moment is to be asked again, on another one.
func busy(v resp.Value) error {
	if strings.HasPrefix(v.Text, "BUSY ") {
		return v.Err()
	}
	return nil
}
