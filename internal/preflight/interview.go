package preflight

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/resp"
)

// interview is one connection to a node. What the server says goes into facts.
type interview struct {
	node    *node
	conn    *resp.Conn
	facts   *Facts
	timeout time.Duration // for one round trip
	end     func()        // closes the connection
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
	v.facts.Settings = make(map[string]string)
	settings := func(r resp.Value) bool {
		maps.Copy(v.facts.Settings, resp.Pairs(r.Items))
		return r.Kind == '*'
	}
	anything := func(resp.Value) bool { return true }
	return v.ask(
		v.info(),
		v.step(settings, "CONFIG GET", "*appendfsync*"),
		v.step(settings, "CONFIG GET", "repl-backlog-ttl"),
		v.step(settings, "CONFIG GET", "cluster-*"),
		// No server is to notify this connection of anything.
		v.step(anything, "CLIENT TRACKING", "OFF"),
		v.step(anything, "CLIENT CACHING", "NO"), // an error while tracking is off
		v.step(func(r resp.Value) bool {
			v.facts.Layouts = r.Texts()
			return r.Kind == '*'
		}, "HGETALL", layouts),
	)
}

// askCluster asks how many shards the server's cluster has.
func (v *interview) askCluster() error {
	return v.ask(v.step(func(r resp.Value) (ok bool) {
		text, ok := r.AsString()
		v.facts.Shards, _ = strconv.Atoi(resp.ParseInfo(text)["cluster_size"])
		return ok
	}, "CLUSTER INFO"))
}

// info asks the server what it is.
func (v *interview) info() resp.Step {
	return v.step(func(r resp.Value) bool {
		text, ok := r.AsString()
		text = strings.TrimPrefix(text, "txt:") // the type of a verbatim string
		v.facts.Info = resp.ParseInfo(text)
		return ok
	}, "INFO")
}

// readAdmission reads the key of the restart guard.
func (v *interview) readAdmission(key string) error {
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

// step is one command, of one or two words, whose error is a fact. take reports whether a reply
// that is no error makes sense.
func (v *interview) step(take func(resp.Value) bool, command string, args ...string) resp.Step {
	onReply := func(r resp.Value) error {
		switch {
		case r.Kind == '-':
			return v.recordCommandError(command, strings.TrimPrefix(r.Text, "ERR "))
		case !take(r):
			return v.recordCommandError(command, "unexpected reply")
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
		guard.Sleep(ctx, sampleGap) // if ctx ends, the next request ends with an error
	}
}

// recordCommandError notes a command that the server answered with an error, once. Of CLIENT it is
// only of interest whether the user may use it. It returns the error if the user may ask nothing.
func (v *interview) recordCommandError(command, text string) error {
	err := v.node.logins.Hide(errors.New(text))
	if strings.HasPrefix(text, "NOAUTH ") {
		return err
	}
	ignored := strings.HasPrefix(command, "CLIENT ") && !strings.HasPrefix(text, "NOPERM ")
	if !ignored && !v.facts.returnedError(command) {
		v.facts.CommandErrors = append(v.facts.CommandErrors, CommandError{command, err.Error()})
	}
	return nil
}
