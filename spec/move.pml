/*
 * A fleet that moves from one layout of masters to another, for spin: one key, and all clients that want it. README.md says how to
 * run it.
 *
 * A client needs a quorum of the old layout, of both, or of the new one. That is its configuration, which lasts until it ends. Any
 * number of clients run. The model has no more of them than which configurations run. They start and end in any order that the
 * checklist allows, forward and back:
 *
 *   A client of the old layout alone may start if no client of the new one alone runs, and the last one ended MaxTTL ago or earlier.
 *   The same holds with old and new exchanged. A client of both may always start.
 *
 * A lease is held until it is released or its time is over, whatever became of its client: the client may be paused, or its work may
 * go on elsewhere. An attempt of a client that ended may still win. Leases are not released when clients end, but may be.
 *
 * There is no limit to the attempts. Two are open at a time: a third could only keep nodes from them. Messages take any time, or come
 * twice, so a node may do at any time what an attempt or a lease that is over had asked of it. What a node did counts as answered.
 *
 * Time is in ticks of the masters' clock. A lease ends no later than its keys: validity is TTL from the sending, drift included.
 *
 * A variant breaks one rule, and spin must find out:
 *   SKIPPED       no client needs both; old and new ones run at the same time
 *   EARLY         clients of the new layout start while some of the old one run
 *   STRAGGLER     clients of the old layout start while some of the new one run
 *   WAIT=0, 1     the clients of the new layout wait shorter than MaxTTL for the leases of the old one
 *   BACK=0, 1     the same the other way
 *   ONE_QUORUM    for a client of both a quorum of one layout is enough
 *   UNION         it needs a majority of all nodes
 *   EXTENDS_ONE   for its extensions a quorum of one layout is enough
 * And one assumes more:
 *   ENDS          leases end with their clients, and nothing goes on
 *
 * FENCES asks for the order of fences instead: see THE PROPERTIES. Then there are as many ATTEMPTS, none of them comes late, and clients
 * propose any numbers up to FENCES. With SKEW they propose the time, by clocks that are at most so many ticks ahead.
 *
 * With STORY a counterexample tells what happens, and the nodes keep their places.
 */

/* The nodes of the layouts, as bits. */
#ifndef OLD
#define OLD 7
#endif
#ifndef NEW
#define NEW 56
#endif
#define ALL (OLD | NEW)
#if ALL > 31
#define NODES 6
#elif ALL > 15
#define NODES 5
#elif ALL > 7
#define NODES 4
#elif ALL > 3
#define NODES 3
#else
#define NODES 2
#endif

#ifndef TTL
#define TTL 2 /* MaxTTL: there is no longer one */
#endif
#ifndef WAIT
#define WAIT TTL
#endif
#ifndef BACK
#define BACK TTL
#endif
#if defined(SKEW)
#define FENCES 255
#endif
#ifndef FENCES
#define FENCES 0 /* the largest number that a client may propose; 0: none does */
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 2 /* of all clients together, with FENCES */
#endif
#ifndef HORIZON
#define HORIZON 5 /* ticks, with SKEW: so far the time is followed */
#endif

/* Configurations: the layouts of which a client needs a quorum. */
#define FORMER 1
#define LATTER 2
#define BOTH 3

/* The clients. */
bool runs[4];  /* by configuration: some client runs */
byte rests[4]; /* ticks until those of the other layout may start */

/* The attempts, and the leases that they become. */
#define OPEN 2
byte needs[OPEN]; /* the configuration; 0: there is no attempt */
bool holds[OPEN]; /* it is a lease */
byte left[OPEN];  /* ticks that are left of its validity */
byte renewed[OPEN]; /* ticks that are left of the validity if the extension under way is confirmed */
byte proposal[OPEN]; /* its fence */

/* The nodes. */
#define PAST (OPEN + 1)
byte value[NODES];  /* the attempt that has the key, from 1; PAST: one that is over */
byte expiry[NODES]; /* ticks until the key is gone */
byte kept[NODES];   /* leases, as bits: the node did the extension under way */
byte fence[NODES];  /* the largest that it has granted */

/* What nobody knows. */
byte begun;      /* attempts, with FENCES */
byte holders;    /* leases that are held */
byte highest[3]; /* by layout: the largest fence of any holder that needed it */
byte ticks;      /* since the beginning, where clients propose the time */

/* THE PROPERTIES */

/* Fences increase among leases that need a quorum of the same layout. With SKEW or ANY_FENCE, among all. */
#define monotonic(number, layout) (number > highest[layout])
#if defined(SKEW) || defined(ANY_FENCE)
#define comparable(l, layout) true
#else
#define comparable(l, layout) (needs[l] & layout)
#endif

/* Events that must happen. None is ever true, so spin finds an assertion violated if one does. */
#ifdef WITNESS
bool forward;   /* leases of the old layout, of both and of the new one follow each other */
bool back;      /* the same the other way */
bool outlived;  /* a lease keeps others out when no client of its configuration runs */
bool belated;   /* a node grants an attempt that is over */
bool extended;  /* an extension is confirmed */
bool oldFirst, newFirst; /* a lease of one layout keeps the lock from an attempt that has a quorum of the other */
bool bothFirst; /* a lease of both layouts refuses an attempt that needs one */
bool fenced;    /* a lease of the new layout has a fence, and one of the old layout had */
bool stale;     /* a fence is refused */
byte last, before; /* the configurations of the last two leases, if they differ */
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

inline assertOrder(l) {
	witness(needs[l] == LATTER && highest[FORMER] > 0, fenced);
	assert(!comparable(l, FORMER) || monotonic(proposal[l], FORMER));
	assert(!comparable(l, LATTER) || monotonic(proposal[l], LATTER));
	highest[FORMER] = (needs[l] & FORMER -> proposal[l] : highest[FORMER]);
	highest[LATTER] = (needs[l] & LATTER -> proposal[l] : highest[LATTER])
}

/* QUORUMS */

#define bit(set, i) ((set >> (i)) & 1)
#define size(set) (bit(set, 0) + bit(set, 1) + bit(set, 2) + bit(set, 3) + bit(set, 4) + bit(set, 5))
#define in(n, config) ((config & FORMER) && bit(OLD, n) || (config & LATTER) && bit(NEW, n))

#define vote(of, set, n, l) (bit(set, n) && of(n, l))
#define GRANTED(n, l) (value[n] == l + 1)
#define KEPT(n, l) bit(kept[n], l)

#if NODES > 2
#define third(of, set, l) vote(of, set, 2, l)
#else
#define third(of, set, l) 0
#endif
#if NODES > 3
#define fourth(of, set, l) vote(of, set, 3, l)
#else
#define fourth(of, set, l) 0
#endif
#if NODES > 4
#define fifth(of, set, l) vote(of, set, 4, l)
#else
#define fifth(of, set, l) 0
#endif
#if NODES > 5
#define sixth(of, set, l) vote(of, set, 5, l)
#else
#define sixth(of, set, l) 0
#endif
#define votes(of, set, l) \
	(vote(of, set, 0, l) + vote(of, set, 1, l) + third(of, set, l) + fourth(of, set, l) + fifth(of, set, l) + sixth(of, set, l))

#define quorum(of, set, l) (2 * votes(of, set, l) > size(set))
#define each(of, l) ((!(needs[l] & FORMER) || quorum(of, OLD, l)) && (!(needs[l] & LATTER) || quorum(of, NEW, l)))
#define either(of, l) (each(of, l) || needs[l] == BOTH && (quorum(of, OLD, l) || quorum(of, NEW, l)))

#if defined(ONE_QUORUM)
#define won(l) either(GRANTED, l)
#elif defined(UNION)
#define won(l) (needs[l] == BOTH -> quorum(GRANTED, ALL, l) : each(GRANTED, l))
#else
#define won(l) each(GRANTED, l)
#endif
#ifdef EXTENDS_ONE
#define confirmed(l) either(KEPT, l)
#else
#define confirmed(l) each(KEPT, l)
#endif

/* THE ORDER OF THE NODES */

/* What holds for one order of nodes that are in the same layouts holds for any, so after each step they are sorted. */
#define like(a, b) (bit(OLD, a) == bit(OLD, b) && bit(NEW, a) == bit(NEW, b))
#define rank(n) (value[n] | expiry[n] << 2 | kept[n] << 4 | fence[n] << 6)
#define swap(a, b, of) was = of[a]; of[a] = of[b]; of[b] = was

/* Up to three nodes are in the same layouts, side by side. */
inline settle() {
#ifndef STORY
	d_step {
		at = 0;
		do
		:: at < 2 * (NODES - 1) ->
			a = at % (NODES - 1);
			if
			:: like(a, a + 1) && rank(a) > rank(a + 1) ->
				swap(a, a + 1, value);
				swap(a, a + 1, expiry);
				swap(a, a + 1, kept);
				swap(a, a + 1, fence)
			:: else
			fi;
			at++
		:: else -> break
		od;
		at = 0; a = 0; was = 0
	}
#endif
	skip
}

/* A NODE */

#if FENCES > 0
#define grants(n, l) (value[n] == 0 && proposal[l] > fence[n])
#else
#define grants(n, l) (value[n] == 0)
#endif

/* This is also what the extension of a lease does to a node that is without the key. */
inline acquire(n, l) {
	value[n] = l + 1;
	expiry[n] = TTL;
#if FENCES > 0
	fence[n] = proposal[l];
#endif
	say("node %d grants attempt %d\n", n, l + 1)
}

inline extend(n, l) {
	expiry[n] = TTL;
	kept[n] = kept[n] | (renewed[l] > 0) << l;
	say("node %d extends lease %d\n", n, l + 1)
}

#define asked(n, l) (needs[l] > 0 && in(n, needs[l]))

#ifdef WITNESS
#if FENCES > 0
#define STALE(l) :: atomic { asked(n, l) && value[n] == 0 && proposal[l] <= fence[n] -> witness(true, stale) }
#else
#define STALE(l)
#endif
#define alone(l) (needs[l] == FORMER || needs[l] == LATTER)
inline refuse(n, l, other) {
	witness(needs[l] == BOTH && needs[other] == FORMER && quorum(GRANTED, NEW, l), oldFirst);
	witness(needs[l] == BOTH && needs[other] == LATTER && quorum(GRANTED, OLD, l), newFirst);
	witness(alone(l) && needs[other] == BOTH, bothFirst);
	witness(!runs[needs[other]], outlived)
}
#define REFUSALS(l, other) \
	STALE(l) \
	:: atomic { asked(n, l) && !holds[l] && holds[other] && value[n] == other + 1 -> refuse(n, l, other) }
#else
#define REFUSALS(l, other)
#endif

#ifdef EXTENSIONS
#define EXTENDS(l) :: atomic { holds[l] && value[n] == l + 1 && (renewed[l] > 0 && !bit(kept[n], l) || expiry[n] < TTL) -> extend(n, l); settle() }
#else
#define EXTENDS(l)
#endif

proctype Node(byte n) {
	byte at, a, was;
end:	do
	:: atomic { asked(n, 0) && grants(n, 0) -> acquire(n, 0); settle() }
	:: atomic { asked(n, 1) && grants(n, 1) -> acquire(n, 1); settle() }
	EXTENDS(0)
	EXTENDS(1)
	REFUSALS(0, 1)
	REFUSALS(1, 0)
#if FENCES == 0 /* an attempt that is over only keeps others from the node */
	:: atomic { value[n] == 0 -> value[n] = PAST; expiry[n] = TTL; witness(true, belated); settle() }
#endif
	:: atomic { value[n] == PAST && expiry[n] < TTL -> expiry[n] = TTL; settle() }
	:: atomic { value[n] == PAST -> value[n] = 0; expiry[n] = 0; settle() }
	od
}

/* AN ATTEMPT */

inline begin(l, config) {
#if FENCES > 0
	begun++;
#endif
	needs[l] = config;
	left[l] = TTL;
	say("attempt %d begins, configuration %d\n", l + 1, config);
#if defined(SKEW)
	select(number : 0 .. SKEW);
	proposal[l] = 1 + ticks + number;
#elif FENCES > 0
	select(number : 1 .. FENCES);
	proposal[l] = number;
#endif
	number = 0
}

inline win(l) {
	say("attempt %d has the lock, configuration %d\n", l + 1, needs[l]);
#if FENCES == 0
	assert(holders == 0);
#else
	assertOrder(l);
#endif
	holders++;
	holds[l] = true;
	witness(before == FORMER && last == BOTH && needs[l] == LATTER, forward);
	witness(before == LATTER && last == BOTH && needs[l] == FORMER, back);
	note(before = (last != needs[l] -> last : before));
	note(last = needs[l])
}

inline beginExtension(l) {
	endExtension(l);
	renewed[l] = TTL
}

inline confirm(l) {
	say("lease %d is extended, configuration %d\n", l + 1, needs[l]);
	witness(true, extended);
	left[l] = renewed[l];
	endExtension(l)
}

inline endExtension(l) {
	renewed[l] = 0;
	i = 0;
	do
	:: i < NODES -> kept[i] = kept[i] & ~(1 << l); i++
	:: else -> break
	od;
	i = 0
}

/* It is given up, released, or over. */
inline finish(l) {
	say("attempt %d ends, configuration %d\n", l + 1, needs[l]);
	endExtension(l);
	do
	:: i < NODES -> value[i] = (value[i] == l + 1 -> PAST : value[i]); i++
	:: else -> break
	od;
	i = 0;
	holders = holders - holds[l];
	needs[l] = 0;
	holds[l] = false;
	left[l] = 0;
	proposal[l] = 0
}

#if FENCES > 0
#define mayBegin(l) (needs[l] == 0 && begun < ATTEMPTS)
#else
#define mayBegin(l) (needs[l] == 0)
#endif

proctype Attempt(byte l) {
	byte i, number, at, a, was;
end:	do
	:: atomic { mayBegin(l) && runs[FORMER] -> begin(l, FORMER) }
	:: atomic { mayBegin(l) && runs[LATTER] -> begin(l, LATTER) }
	:: atomic { mayBegin(l) && runs[BOTH] -> begin(l, BOTH) }
	:: atomic { needs[l] > 0 && !holds[l] && won(l) -> win(l) }
#ifdef EXTENSIONS
	:: atomic { holds[l] && runs[needs[l]] && renewed[l] < TTL -> beginExtension(l); settle() }
	:: atomic { renewed[l] > 0 && confirmed(l) -> confirm(l); settle() }
#endif
	:: atomic { needs[l] > 0 -> finish(l); settle() }
	od
}

/* THE FLEET */

#if defined(SKIPPED)
#define mayStart(config) (config != BOTH && rests[BOTH - config] == 0)
#else
#ifdef EARLY
#define newMeetsOld true
#else
#define newMeetsOld !runs[FORMER]
#endif
#ifdef STRAGGLER
#define oldMeetsNew true
#else
#define oldMeetsNew !runs[LATTER]
#endif
#define mayStart(config) \
	(config == BOTH || config == LATTER && newMeetsOld && rests[FORMER] == 0 || config == FORMER && oldMeetsNew && rests[LATTER] == 0)
#endif

inline start(config) {
	say("a client starts, configuration %d, at %d\n", config, ticks);
	runs[config] = true;
	rests[config] = 0
}

inline stop(config) {
	say("the last client of configuration %d ends, at %d\n", config, ticks);
	runs[config] = false;
	rests[FORMER] = (config == FORMER -> WAIT : rests[FORMER]);
	rests[LATTER] = (config == LATTER -> BACK : rests[LATTER]);
#ifdef ENDS
	if :: needs[0] == config -> finish(0) :: else fi;
	if :: needs[1] == config -> finish(1) :: else fi;
	settle()
#endif
}

#define DEPLOYS(config) \
	:: atomic { !runs[config] && mayStart(config) -> start(config) } \
	:: atomic { runs[config] -> stop(config) }

proctype Fleet() {
	byte i, at, a, was;
end:	do
	DEPLOYS(FORMER)
	DEPLOYS(BOTH)
	DEPLOYS(LATTER)
	od
}

/* TIME */

#define passes(time) time = (time > 0 -> time - 1 : 0)
inline age(l) {
	passes(renewed[l]);
	passes(left[l]);
	if :: needs[l] > 0 && left[l] == 0 -> finish(l) :: else fi
}

proctype Clock() {
	byte i, at, a, was;
end:	do
	:: atomic {
		ticks < HORIZON ->
		say("a tick passes; %d and %d are left of the attempts\n", left[0], left[1]);
		do
		:: i < NODES -> passes(expiry[i]); value[i] = (expiry[i] > 0 -> value[i] : 0); i++
		:: else -> break
		od;
		i = 0;
		age(0); age(1);
		passes(rests[FORMER]); passes(rests[LATTER]);
#ifdef SKEW
		ticks++;
#endif
		settle()
	}
	od
}

init {
	byte n;
	atomic {
		runs[FORMER] = true;
		run Fleet(); run Clock(); run Attempt(0); run Attempt(1);
		do
		:: n < NODES -> run Node(n); n++
		:: else -> break
		od;
		n = 0
	}
}
