package multiplex

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
	"github.com/redis/rueidis"
)

// inScriptMarker is in the text of errors that came up while a script ran.
const inScriptMarker = "script: "

// classifyError returns the answer that a result with an error stands for.
func classifyError(r rueidis.RedisResult) answer {
	if err := r.NonRedisError(); err != nil {
		// Also the server's error on a connection that it did not accept.
		var dial *dialError
		unsent := errors.Is(err, errNotConnected) || errors.As(err, &dial)
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			// Of the connector's dial, which the flush was waiting for: a flush has no context of
			// its own.
			unsent, err = true, errors.New("connecting took too long")
		}
		return answer{leftNothing: unsent, broken: !unsent, err: err}
	}
	text := r.Error().Error()
	code, _, _ := strings.Cut(text, " ")
	// Some servers also say NOPERM of a command inside a script, which may have written before.
	nothing := resp.Rejected(code) &&
		(code != "NOPERM" || !strings.Contains(text, inScriptMarker))
	return answer{leftNothing: nothing, replied: true, err: errors.New(text)}
}

// errBadSetReply is the error of a reply that is neither of the two that SET NX has.
const errBadSetReply = resp.ProtocolError("SET replied with neither OK nor null")

// readReply takes the reply to one command. null is a reply without a value.
func (f *flushScratch) readReply(p *command, m *rueidis.RedisMessage, null bool,
	attempts []*Attempt, answers []answer,
) {
	if p.script == nil {
		if null {
			answers[p.index] = answer{vote: refused, leftNothing: true, replied: true}
		} else if text, err := m.ToString(); err != nil || text != "OK" {
			answers[p.index] = answer{replied: true, err: errBadSetReply}
		}
		return
	}
	if p.script == script.RaiseFence {
		return
	}
	refusals, err := f.decode(p, m)
	if err != nil {
		p.failAll(answer{replied: true, err: resp.ProtocolError(err.Error())}, attempts, answers)
		return
	}
	for _, r := range refusals {
		place := p.call.Owners[r.Set]
		// If a set fits into one call, nothing of it was taken. Of a larger one other calls may
		// have taken parts.
		nothing := p.script != script.Extend && !attempts[place].spansCalls()
		if r.HighestFence > 0 {
			answers[place].setFenceTooLow(r.HighestFence, nothing)
			continue
		}
		key := int32(-1)
		if r.Key != script.Refilled {
			key = int32(p.call.Offset[r.Set] + r.Key)
		}
		answers[place] = answer{
			vote: refused, leftNothing: nothing, replied: true,
			broken: answers[place].broken, keyIndex: key,
		}
	}
}

// decode returns the sets that a script refused. After an error the whole call is unknown.
func (f *flushScratch) decode(p *command, m *rueidis.RedisMessage) ([]script.Refusal, error) {
	f.refusals, f.decoded = f.refusals[:0], f.decoded[:0]
	switch {
	case m.IsInt64() && p.script == script.Release:
		return nil, nil
	case m.IsInt64():
		n, _ := m.ToInt64()
		return nil, script.DecodeCount(n, len(p.call.Owners))
	case m.IsArray() && p.script != script.Release:
		list, err := m.ToArray()
		for i := range list {
			n, bad := list[i].ToInt64()
			err = errors.Join(err, bad)
			f.decoded = append(f.decoded, n)
		}
		if err != nil {
			return nil, err
		}
		f.refusals, err = script.DecodeList(f.refusals, f.decoded, &p.call)
		return f.refusals, err
	}
	return nil, errors.New("script replied with neither a number nor a list")
}

// failAll gives every attempt of a command that failed the same answer.
//
// A node that refused a part of a set has refused the set. If a connection breaks under a part, the
// node may still do that part, whatever happens to the others, for example to those that are sent
// again.
//
// An error about raising fence keys is no vote: the extension behind it is one. But if the
// connection broke first, that extension may have been granted already, because only the script of
// the raise had to be loaded. Then it must not count.
func (p *command) failAll(r answer, attempts []*Attempt, answers []answer) {
	if p.script == script.RaiseFence && !r.broken {
		return
	}
	owners := p.call.Owners
	if p.script == nil {
		owners = []int{p.index}
	}
	for _, place := range owners {
		broken := r.broken || answers[place].broken
		if answers[place].vote == refused {
			answers[place].broken = broken
			continue
		}
		own := r
		own.leftNothing, own.broken = r.leftNothing && !attempts[place].spansCalls(), broken
		answers[place] = own
	}
}

// spansCalls reports whether the attempt's keys need more than one call.
func (a *Attempt) spansCalls() bool {
	most := script.MaxKeys
	if a.kind == acquire && a.claim.fence() != nil {
		most = script.AcquireFenced.MaxSet()
	}
	return a.claim.Len() > most
}

// retryable reports whether a command was not executed for a reason that a retry removes. Either
// its script was not loaded, or one of several callers' keys is forbidden, which must not fail the
// other callers.
func (p *command) retryable(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	if !ok || p.script == nil {
		return false
	}
	return reply.IsNoScript() || p.noPermission(err)
}

// noPermission reports whether the server refused the call because of one of its keys, before it
// ran the script.
func (p *command) noPermission(err error) bool {
	text := err.Error()
	return len(p.call.Owners) > 1 && strings.HasPrefix(text, "NOPERM") &&
		!strings.Contains(text, inScriptMarker)
}

// appendRetry appends what is to be sent once more: the same call if its script was missing, else
// each set alone.
func (p *command) appendRetry(commands []command, err error) []command {
	if !p.noPermission(err) {
		return append(commands, *p)
	}
	for _, c := range p.call.Split() {
		commands = append(commands, command{script: p.script, call: c})
	}
	return commands
}

// stillUseful returns the commands that it is still of use to retry, and answers the others.
func stillUseful(commands []command, attempts []*Attempt, answers []answer) []command {
	var useful []command
	now := time.Now()
	skipped := func(place int) bool { return attempts[place].skipReason(now) != nil }
	for _, p := range commands {
		if !slices.ContainsFunc(p.call.Owners, skipped) {
			useful = append(useful, p)
			continue
		}
		for _, c := range p.call.Split() {
			alone := command{script: p.script, call: c}
			if why := attempts[c.Owners[0]].skipReason(now); why != nil {
				alone.failAll(answer{leftNothing: true, err: why}, attempts, answers)
			} else {
				useful = append(useful, alone)
			}
		}
	}
	return useful
}
