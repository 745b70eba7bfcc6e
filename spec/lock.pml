/*
 * One key of lockpipe on three masters, for spin. README.md says how to run it, ../docs/guarantees.md what follows from it.
 *
 * Everything that takes time may take any time: messages overtake each other, are late by whole TTLs, or never come, which is
 * the same as "after everything that matters". So nothing models loss or time-outs but the clients' freedom to give up.
 *
 * Time is counted in ticks of the masters' clock. A client's clock may be slower, which is what is dangerous: a validity that
 * it counts down lasts DRIFT ticks longer than it believes. One that is faster is a client that stops early, and it may stop at
 * any time. For that, validity is shorter than the TTL by ALLOWANCE.
 *
 * A variant breaks one rule, and spin must find out:
 *   QUORUM=1          one node is enough                                        (rule 1)
 *   REUSED_TOKEN      all attempts of a client have the same token              (rule 2)
 *   FROM_REPLY        validity counts from the reply instead of the sending     (rule 3)
 *   ALLOWANCE=0       nothing is taken off for the drift of clocks              (rule 3)
 *   OUTLIVES          an extension under way keeps a lease that has run out     (rules 7, 8)
 *   SHORTENS          an extension may move a key's end nearer (rule 8; shows with SHORTER)
 *   REFILLED_COUNTS   a refill is a vote for the extension that did it          (rule 8; shows with TOLD)
 *   FOREIGN_RELEASE   a release deletes any token                               (rule 9)
 *   NO_GUARD          a node votes again at once after it has lost its memory   (rule 10)
 *   QUARANTINE=1      it waits for less than a TTL                              (rule 10)
 *   FENCE_MAX         the fence is the largest of INCRs on the nodes            (rule 11)
 *   RAISE_AHEAD       a node raises the number ahead of taking the key          (rule 11)
 * And one adds what is known to be a hole:
 *   FIRST_USE         a new client takes masters that have all forgotten for masters that are used for the first time
 *
 * With SHORTER=1 the first holder asks once for an extension of so few ticks, and gives it up. The nodes do it at any later time.
 *
 * TOLD asks for something else than exclusion, for when that is broken already: see THE PROPERTIES.
 *
 * With STORY a counterexample tells what happens, and the nodes keep their places.
 */

#define NODES 3
#ifndef QUORUM
#define QUORUM 2
#endif

#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 3 /* of all clients together */
#endif
#ifndef EXTENSIONS
#define EXTENSIONS 0 /* of each lease, tried one after the other */
#endif
#ifndef CRASHES
#define CRASHES 0 /* of all nodes together */
#endif
#if defined(SKEW)
#define FENCES 255
#endif
#ifndef FENCES
#define FENCES 0 /* the largest number that a client may propose; 0: none does */
#endif
#if FENCES > 0 && !defined(FENCE_MAX)
#define RAISES
#endif
#ifndef HORIZON
#define HORIZON 8 /* ticks, with SKEW: so far the time is followed */
#endif
#ifndef TTL
#define TTL 2
#endif
#ifndef ALLOWANCE
#define ALLOWANCE 1
#endif
#ifndef DRIFT
#define DRIFT 1
#endif

#define VALIDITY (TTL - ALLOWANCE + DRIFT) /* in ticks of the masters */
#ifdef NO_GUARD
#define QUARANTINE 0
#endif
#ifndef QUARANTINE
#define QUARANTINE TTL /* MaxTTL: there is no longer one */
#endif

/* Attempts are numbered in the order in which they begin, from 1, and have their number for a token. 0 is none. */
#ifdef REUSED_TOKEN
#define token(t) (by[t] + 1)
#else
#define token(t) t
#endif

/* Sets of attempts and of clients are bits of a byte. */
#define has(set, i) ((set >> (i)) & 1)
#define with(set, i) (set | 1 << (i))
#define without(set, i) (set & ~(1 << (i)))

/* The nodes. */
byte value[NODES];      /* the token that the key holds */
byte expiry[NODES];     /* ticks until it is gone */
byte quarantine[NODES]; /* ticks until the node votes again */
byte fence[NODES];      /* the largest number that it knows */
byte raises[NODES];     /* attempts whose number is raised in another step than that which takes the key */
byte crashes;

/* The network: attempts of which a message is on the way to the node. */
byte acquires[NODES];
byte extends[NODES];
#ifdef SHORTER
bool shorter[NODES]; /* the first attempt's shorter extension */
bool asked;
#endif

/* The votes: clients whose present attempt, lease or extension the node ... */
byte granted[NODES]; /* granted */
byte kept[NODES];    /* extended, and had the key until then */
byte refused[NODES]; /* answered, but did not extend, or had to be given the key again */
byte gone[NODES];    /* refused, now or since the extension that was confirmed last */
byte late[NODES];    /* has not yet told how the extension before went */

/* The clients. */
byte begun;             /* attempts, so far */
byte by[ATTEMPTS + 1];  /* whose each one is */
byte current[CLIENTS];  /* the last one of each client */
bool open[CLIENTS];     /* the last one is being tried, or is a lease; otherwise its release is under way, for ever */
bool holds[CLIENTS];    /* it is a lease */
byte left[CLIENTS];     /* ticks that are left of its validity */
byte rounds[CLIENTS];   /* extensions tried */
byte renewed[CLIENTS];  /* ticks that are left of the validity if the extension under way is confirmed */
byte proposal[ATTEMPTS + 1]; /* the fence of each attempt */

/* What nobody knows. */
byte highest;         /* the largest fence that any holder had */
byte ticks;           /* since the beginning, where clients propose the time */

/* THE PROPERTIES */

#define exclusive(c) (holds[0] + holds[1] + THIRD - holds[c] == 0)
#if CLIENTS > 2
#define THIRD holds[2]
#else
#define THIRD 0
#endif
#define monotonic(number) (number > highest)

/* Without a guard exclusion can't be kept. What is left is that the holder is told by its next extension: it is not confirmed if another
   client came after the lease had begun and got the key. (One that came before may have had votes of nodes that forgot them.) */
#ifdef TOLD
byte since[CLIENTS];  /* the attempts that had begun when the client won */
bool robbed[CLIENTS]; /* somebody else has got the lease that it holds */
#define robs(thief, c) (holds[c] && rounds[c] == 0 && current[thief] > since[c])
#endif

inline assertAlone(c) {
#ifndef TOLD
	assert(exclusive(c))
#else
	skip
#endif
}

/* A model in which nothing happens keeps all of its promises. So that this is none, each of these must be found to happen: spin has to
   find the assertion violated that has its name. None is ever true. */
#ifdef WITNESS
bool succession; /* one client had a lease, and then another one */
bool extension;  /* an extension was confirmed */
bool refill;     /* a node that had lost the key of a lease got it again */
bool unshortened; /* a shorter extension came to a key of a lease that lasts longer */
bool counted;    /* a node that was refilled counted for a later extension */
bool belated;    /* a node granted an attempt that was over */
bool forgotten;  /* a node lost its memory, with the key of a lease */
bool rejoined;   /* one that had, was quarantined, and granted again */
bool stale;      /* a fence was refused */
bool fenced;     /* a holder had a fence, and one after it */
byte last;           /* who had a lease last, from 1 */
bool forgot[NODES];  /* the node has lost its memory */
bool filled[NODES];  /* the key that it has is a refill */
#define witness(event, name) if :: event -> assert(name) :: else fi
#define note(statement) statement
#else
#define witness(event, name) skip
#define note(statement) skip
#endif

#ifdef STORY
#define say(text, a, b) printf(text, a, b)
#else
#define say(text, a, b) skip
#endif

/* THE ORDER OF THE NODES */

/* What holds for one order of the nodes holds for any, so after each step they are sorted: that leaves a sixth of the states. */
#define rank(n) (value[n] | expiry[n] << 3 | quarantine[n] << 6 | acquires[n] << 9 | granted[n] << 17 | fence[n] << 20)
#define swap(a, b, of) was = of[a]; of[a] = of[b]; of[b] = was

inline sort(a, b) {
	if
	:: rank(a) > rank(b) ->
		swap(a, b, value);
		swap(a, b, expiry);
		swap(a, b, quarantine);
		swap(a, b, fence);
		swap(a, b, raises);
		swap(a, b, acquires);
		swap(a, b, extends);
#ifdef SHORTER
		swap(a, b, shorter);
#endif
		swap(a, b, granted);
		swap(a, b, kept);
		swap(a, b, refused);
		swap(a, b, gone);
		swap(a, b, late);
		note(swap(a, b, forgot));
		note(swap(a, b, filled));
		was = 0
	:: else
	fi
}

inline settle() {
#ifndef STORY
	d_step {
		sort(0, 1);
		sort(1, 2);
		sort(0, 1)
	}
#endif
	skip
}

/* A NODE */

#define up(n) (quarantine[n] == 0)
#define present(t) (open[by[t]] && t == current[by[t]])

inline vote(n, t) {
	if
	:: present(t) && !holds[by[t]] -> granted[n] = with(granted[n], by[t])
	:: else
	fi
}

/* A node grants a free key. With a fence it grants when it has also raised its number to that, in a step of its own behind: SET, and
   ZADD GT. Refusals carry nothing that a client needs: what to propose next is free, since rule 11 rests on what nodes grant, not on
   what clients know. */
inline acquire(n, t) {
	acquires[n] = without(acquires[n], t);
	if
#ifdef FENCE_MAX
	:: value[n] == 0 ->
		fence[n]++;
		proposal[t] = (fence[n] > proposal[t] -> fence[n] : proposal[t]);
		say("node %d counts %d\n", n, fence[n]);
#else
	:: value[n] == 0 ->
#endif
		value[n] = token(t);
		expiry[n] = TTL;
		say("node %d grants attempt %d\n", n, t);
		witness(!present(t), belated);
		witness(forgot[n] && present(t), rejoined);
		note(filled[n] = false);
#if defined(RAISE_AHEAD)
		if
		:: has(raises[n], t) -> vote(n, t)
		:: else
		fi
#elif defined(RAISES)
		raises[n] = with(raises[n], t)
#else
		vote(n, t)
#endif
	:: else
	fi
}

#ifdef RAISES
inline raise(n, t) {
#ifdef RAISE_AHEAD
	raises[n] = with(raises[n], t);
#else
	raises[n] = without(raises[n], t);
#endif
	witness(proposal[t] <= fence[n], stale);
	if
	:: proposal[t] > fence[n] ->
		fence[n] = proposal[t];
		say("node %d raises the number of attempt %d\n", n, t);
#ifndef RAISE_AHEAD
		vote(n, t)
#endif
	:: else
#ifdef RAISE_AHEAD
		-> raises[n] = without(raises[n], t);
		acquires[n] = without(acquires[n], t)
#endif
	fi
}
#ifdef RAISE_AHEAD
#define mayTake(n, t) has(raises[n], t)
#define mayRaise(n, t) (has(acquires[n], t) && !has(raises[n], t))
#else
#define mayTake(n, t) true
#define mayRaise(n, t) has(raises[n], t)
#endif
#define RAISE(t) :: atomic { up(n) && mayRaise(n, t) -> raise(n, t); settle() }
#else
#define mayTake(n, t) true
#define RAISE(t)
#endif

/* A refill is SET NX, and takes the fence with it. */
inline extend(n, t) {
	extends[n] = without(extends[n], t);
	if
	:: value[n] == token(t) ->
		expiry[n] = TTL;
		steady = true;
		say("node %d extends lease %d\n", n, t)
	:: value[n] == 0 ->
		value[n] = token(t);
		expiry[n] = TTL;
#if FENCES > 0
		fence[n] = (proposal[t] > fence[n] -> proposal[t] : fence[n]);
#endif
#ifdef REFILLED_COUNTS
		steady = true;
#endif
		say("node %d is refilled with lease %d\n", n, t);
		note(filled[n] = true);
		witness(present(t) && holds[by[t]], refill)
	:: else
	fi;
	if
	:: present(t) && holds[by[t]] -> voteOnExtension(n, t, by[t])
	:: else
	fi;
	steady = false
}

#ifdef SHORTER
/* The first holder has given this extension up, so its answer does not matter. */
inline extendShorter(n, t) {
	shorter[n] = false;
	if
	:: value[n] == token(t) ->
		witness(present(t) && holds[by[t]] && expiry[n] > SHORTER, unshortened);
#ifdef SHORTENS
		expiry[n] = SHORTER;
#else
		expiry[n] = (expiry[n] > SHORTER -> expiry[n] : SHORTER);
#endif
		say("node %d is late to extend lease %d by less\n", n, t)
	:: value[n] == 0 ->
		value[n] = token(t);
		expiry[n] = SHORTER;
#if FENCES > 0
		fence[n] = (proposal[t] > fence[n] -> proposal[t] : fence[n]);
#endif
		note(filled[n] = true)
	:: else
	fi
}
#endif

/* The vote may be lost. One on an extension that was given up tells no more than that the key was missing; the next one leaves behind
   it, also where the vote was lost. One that comes after the decision tells nothing. */
inline voteOnExtension(n, t, c) {
	if
	:: has(late[n], c) ->
		late[n] = without(late[n], c);
		gone[n] = gone[n] | !steady << c;
		extends[n] = with(extends[n], t)
	:: !has(late[n], c) && renewed[c] > 0 ->
		kept[n] = kept[n] | steady << c;
		refused[n] = refused[n] | !steady << c;
		gone[n] = gone[n] | !steady << c
	:: !has(late[n], c) && renewed[c] == 0
	:: has(late[n], c) ->
		late[n] = without(late[n], c);
		extends[n] = with(extends[n], t)
	:: late[n] = without(late[n], c)
	fi
}

/* Memory and connections end with the server. */
inline crash(n) {
	crashes++;
	witness(value[n] > 0 && present(value[n]) && holds[by[value[n]]], forgotten);
	note(forgot[n] = true);
	say("node %d forgets attempt %d\n", n, value[n]);
	value[n] = 0;
	expiry[n] = 0;
	fence[n] = 0;
	raises[n] = 0;
	quarantine[n] = QUARANTINE;
	acquires[n] = 0;
	extends[n] = 0;
#ifdef SHORTER
	shorter[n] = false;
#endif
	late[n] = 0
}

/* A release is repeated for ever, which covers that it is late. */
#define ended(t) (begun >= t && !present(t))
#ifdef FOREIGN_RELEASE
#define mine(n, t) (value[n] != 0)
#else
#define mine(n, t) (value[n] == token(t))
#endif
#define MESSAGES(t) \
	:: atomic { up(n) && has(acquires[n], t) && mayTake(n, t) -> acquire(n, t); settle() } \
	RAISE(t) \
	:: atomic { up(n) && has(extends[n], t) -> extend(n, t); settle() } \
	:: atomic { mine(n, t) && ended(t) -> say("node %d deletes, for attempt %d\n", n, t); value[n] = 0; expiry[n] = 0; settle() }

proctype Node(byte n) {
	byte was;
	bool steady;
end:	do
	MESSAGES(1)
#ifdef SHORTER
	:: atomic { up(n) && shorter[n] -> extendShorter(n, 1); settle() }
#endif
#if ATTEMPTS > 1
	MESSAGES(2)
#endif
#if ATTEMPTS > 2
	MESSAGES(3)
#endif
#if ATTEMPTS > 3
	MESSAGES(4)
#endif
	:: atomic { crashes < CRASHES -> crash(n); settle() }
	od
}

/* A CLIENT */

/* How many nodes have the client's bit in a set. */
#define count(set, c) (has(set(0), c) + has(set(1), c) + has(set(2), c))
#define GRANTED(n) granted[n]
#define KEPT(n) kept[n]
#define STEADY(n) (kept[n] & ~gone[n])
#define GONE(n) gone[n]

/* Sets the bit i for, or takes it from, each node. */
#define each(action, set, i) action(set, 0, i); action(set, 1, i); action(set, 2, i)
#define ADD(set, n, i) set[n] = with(set[n], i)
/* What is sent waits for a node that is quarantined. But a client's clock says what it proposes to a node that it can reach. */
#ifdef SKEW
#define SEND(set, n, i) set[n] = (up(n) -> with(set[n], i) : set[n])
#else
#define SEND ADD
#endif
#define TAKE(set, n, i) set[n] = without(set[n], i)

inline ask(c) {
	begun++;
	by[begun] = c;
	current[c] = begun;
	say("client %d begins attempt %d\n", c, begun);
	open[c] = true;
#ifndef FROM_REPLY
	left[c] = VALIDITY;
#endif
	each(SEND, acquires, current[c]);
#if defined(SKEW)
	select(number : 0 .. SKEW);
	proposal[current[c]] = 1 + ticks + number;
	say("client %d proposes %d\n", c, proposal[current[c]]);
	number = 0
#elif FENCES > 0 && !defined(FENCE_MAX)
	select(number : 1 .. FENCES);
	proposal[current[c]] = number;
	say("client %d proposes %d\n", c, proposal[current[c]]);
	number = 0
#endif
}

inline win(c) {
	say("client %d has lease %d\n", c, current[c]);
	assertAlone(c);
	witness(last > 0 && last != c + 1, succession);
	note(last = c + 1);
#ifdef TOLD
	robbed[0] = robbed[0] || robs(c, 0);
	robbed[1] = robbed[1] || robs(c, 1);
	since[c] = begun;
#endif
#if FENCES > 0
	assert(monotonic(proposal[current[c]]));
	witness(highest > 0, fenced);
	highest = proposal[current[c]];
#endif
	holds[c] = true;
	each(TAKE, granted, c);
#ifdef FROM_REPLY
	left[c] = VALIDITY
#endif
}

inline beginExtension(c) {
	rounds[c]++;
	say("client %d begins to extend lease %d\n", c, current[c]);
	endExtension(c);
	renewed[c] = VALIDITY;
	late[0] = late[0] | has(extends[0], current[c]) << c;
	late[1] = late[1] | has(extends[1], current[c]) << c;
	late[2] = late[2] | has(extends[2], current[c]) << c;
	each(SEND, extends, current[c])
}

#ifdef SHORTER
/* The lease lasts as before. Only if an extension may shorten, its holder reckons with that at once. */
inline askForLess(c) {
	asked = true;
	say("client %d asks for less of lease %d\n", c, current[c]);
#ifdef SHORTENS
	left[c] = (left[c] < SHORTER - ALLOWANCE + DRIFT -> left[c] : SHORTER - ALLOWANCE + DRIFT);
#endif
	shorter[0] = true; shorter[1] = true; shorter[2] = true
}
#endif

/* decideExtend of multiplex/quorum.go. Votes that are open may be given up at any time. */
#define confirmed(c) (count(STEADY, c) >= QUORUM || count(KEPT, c) >= QUORUM && count(GONE, c) < QUORUM)

#define COUNTED(n) (kept[n] & filled[n] << c)
inline confirm(c) {
	say("client %d has extended lease %d\n", c, current[c]);
	assertAlone(c);
	witness(true, extension);
	witness(count(COUNTED, c) > 0, counted);
#ifdef TOLD
	assert(!robbed[c]);
#endif
	left[c] = renewed[c];
	if
	:: count(STEADY, c) >= QUORUM -> each(TAKE, gone, c)
	:: else
	fi;
	endExtension(c)
}

inline endExtension(c) {
	renewed[c] = 0;
	each(TAKE, kept, c);
	each(TAKE, refused, c)
}

inline finish(c) {
	say("client %d ends attempt %d\n", c, current[c]);
	endExtension(c);
	open[c] = false;
	holds[c] = false;
	left[c] = 0;
	rounds[c] = 0;
#ifdef TOLD
	since[c] = 0;
	robbed[c] = false;
#endif
	each(TAKE, granted, c);
	each(TAKE, gone, c);
	each(TAKE, late, c)
}

/* With TOLD all nodes have answered: one that grants later, when another one had it meanwhile, would look like one that always did. */
#ifdef TOLD
#define WAITING(n) acquires[n]
#define answered(c) (count(WAITING, current[c]) == 0)
#else
#define answered(c) true
#endif

proctype Client(byte c) {
	byte was, number;
	do
	:: atomic { !open[c] && begun < ATTEMPTS && c <= begun -> ask(c); settle() }
	:: atomic { open[c] && !holds[c] && count(GRANTED, c) >= QUORUM && answered(c) -> win(c); settle() }
	:: atomic { holds[c] && rounds[c] < EXTENSIONS -> beginExtension(c); settle() }
#ifdef SHORTER
	:: atomic { holds[c] && current[c] == 1 && !asked -> askForLess(c); settle() }
#endif
	:: atomic { holds[c] && renewed[c] > 0 && confirmed(c) -> confirm(c); settle() }
	:: atomic { open[c] -> finish(c); settle() } /* given up or released */
	:: atomic { !open[c] && begun == ATTEMPTS -> break }
	od
}

/* TIME */

#define passes(timer) timer = (timer > 0 -> timer - 1 : 0)

#if CLIENTS > 2
#define LEFT left[2]
#else
#define LEFT 0
#endif

/* A lease ends by its holder's clock, and an attempt that is no lease by then was in vain. */
#ifdef OUTLIVES
#define over(c) (open[c] && left[c] <= 1 && renewed[c] == 0)
#else
#define over(c) (left[c] == 1)
#endif

proctype Clock() {
	byte i, was;
end:	do
	:: atomic {
		expiry[0] + expiry[1] + expiry[2] + quarantine[0] + quarantine[1] + quarantine[2] + left[0] + left[1] + LEFT > 0 && ticks < HORIZON ->
		do
		:: i < NODES ->
			passes(expiry[i]);
			passes(quarantine[i]);
			value[i] = (expiry[i] > 0 -> value[i] : 0);
			i++
		:: else -> break
		od;
		say("a tick passes, the clients' validity is %d and %d\n", left[0], left[1]);
#ifdef SKEW
		ticks++;
#endif
		i = 0;
		do
		:: i < CLIENTS ->
			passes(renewed[i]);
			if
			:: over(i) -> finish(i)
			:: else -> passes(left[i])
			fi;
			i++
		:: else -> break
		od;
		i = 0;
		settle()
	}
	od
}

/* A NEW CLIENT */

/* It finds no key of the restart guard on any node. */
#ifdef FIRST_USE
active proctype Newcomer() {
end:	atomic {
		!up(0) && !up(1) && !up(2);
		say("a new client finds %d of %d nodes marked, and admits all\n", 0, NODES);
		quarantine[0] = 0; quarantine[1] = 0; quarantine[2] = 0
	}
}
#endif

init {
	byte i;
	atomic {
		run Clock();
		do
		:: i < NODES -> run Node(i); i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < CLIENTS -> run Client(i); i++
		:: else -> break
		od;
		i = 0
	}
}
