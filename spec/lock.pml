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
 *   NO_GUARD        a node votes again at once after it has lost its memory   (rule 10)
 *   REUSED_TOKEN    all attempts of a client have the same token              (rule 2)
 *   FROM_REPLY      validity counts from the reply instead of the sending     (rule 3)
 *   ALLOWANCE=0     nothing is taken off for the drift of clocks              (rule 3)
 *   FENCE_MAX       the fence is the largest of INCRs on the nodes            (rule 11)
 *
 * Counterexamples are easier to read with UNSORTED: without it the nodes change places.
 */

#define NODES 3
#define QUORUM 2

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
#else
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
byte fence[NODES];      /* the largest fence that it has granted */
byte crashes;

/* The network: attempts of which a message is on the way to the node. */
byte acquires[NODES];
byte extends[NODES];

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
		swap(a, b, acquires);
		swap(a, b, extends);
		swap(a, b, granted);
		swap(a, b, kept);
		swap(a, b, refused);
		swap(a, b, gone);
		swap(a, b, late);
		was = 0
	:: else
	fi
}

inline settle() {
#ifndef UNSORTED
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

/* A node grants a free key, and a fence only above the last one. Refusals carry nothing that a client needs: what to propose
   next is free, since rule 11 rests on what nodes grant, not on what clients know. */
inline acquire(n, t) {
	acquires[n] = without(acquires[n], t);
	if
#ifdef FENCE_MAX
	:: value[n] == 0 ->
		fence[n]++;
		proposal[t] = (fence[n] > proposal[t] -> fence[n] : proposal[t]);
#elif FENCES > 0
	:: value[n] == 0 && proposal[t] > fence[n] ->
		fence[n] = proposal[t];
#else
	:: value[n] == 0 ->
#endif
		value[n] = token(t);
		expiry[n] = TTL;
		if
		:: present(t) && !holds[by[t]] -> granted[n] = with(granted[n], by[t])
		:: else
		fi
	:: else
	fi
}

/* A refill is SET NX. */
inline extend(n, t) {
	extends[n] = without(extends[n], t);
	if
	:: value[n] == token(t) -> expiry[n] = TTL; steady = true
	:: value[n] == 0 ->
		value[n] = token(t);
		expiry[n] = TTL
	:: else
	fi;
	if
	:: present(t) && holds[by[t]] -> voteOnExtension(n, t, by[t])
	:: else
	fi;
	steady = false
}

/* The vote may be lost. One on an extension that was given up tells no more than that the key was missing; the next one leaves behind
   it. One that comes after the decision tells nothing. */
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
	:: late[n] = without(late[n], c)
	fi
}

/* Memory and connections end with the server. */
inline crash(n) {
	crashes++;
	value[n] = 0;
	expiry[n] = 0;
	fence[n] = 0;
	quarantine[n] = QUARANTINE;
	acquires[n] = 0;
	extends[n] = 0;
	late[n] = 0
}

/* A release is repeated for ever, which covers that it is late. */
#define ended(t) (begun >= t && !present(t))
#define MESSAGES(t) \
	:: atomic { has(acquires[n], t) -> acquire(n, t); settle() } \
	:: atomic { has(extends[n], t) -> extend(n, t); settle() } \
	:: atomic { value[n] == token(t) && ended(t) -> value[n] = 0; expiry[n] = 0; settle() }

proctype Node(byte n) {
	byte was;
	bool steady;
end:	do
	MESSAGES(1)
	MESSAGES(2)
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
#define ANSWERED(n) (kept[n] | refused[n])

/* Sets the bit i for, or takes it from, each node. */
#define each(action, set, i) action(set, 0, i); action(set, 1, i); action(set, 2, i)
#define ADD(set, n, i) set[n] = (up(n) -> with(set[n], i) : set[n])
#define TAKE(set, n, i) set[n] = without(set[n], i)

inline ask(c) {
	begun++;
	by[begun] = c;
	current[c] = begun;
	open[c] = true;
#ifndef FROM_REPLY
	left[c] = VALIDITY;
#endif
	each(ADD, acquires, current[c]);
#if defined(SKEW)
	select(number : 0 .. SKEW);
	proposal[current[c]] = 1 + ticks + number;
	number = 0
#elif FENCES > 0 && !defined(FENCE_MAX)
	select(number : 1 .. FENCES);
	proposal[current[c]] = number;
	number = 0
#endif
}

inline win(c) {
	assert(exclusive(c));
#if FENCES > 0
	assert(monotonic(proposal[current[c]]));
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
	endExtension(c);
	renewed[c] = VALIDITY;
	late[0] = late[0] | has(extends[0], current[c]) << c;
	late[1] = late[1] | has(extends[1], current[c]) << c;
	late[2] = late[2] | has(extends[2], current[c]) << c;
	each(ADD, extends, current[c])
}

/* decideExtend of multiplex/quorum.go. Votes that are open may be given up at any time. */
#define confirmed(c) (count(STEADY, c) >= QUORUM || count(KEPT, c) >= QUORUM && count(GONE, c) < QUORUM)

inline confirm(c) {
	assert(exclusive(c));
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
	endExtension(c);
	open[c] = false;
	holds[c] = false;
	left[c] = 0;
	rounds[c] = 0;
	each(TAKE, granted, c);
	each(TAKE, gone, c);
	each(TAKE, late, c)
}

proctype Client(byte c) {
	byte was, number;
	do
	:: atomic { !open[c] && begun < ATTEMPTS && c <= begun -> ask(c); settle() }
	:: atomic { open[c] && !holds[c] && count(GRANTED, c) >= QUORUM -> win(c); settle() }
	:: atomic { holds[c] && rounds[c] < EXTENSIONS -> beginExtension(c); settle() }
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
#ifdef SKEW
		ticks++;
#endif
		i = 0;
		do
		:: i < CLIENTS ->
			passes(renewed[i]);
			if
			:: left[i] == 1 -> finish(i) /* in vain, or run out */
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
