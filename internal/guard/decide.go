package guard

import "time"

// sight is what a client sees of a node.
type sight struct {
	server server
	text   string        // of the guard's key; "" if there is none
	left   time.Duration // until the key ends; negative if it does not
	at     time.Time     // before the key was read
}

// known is what the client knows besides.
type known struct {
	returned bool          // rule e: the node had this memory, then another one
	lost     bool          // rule d: what has no name has lost it
	wait     time.Duration // rule c: the longest that it has heard of, its own included
	heard    bool          // rule c: it has heard of enough other nodes since it saw the record
	// seenFor is the age of the record when the client saw it first, and for how long it has seen
	// it since, by its own clock: that of the server may have been set forward.
	seenFor time.Duration
}

// action is what the client does.
type action int

const (
	wait   action = iota // it looks again later
	vote                 // the server votes
	begin                // it writes a record: a wait begins
	change               // it writes a record in the place of one, which keeps its age
	admit                // it writes the memory's name
)

// decision is what follows from a sight.
type decision struct {
	action action
	record record        // of begin and change
	left   time.Duration // of wait: for how long, at least
	most   time.Duration // of admit: what the key may have left; 0: anything
}

// decide decides by what a node shows and by what is known. It is rules a, b, c and e, and what
// rule d says of records. It is pure, but for the nonce.
func decide(s *sight, k *known) decision {
	r, isRecord := parse(s.text)
	switch {
	case !k.returned && s.server.owns(s.text):
		return decision{action: vote}
	case k.returned, !isRecord, !s.server.owns(r.memory),
		s.left <= 0, s.left > recordLasts+time.Second:
		kind := isLost
		if s.text == "" && !k.lost && !k.returned {
			kind = isNew
		}
		return decision{action: begin, record: newRecord(kind, k.wait, s.server.memory)}
	}
	changed := r
	changed.wait = max(r.wait, k.wait)
	if k.lost {
		changed.kind = isLost
	}
	left := r.wait - min(age(s.left), k.seenFor)
	switch {
	case changed != r:
		return decision{action: change, record: changed}
	case left > 0 || !k.heard:
		return decision{action: wait, left: max(left, 0)}
	}
	return decision{action: admit, most: mostLeft(r.wait)}
}
