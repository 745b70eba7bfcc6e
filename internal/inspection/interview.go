package inspection

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/resp"
)

// interview is the connection of one inspection to one node.
type interview struct {
	conn    *resp.Conn
	facts   *Facts
	hide    func(error) error // removes the passwords
	timeout time.Duration     // for one round trip
	end     func()            // closes the connection
}

// newInterview returns the interview on a connection, which is closed by end, or when ctx ends.
func newInterview(
	ctx context.Context, conn net.Conn, f *Facts, hide func(error) error, timeout time.Duration,
) *interview {
	stop := context.AfterFunc(ctx, func() { _ = endpoint.Abort(conn) })
	end := func() {
		stop()
		_ = endpoint.Abort(conn)
	}
	return &interview{resp.NewConn(conn), f, hide, timeout, end}
}

// ask is Conn.Do within the timeout. After an error the connection is closed or to be closed.
func (v *interview) ask(steps ...resp.Step) error {
	late := time.AfterFunc(v.timeout, func() { _ = endpoint.Abort(v.conn.Conn) })
	err := v.conn.Do(steps...)
	if !late.Stop() {
		return fmt.Errorf("no answer within %v", v.timeout)
	}
	return err
}

// identify asks for what does not change from one moment to the next. layouts is the key of the
// layouts in use. Servers before 7.0 take one section or pattern at a time.
func (v *interview) identify(layouts string) error {
	settings := func(r resp.Value) bool {
		v.facts.readConfig(resp.Pairs(r.Items))
		return r.Kind == '*'
	}
	return v.ask(
		v.info(),
		v.step(settings, "CONFIG GET", "*appendfsync*"),
		v.step(settings, "CONFIG GET", "save"),
		v.step(settings, "CONFIG GET", "repl-backlog-ttl"),
		// No server is to notify this connection of anything.
		v.permission("CLIENT TRACKING", "OFF"),
		v.permission("CLIENT CACHING", "NO"), // an error while tracking is off
		v.step(func(r resp.Value) bool {
			for _, item := range r.Items {
				v.facts.Layouts = append(v.facts.Layouts, item.Text)
			}
			return r.Kind == '*'
		}, "HGETALL", layouts),
	)
}

// info asks the server what it is.
func (v *interview) info() resp.Step {
	return v.step(func(r resp.Value) bool {
		text, ok := r.AsString()
		v.facts.readInfo(text)
		return ok
	}, "INFO")
}

// readAdmission reads the key of the restart guard; "" if it is of no interest.
func (v *interview) readAdmission(key string) error {
	if key == "" {
		return nil
	}
	a := new(Admission)
	return v.ask(
		v.step(func(r resp.Value) (ok bool) {
			a.Text, ok = r.AsString()
			v.facts.Admission = a
			return ok || r.Null
		}, "GET", key),
		v.step(func(r resp.Value) bool {
			milliseconds, err := strconv.ParseInt(r.Text, 10, 64)
			a.PTTL = time.Duration(milliseconds) * time.Millisecond
			return err == nil
		}, "PTTL", key),
	)
}

// permission is one command of which only is of interest whether the user may use it.
func (v *interview) permission(command, arg string) resp.Step {
	onReply := func(r resp.Value) error {
		if strings.HasPrefix(r.Text, "NOPERM ") {
			return v.recordCommandError(command, r.Text)
		}
		return nil
	}
	return resp.Step{Command: append(strings.Fields(command), arg), OnReply: onReply}
}

// step is one command, of one or two words, whose error is a fact. take reports whether a reply
// that is no error makes sense.
func (v *interview) step(take func(resp.Value) bool, command string, args ...string) resp.Step {
	onReply := func(r resp.Value) error {
		switch {
		case r.Kind == '-':
			return v.recordCommandError(command, strings.TrimPrefix(r.Text, "ERR "))
		case !take(r):
			return v.recordCommandError(command, errUnexpected.Error())
		}
		return nil
	}
	return resp.Step{Command: append(strings.Fields(command), args...), OnReply: onReply}
}

// sample asks for the time during SampleSpan.
func (v *interview) sample(ctx context.Context) error {
	for began := time.Now(); ; {
		s := Sample{Sent: time.Now()}
		err := v.ask(v.step(func(r resp.Value) (ok bool) {
			s.Server, ok = readTime(r)
			return ok
		}, "TIME"))
		s.Received = time.Now()
		if err != nil {
			return err
		}
		v.facts.Samples = append(v.facts.Samples, s)
		if s.Received.Sub(began) >= SampleSpan {
			return nil
		}
		select {
		case <-time.After(sampleGap):
		case <-ctx.Done(): // the next request ends with an error
		}
	}
}

// recordCommandError notes a command that the server answered with an error, once. It returns the
// error if the user may ask nothing.
func (v *interview) recordCommandError(command, text string) error {
	err := v.hide(errors.New(text))
	if strings.HasPrefix(text, "NOAUTH ") {
		return err
	}
	for _, r := range v.facts.CommandErrors {
		if r.Command == command {
			return nil
		}
	}
	v.facts.CommandErrors = append(v.facts.CommandErrors, CommandError{command, err.Error()})
	return nil
}
