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

// notExecuted are the first words of errors that a server gives before it executes anything of a
// command. All of them depend on a state of the server that does not change while a script runs, so
// a script that meets one has written nothing.
var notExecuted = map[string]bool{
	"READONLY": true, "OOM": true, "MISCONF": true, "NOREPLICAS": true, "MASTERDOWN": true,
	"BUSY":    true,
	"LOADING": true, "NOAUTH": true, "NOPERM": true, "NOSCRIPT": true, "CLUSTERDOWN": true,
	"MOVED": true, "TRYAGAIN": true,
}

// insideScript is in the text of errors that came up while a script ran.
const insideScript = "script: "

// failed is the answer that a result with an error stands for.
func failed(r rueidis.RedisResult) answer {
	if err := r.NonRedisError(); err != nil {
		// Also the server's answer to a connection that it did not accept.
		var dial *dialError
		unsent := errors.Is(err, errGate) || errors.As(err, &dial)
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			// Of the keeper's dial, which the flush was waiting for: a flush has no context of its
			// own.
			unsent, err = true, errors.New("connecting took too long")
		}
		return answer{nothing: unsent, broken: !unsent, err: err}
	}
	text := r.Error().Error()
	code, _, _ := strings.Cut(text, " ")
	// Some servers say NOPERM also of a command inside a script, which may have written before.
	nothing := notExecuted[code] && (code != "NOPERM" || !strings.Contains(text, insideScript))
	return answer{nothing: nothing, replied: true, err: errors.New(text)}
}

// errNoReplyToSet is the error of a reply that is neither of the two that SET NX has.
const errNoReplyToSet = resp.ProtocolError("SET replied with neither OK nor null")

// read takes the reply to one part. null is a reply without a value.
func (f *flight) read(p *part, m *rueidis.RedisMessage, null bool, attempts []*Attempt,
	answers []answer,
) {
	if p.script == nil {
		if null {
			answers[p.place] = answer{vote: refused, nothing: true, replied: true}
		} else if text, err := m.ToString(); err != nil || text != "OK" {
			answers[p.place] = answer{replied: true, err: errNoReplyToSet}
		}
		return
	}
	if p.script == script.RaiseFence {
		return
	}
	refusals, err := f.decode(p, m)
	if err != nil {
		p.spread(answer{replied: true, err: resp.ProtocolError(err.Error())}, attempts, answers)
		return
	}
	for _, r := range refusals {
		place := p.call.Owners[r.Set]
		// Of a set that fits into one call nothing was taken; of a larger one other parts may have
		// been.
		nothing := p.script != script.Extend && !attempts[place].split()
		if r.HighestFence > 0 {
			answers[place].stale(r.HighestFence, nothing)
			continue
		}
		key := int32(-1)
		if r.Key != script.Refilled {
			key = int32(p.call.Offset[r.Set] + r.Key)
		}
		answers[place] = answer{
			vote: refused, nothing: nothing, replied: true,
			broken: answers[place].broken, key: key,
		}
	}
}

// decode returns the sets that a script refused. An error leaves the whole call unknown.
func (f *flight) decode(p *part, m *rueidis.RedisMessage) ([]script.Refusal, error) {
	f.refusals, f.numbers = f.refusals[:0], f.numbers[:0]
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
			f.numbers = append(f.numbers, n)
		}
		if err != nil {
			return nil, err
		}
		f.refusals, err = script.DecodeList(f.refusals, f.numbers, &p.call)
		return f.refusals, err
	}
	return nil, errors.New("script replied with neither a number nor a list")
}

// spread gives every attempt of a part that failed the same answer. A node that refused a part of a
// set has refused it, and one whose connection broke under a part may still do that part, whatever
// becomes of the others: of those that are sent again, for instance. What a server says against
// raising companions is no vote: the extension behind tells. But where the connection broke first,
// that may have been granted already, because only its script was loaded, and must not count.
func (p *part) spread(r answer, attempts []*Attempt, answers []answer) {
	if p.script == script.RaiseFence && !r.broken {
		return
	}
	owners := p.call.Owners
	if p.script == nil {
		owners = []int{p.place}
	}
	for _, place := range owners {
		broken := r.broken || answers[place].broken
		if answers[place].vote == refused {
			answers[place].broken = broken
			continue
		}
		own := r
		own.nothing, own.broken = r.nothing && !attempts[place].split(), broken
		answers[place] = own
	}
}

// split reports whether the attempt's keys need more than one call.
func (a *Attempt) split() bool {
	most := script.MaxKeys
	if a.kind == acquire && a.claim.fence() != nil {
		most = script.AcquireFenced.MaxSet()
	}
	return a.claim.Len() > most
}

// repeatable reports whether a part was not executed for a reason that a second try removes: the
// script was not loaded, or one of several callers' keys is forbidden, which must not fail the
// others.
func (p *part) repeatable(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	if !ok || p.script == nil {
		return false
	}
	return reply.IsNoScript() || p.forbidden(err)
}

// forbidden reports whether the server refused the call for one of its keys before it ran the
// script.
func (p *part) forbidden(err error) bool {
	text := err.Error()
	return len(p.call.Owners) > 1 && strings.HasPrefix(text, "NOPERM") &&
		!strings.Contains(text, insideScript)
}

// repeat appends what is to be sent once more: the same call where its script was missing, else
// each set alone.
func (p *part) repeat(parts []part, err error) []part {
	if !p.forbidden(err) {
		return append(parts, *p)
	}
	for _, c := range p.call.Split() {
		parts = append(parts, part{script: p.script, call: c})
	}
	return parts
}

// useful leaves out what is of no use any more to be sent once more, and answers it.
func useful(parts []part, attempts []*Attempt, answers []answer) []part {
	var kept []part
	now := time.Now()
	pointless := func(place int) bool { return attempts[place].pointless(now) != nil }
	for _, p := range parts {
		if !slices.ContainsFunc(p.call.Owners, pointless) {
			kept = append(kept, p)
			continue
		}
		for _, c := range p.call.Split() {
			alone := part{script: p.script, call: c}
			if why := attempts[c.Owners[0]].pointless(now); why != nil {
				alone.spread(answer{nothing: true, err: why}, attempts, answers)
			} else {
				kept = append(kept, alone)
			}
		}
	}
	return kept
}
