package link

import (
	"cmp"
	"crypto/rand"
	"fmt"
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
	steps := l.logins.Handshake(endpoint.ForLocks)
	steps = append(steps, permitted(none, l.cfg.Guard != guard.Off)...)
	steps = append(steps, c.findCommands(none)...)
	// No NOLOOP: the server reports the releases of this process too.
	tracking := []string{"CLIENT", "TRACKING", "ON", "OPTIN"}
	return append(steps, resp.Step{Command: tracking, OnReply: busy})
}

// permitted loads the scripts and asks whether a lock could be released: by a user who may set
// locks and not delete them, they would stay for their TTL. guarded: the script of the guard is
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
		run := []string{"EVALSHA", script.Guard.SHA, "1", none, "seen", "wanted", "", "", ""}
		steps = append(steps, resp.Step{Command: run, OnReply: missing}) // it writes nothing
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

// busy takes the reply to what is asked for once on a connection: a server that is busy for the
// moment is to be asked again, on another one.
func busy(v resp.Value) error {
	if strings.HasPrefix(v.Text, "BUSY ") {
		return v.Err()
	}
	return nil
}
