package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// checkExclusion finds holds of one key that overlap in true time. If one ends at the instant at
// which the other begins, they do not overlap.
func (h *history) checkExclusion() {
	for key, holds := range h.byKey() {
		slices.SortFunc(holds, func(a, b *hold) int {
			return cmp.Or(a.from.Compare(b.from),
				a.end.Compare(b.end))
		})
		for i, last := 1, holds[0]; i < len(holds); i++ {
			if next := holds[i]; last.end.After(next.from) {
				h.violation("%s and %s both hold %s: since %v, since %v, for %v together", last.who,
					next.who, key,
					last.from.Sub(h.start), next.from.Sub(h.start), min(last.end.Sub(next.from),
						next.end.Sub(next.from)))
			}
			if holds[i].end.After(last.end) {
				last = holds[i]
			}
		}
	}
}

// checkKept finds holds that began while the key was kept, and keys that were adopted twice.
func (h *history) checkKept() {
	for key, holds := range h.byKey() {
		adopted := map[string]*hold{}
		for _, b := range holds {
			switch first := adopted[b.adopts]; {
			case b.adopts == "":
			case first != nil:
				h.violation("%s and %s have adopted %s from one holder: since %v, since %v",
					first.who, b.who, key, first.from.Sub(h.start), b.from.Sub(h.start))
			default:
				adopted[b.adopts] = b
			}
		}
		for _, kept := range holds {
			until := kept.keptUntil
			if next := adopted[kept.lease.Token()]; next != nil && next.began.Before(until) {
				until = next.began
			}
			for _, next := range holds {
				if next.began.After(kept.began) && next.began.Before(until) {
					h.violation("%s holds %s since %v, although %s has kept it for another %v",
						next.who, key, next.from.Sub(h.start), kept.who,
						until.Sub(next.began))
				}
			}
		}
	}
}

// checkFences finds fences that are not above those of all earlier holds of the key.
func (h *history) checkFences() {
	for key, holds := range h.byKey() {
		slices.SortFunc(holds, func(a, b *hold) int {
			return cmp.Or(a.from.Compare(b.from),
				a.end.Compare(b.end))
		})
		highest := &hold{}
		for _, b := range holds {
			switch {
			case b.fence == 0:
			case b.fence > highest.fence:
				highest = b
			default:
				h.violation("%s has a fence of %d for %s since %v, which is not above the %d "+
					"that %s had since %v", b.who, b.fence, key,
					b.from.Sub(h.start), highest.fence, highest.who, highest.from.Sub(h.start))
			}
		}
	}
}

func (h *history) byKey() map[string][]*hold {
	all := map[string][]*hold{}
	for _, b := range h.holds {
		for _, key := range b.keys {
			all[key] = append(all[key], b)
		}
	}
	return all
}

// The operations on a lock, as porcupine sees them.
type (
	acquires struct{ hold *hold }
	extends  struct{ hold *hold }
	ends     struct{ hold *hold }
)

// lockModel is a lock. Its state is the hold that has it, or nil.
var lockModel = porcupine.Model{
	Init: func() any { return (*hold)(nil) },
	Step: func(state, input, _ any) (bool, any) {
		holder := state.(*hold)
		switch in := input.(type) {
		case acquires:
			return holder == nil, in.hold
		case extends:
			return holder == in.hold, holder
		default:
			return holder == input.(ends).hold, (*hold)(nil)
		}
	},
}

// checkLinearizable asks porcupine whether the history of each key is one of a lock.
func (h *history) checkLinearizable() {
	for key, holds := range h.byKey() {
		var ops []porcupine.Operation
		add := func(input any, called, returned time.Time) {
			ops = append(ops, porcupine.Operation{
				Input: input, Call: int64(called.Sub(h.start)),
				Return: int64(returned.Sub(h.start)),
			})
		}
		for _, b := range holds {
			add(acquires{b}, b.called, b.from)
			for _, e := range b.extensions {
				if !e.returned.After(b.end) { // else the lease ended before the call returned
					add(extends{b}, e.called, e.returned)
				}
			}
			end := b.end
			if b.released.After(end) {
				end = b.released
			}
			add(ends{b}, b.end, end)
		}
		if porcupine.CheckOperationsTimeout(lockModel, ops, time.Minute) == porcupine.Illegal {
			h.violation("porcupine: the history of %s is not one of a lock", key)
		}
	}
}
