/*
 * The restart guard of DESIGN.md in six rules, a to f, on three masters, for spin. README.md says how to run it.
 *
 * A server's key says what it is: it votes, or it waits (a record). Servers lose their memory, with the key, with another one left
 * behind, or the key alone. Two clients at a time admit servers, get one lock, extend it, and end at any moment. Another client comes
 * then that knows nothing. A lease counts as held until it is released or its time is over, also without its client.
 *
 * What a script does is one step, and so is what a connection does in order: a server tells of a flush and of a change of the key on
 * the same connection, ahead of all later answers. Everything else may take any time.
 *
 * Time is counted in ticks. What began in one tick ends with the same tick, so a wait of W ticks that began behind a lock of W ticks
 * does not end before it: the model has no rates of clocks. The three seconds of a first use are less than a tick.
 *
 * A key of an attempt that is over may stay for a time. It only refuses others, and nobody has to ask. So it goes at once here.
 *
 * LONG and SHORT are MaxTTL of client 0 and of client 1, and all locks are as long. A client whose MaxTTL is SHORT may come to a server
 * on which the other's layout entry is missing.
 *
 * A variant breaks one rule, and spin must find out:
 *   ANY_NAME       a server that comes back with an older copy of the key votes            (rule a)
 *   BACKLOG=1      a server forgets within MaxTTL that it was a replica                    (rule a)
 *   NO_WAIT        a new record is over at once                                            (rule b)
 *   ANY_RECORD     a record that was copied counts, with its age                           (rule b)
 *   NO_NONCE       the age is read first, then the text compared, and all texts are equal  (rule b)
 *   UNTOLD         who is connected is not told of a flush, or of a demotion               (rule b)
 *   UNWATCHED      who is connected is not told of a change of the key (shows with NAMED)  (rule b)
 *   NOT_BEHIND     with BEHIND, the key is not read behind a vote                          (rule b)
 *   EAGER          an attempt begins before a quorum is up                                 (rules b, d)
 *   HEARD=0        who ends a wait has heard nobody                                        (rule c)
 *   NOT_AGAIN      who ends it does not count what it hears                                (rule c)
 *   NO_ENTRY       a client votes before it leaves its layout entry                        (rule c)
 *   BRIEF_ENTRY    the entry ends before the lease of a client that lost its connection    (rule c)
 *   ONE_LOOK       a first use does not look at all again                                  (rule d)
 *   FROM_NOTHING   it compares with "any new record, or no key"                            (rule d)
 *   LOOKS_ON       it looks at more nodes as a newcomer after its first admission          (rule d)
 *   NO_RETURN      A's return after B is no loss (with SPARE)                              (rule e)
 *   OLD_RECORD     it is none if A has a record (with SPARE)                               (rule e)
 *   FOUR=0         no longer wait for a node that Sentinel names (with SPARE)              (rule f)
 *   FOUR_BY_CLIENT only client 0 waits longer (with SPARE)                                 (rule f)
 *   NO_CHARACTER   the value does not say which node it is (with ALIAS)                    (rule 1)
 * And these add what is known to be a hole:
 *   LOSSES=2       with VIRGIN, or with two MaxTTL
 *   HEARD=1        who ends a wait has heard one other node, and the long client never reached that
 *   DELETED        layout entries are deleted
 *   STRANGER       A comes back after B to a client that was not connected to both (with SPARE)
 *
 * What else there is:
 *   VIRGIN         no node has a key at first; otherwise all were admitted
 *   SETTLED        no loss comes while a node waits as new beside one that was admitted
 *   SLOW           a first use takes any time
 *   EXTENSIONS     clients extend
 *   EVERYWHERE     client 0 begins an attempt only when its layout entry is on all nodes
 *   BEHIND         nobody is told of anything: the key is read behind each vote
 *   SPARE          the losses are failovers of node 0 to a second server, and back
 *   ANY_OTHER      for rule e, each other memory than the last one is a loss to who meets it
 *   ALIAS          two names lead client 0 to one server; it extends
 *   IMMORTAL       clients do not end
 */

#ifndef LONG
#define LONG 2
#endif
#ifndef SHORT
#define SHORT LONG
#endif
#if SHORT < LONG
#define MIXED
#endif
#ifndef LOSSES
#define LOSSES 1 /* of memory, or of the key alone */
#endif
#ifndef HEARD
#define HEARD 2 /* nodes that are heard before a name is written */
#endif
#ifndef BACKLOG
#define BACKLOG LONG /* ticks until a server forgets that it was a replica */
#endif
#ifndef FOUR
#define FOUR 1 /* the seconds of rule f, in ticks */
#endif
#ifdef ALIAS
#define EXTENSIONS
#endif

#define maxTTL(c) (c == 0 -> LONG : SHORT)

/* Sets of clients are bits of a byte. */
#define has(set, c) ((set >> (c)) & 1)
#define with(set, c) (set | 1 << (c))
#define without(set, c) (set & ~(1 << (c)))

/* The servers, one behind each node's name. */
#define NONE 0
#define NAME 1    /* of the memory that the server has now */
#define NEW 2     /* a record ... */
#define LOST 3    /* ... of either kind */
#define FOREIGN 4 /* another memory's name or record */
#define BACK 5    /* the server's own name of before it was a replica, which it will forget */
#define isRecord(n) (key[n] == NEW || key[n] == LOST)
byte key[3];
byte age[3];      /* of the record */
byte length[3];   /* W */
byte lock[3];     /* whose key it has, from 1 */
byte ttl[3];      /* ticks until that is gone */
byte entry[3];    /* ticks until the layout entry of client 0 ends */

/* The clients, on each server and for themselves. */
byte up[3];       /* who takes the node as up */
byte granted[3];  /* whose attempt it granted */
byte kept[3];     /* whose extension it did */
byte seen[3];     /* who has been there in this stage of a first use */
byte same[3];     /* for whom it still has the record that was seen first */
byte asked[3];    /* with BEHIND: whose vote counts when the key has been read behind it */
byte over[3];     /* with NO_NONCE: who has seen that the wait is over */
bool knows[2];    /* it has seen a name or a `lost` */
byte stage[2];    /* of a first use: looks, looks again, admits */
bool open[2];     /* tries to get the lock, or has it */
bool holds[2];
byte left[2];     /* ticks that are left of its validity */
byte renewed[2];  /* ticks that are left if the extension is confirmed */
byte losses;

/* With SETTLED a loss comes only when no node waits as new beside one that was admitted. */
#define used (key[0] == NAME || key[1] == NAME || key[2] == NAME)
#define virgin(n) (key[n] == NONE || key[n] == NEW)
#ifdef SETTLED
#define mayLose (losses < LOSSES && (!used || !virgin(0) && !virgin(1) && !virgin(2)))
#else
#define mayLose (losses < LOSSES)
#endif

#ifdef ALIAS
byte character[3]; /* the node for which the key was set */
#define server(c, n) (c == 0 && n == 1 -> 0 : n) /* both names lead client 0 to one server */
#else
#define server(c, n) n
#endif

/* A second server behind the name of node 0: a failover, and the way back. */
#ifdef SPARE
byte spareKey = FOREIGN;
byte spareAge, spareLength, spareLock, spareTTL;
byte spareUp;     /* who is still connected to it */
byte deposed;     /* ticks in which it still takes writes, and one more */
byte current;     /* which of both is the master */
byte past[2];     /* the servers to which a client was connected; that of today is the last */
byte last[2] = 2;
#define EXTRA FOUR
#ifndef STRANGER
bool owed;        /* A came back, and has no record yet: no client comes then that does not know B */
#endif
#else
#define EXTRA 0
#endif
#ifndef DEPOSED
#define DEPOSED 1
#endif
#if defined(FOUR_BY_CLIENT)
#define extra(c, n) (c == 0 && n == 0 -> EXTRA : 0)
#else
#define extra(c, n) (n == 0 -> EXTRA : 0)
#endif

/* Events that must happen. None is ever true, so spin finds an assertion violated if one does. */
#ifdef WITNESS
bool first;      /* a client makes a first use, */
bool together;   /* and another one at the same time */
bool waited;     /* a wait ends for who began it, */
bool shared;     /* or for a client that came later */
bool again;      /* a node that forgot a lease has a vote for the next one */
bool lengthened; /* a record of the short client gets the long W */
bool survived;   /* an extension is confirmed by a node that forgot the lease */
bool succession; /* a client has the lock after another */
bool renamed;    /* a server forgets that it was a replica, so that its old name counts */
bool returned;   /* a client that knows both servers begins a wait on the first one */
bool belated;    /* a deposed server gives a vote */
byte forgot[3];  /* the node forgot a lease since the last holder */
byte winner;     /* the last holder, from 1 */
byte user;       /* the client whose first use it is, from 1 */
byte writer[3];  /* of the record, from 1; 0: it has gone */
#define witness(event, name) if :: event -> assert(name) :: else fi
#define note(statement) statement
#define forgotIn(set, c) (forgot[0] && has(set[0], c) || forgot[1] && has(set[1], c) || forgot[2] && has(set[2], c))
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

/* What holds for one order of the nodes holds for any, so after each step they are sorted. */
#if defined(STORY) || defined(SPARE) || defined(ALIAS)
#define settle() skip
byte was;
#else
#ifdef WITNESS
#define NOTED(n) (writer[n] << 25 | forgot[n] << 27)
#else
#define NOTED(n) 0
#endif
#define rankOfServer(n) (key[n] | age[n] << 3 | length[n] << 5 | lock[n] << 7 | ttl[n] << 9 | entry[n] << 11)
#define rankOfClients(n) (up[n] << 13 | granted[n] << 15 | kept[n] << 17 | seen[n] << 19 | same[n] << 21 | over[n] << 23 | asked[n] << 28)
#define rank(n) (rankOfServer(n) | rankOfClients(n) | NOTED(n))
#define swap(a, b, of) was = of[a]; of[a] = of[b]; of[b] = was
byte was;
inline sort(a, b) {
	if
	:: rank(a) > rank(b) ->
		swap(a, b, key); swap(a, b, age); swap(a, b, length); swap(a, b, lock); swap(a, b, ttl); swap(a, b, entry);
		swap(a, b, up); swap(a, b, granted); swap(a, b, kept); swap(a, b, seen); swap(a, b, same); swap(a, b, over); swap(a, b, asked);
		note(swap(a, b, writer));
		note(swap(a, b, forgot));
		was = 0
	:: else
	fi
}
inline settle() { d_step { sort(0, 1); sort(1, 2); sort(0, 1) } }
#endif

/* A KEY, AND WHO IS TOLD OF ITS CHANGE */

#if defined(UNWATCHED) || defined(BEHIND)
#define change(n) same[n] = 0; over[n] = 0
#elif defined(NO_NONCE)
#define change(n) same[n] = 0; up[n] = 0
#else
#define change(n) same[n] = 0; over[n] = 0; up[n] = 0
#endif

/* Who ends a wait hears of HEARD other nodes, at worst of those without the entry, and of the node itself. */
#define next(n) ((n + 1) % 3)
#define other(n) ((n + 2) % 3)
#if !defined(MIXED)
#define longest(c, n) maxTTL(c)
#elif HEARD == 0
#define longest(c, n) (entry[n] > 0 -> LONG : maxTTL(c))
#elif HEARD == 1
#define longest(c, n) (entry[n] > 0 || entry[next(n)] > 0 && entry[other(n)] > 0 -> LONG : maxTTL(c))
#else
#define longest(c, n) (entry[n] > 0 || entry[next(n)] > 0 || entry[other(n)] > 0 -> LONG : maxTTL(c))
#endif
#define wait(c, n) (longest(c, n) + extra(c, n))

inline leaveEntry(c, n) {
#if defined(MIXED) && !defined(NO_ENTRY)
	if :: c == 0 -> entry[n] = LONG :: else fi
#else
	skip
#endif
}

inline record(c, n) {
	change(n);
#if defined(SPARE) && !defined(STRANGER)
	if :: n == 0 -> owed = false :: else fi;
#endif
	age[n] = 0;
	length[n] = maxTTL(c) + extra(c, n); /* it may have heard nobody yet */
	if
	:: knows[c] -> key[n] = LOST
	:: key[n] != FOREIGN && key[n] != BACK -> key[n] = NEW /* also while names have been there for less than three seconds */
	:: else -> key[n] = LOST
	fi;
	if :: key[n] == LOST -> learn(c) :: else fi;
	note(writer[n] = c + 1);
	say("client %d leaves a record on node %d\n", c, n)
}

inline admit(c, n) {
	change(n);
	key[n] = NAME;
	age[n] = 0;
	length[n] = 0;
	up[n] = with(up[n], c);
	knows[c] = true;
	say("client %d admits node %d\n", c, n)
}

/* A client that has seen a name makes no first use. */
inline learn(c) { knows[c] = true; if :: stage[c] < 2 -> forget(c) :: else fi }
inline forget(c) {
	stage[c] = 0;
	seen[0] = without(seen[0], c); seen[1] = without(seen[1], c); seen[2] = without(seen[2], c);
	same[0] = without(same[0], c); same[1] = without(same[1], c); same[2] = without(same[2], c)
}
inline nextStage(c) {
	if
	:: has(seen[0], c) && has(seen[1], c) && has(seen[2], c) ->
		seen[0] = without(seen[0], c); seen[1] = without(seen[1], c); seen[2] = without(seen[2], c);
#ifdef ONE_LOOK
		stage[c] = (stage[c] == 0 -> 2 : stage[c] + 1);
#else
		stage[c]++;
#endif
		if :: stage[c] == 3 -> forget(c) :: else fi
	:: else
	fi
}

/* THE HANDSHAKE */

#ifdef NO_WAIT
#define isOver(c, n) true
#elif defined(NOT_AGAIN)
#define isOver(c, n) (age[n] >= length[n] && age[n] >= maxTTL(c) + extra(c, n))
#else
#define isOver(c, n) (age[n] >= length[n] && age[n] >= wait(c, n))
#endif

#define here(n) (n == 0)
#if !defined(SPARE) || defined(NO_RETURN)
#define comesBack(c, n) false
#else
#define isReturn(c) (last[c] < 2 && last[c] != current && RETURN(c))
#ifdef ANY_OTHER
#define RETURN(c) true
#else
#define RETURN(c) has(past[c], current)
#endif
#ifdef OLD_RECORD
#define comesBack(c, n) (here(n) && isReturn(c) && key[n] == NAME)
#else
#define comesBack(c, n) (here(n) && isReturn(c))
#endif
#endif
inline meet(c, n) {
#ifdef SPARE
	if :: here(n) -> past[c] = with(past[c], current); last[c] = current; spareUp = without(spareUp, c) :: else fi
#else
	skip
#endif
}

inline look(c, n) {
	leaveEntry(c, n);
	if
#ifdef SPARE
	:: comesBack(c, n) -> learn(c); record(c, n); witness(true, returned)
#endif
	:: !comesBack(c, n) && key[n] == NAME ->
		say("client %d finds the name on node %d\n", c, n);
		up[n] = with(up[n], c);
		learn(c)
	:: !comesBack(c, n) && key[n] == LOST && !knows[c] -> learn(c)
#ifdef NO_NONCE
	:: !comesBack(c, n) && isRecord(n) && isOver(c, n) -> over[n] = with(over[n], c)
	:: !comesBack(c, n) && isRecord(n) && has(over[n], c) -> admit(c, n); learn(c)
#else
	:: !comesBack(c, n) && isRecord(n) && isOver(c, n) ->
		witness(writer[n] == c + 1, waited);
		witness(writer[n] == 0, shared);
		admit(c, n);
		learn(c)
#endif
	:: !comesBack(c, n) && isRecord(n) && length[n] < wait(c, n) -> length[n] = wait(c, n); same[n] = 0; witness(c == 1, lengthened)
	:: !comesBack(c, n) && key[n] == NEW && knows[c] -> key[n] = LOST; same[n] = 0
	:: !comesBack(c, n) && !isRecord(n) && key[n] != NAME -> record(c, n)
	:: else
	fi;
	meet(c, n)
}
#define mayLook(c, n) (!has(up[n], c))

/* A FIRST USE */

#ifdef FROM_NOTHING
#define isSame(c, n) (key[n] == NONE || key[n] == NEW)
#elif defined(LOOKS_ON)
#define isSame(c, n) (has(same[n], c) || knows[c] && key[n] == NEW)
#else
#define isSame(c, n) has(same[n], c)
#endif

inline firstLook(c, n) {
	leaveEntry(c, n);
	seen[n] = with(seen[n], c);
	same[n] = with(same[n], c);
	say("client %d looks at node %d as a newcomer\n", c, n);
	nextStage(c)
}
inline secondLook(c, n) {
	if
	:: isSame(c, n) -> seen[n] = with(seen[n], c); nextStage(c)
	:: else -> forget(c)
	fi
}
inline firstUse(c, n) {
	seen[n] = with(seen[n], c);
	if
	:: isSame(c, n) ->
		witness(true, first);
		witness(user > 0 && user != c + 1, together);
		note(user = c + 1);
		admit(c, n)
	:: else
	fi;
	nextStage(c)
}
#define mayFirst(c, n, step) (stage[c] == step && !has(seen[n], c))

/* A LOCK */

#define count(set, c) (has(set[0], c) + has(set[1], c) + has(set[2], c))
#define clear(set, c) set[0] = without(set[0], c); set[1] = without(set[1], c); set[2] = without(set[2], c)
#define drop(n, c) lock[n] = (lock[n] == c + 1 -> 0 : lock[n]); ttl[n] = (lock[n] == 0 -> 0 : ttl[n])

#if defined(EAGER)
#define mayBegin(c) (!open[c])
#elif defined(EVERYWHERE) /* the long client has left its entry on all nodes */
#define mayBegin(c) (!open[c] && count(up, c) >= 2 && (c == 1 || entry[0] == LONG && entry[1] == LONG && entry[2] == LONG))
#else
#define mayBegin(c) (!open[c] && count(up, c) >= 2)
#endif
inline begin(c) {
	say("client %d begins an attempt of %d ticks\n", c, maxTTL(c));
	open[c] = true;
	left[c] = maxTTL(c)
}

inline finish(c) {
	open[c] = false;
	holds[c] = false;
	left[c] = 0;
	renewed[c] = 0;
	clear(granted, c);
	clear(kept, c);
	clear(asked, c);
#ifdef SPARE
	spareLock = (spareLock == c + 1 -> 0 : spareLock);
	spareTTL = (spareLock == 0 -> 0 : spareTTL);
#endif
	drop(0, c); drop(1, c); drop(2, c)
}

/* THE PROPERTY */
inline win(c) {
	if
	:: count(granted, c) >= 2 ->
		say("client %d has the lock, held now by %d others\n", c, holds[1 - c]);
		assert(!holds[1 - c]);
		witness(winner == 2 - c, succession);
		witness(forgotIn(granted, c), again);
		note(winner = c + 1);
		note(forgot[0] = 0; forgot[1] = 0; forgot[2] = 0);
		holds[c] = true;
		clear(granted, c);
		clear(asked, c)
	:: else
	fi
}

inline vote(c, n) {
	say("client %d gets the vote of node %d\n", c, n);
#ifdef NAMED
	assert(key[n] == NAME);
#endif
	lock[server(c, n)] = c + 1;
	ttl[server(c, n)] = maxTTL(c);
#ifdef ALIAS
	character[server(c, n)] = n;
#endif
#ifdef BEHIND
	asked[n] = with(asked[n], c)
#else
	granted[n] = with(granted[n], c);
	win(c)
#endif
}
#ifdef BEHIND
#ifdef NOT_BEHIND
#define UNREAD true
#else
#define UNREAD false
#endif
inline readBehind(c, n) {
	asked[n] = without(asked[n], c);
	if
	:: key[n] == NAME || UNREAD -> granted[n] = with(granted[n], c); win(c)
	:: else -> up[n] = without(up[n], c)
	fi
}
#endif
#define mayVote(c, n) (open[c] && !holds[c] && has(up[n], c) && lock[server(c, n)] == 0)

#ifdef SPARE
inline voteOfDeposed(c) {
	say("client %d gets a vote of the server that was node %d\n", c, 0);
	witness(true, belated);
	spareLock = c + 1;
	spareTTL = maxTTL(c);
	granted[0] = with(granted[0], c);
	win(c)
}
#endif

#ifdef ALIAS
#ifdef NO_CHARACTER
#define isMine(c, n) (lock[server(c, n)] == c + 1)
#else
#define isMine(c, n) (lock[server(c, n)] == c + 1 && character[server(c, n)] == n)
#endif
#else
#define isMine(c, n) (lock[n] == c + 1)
#endif
#define mayExtend(c, n) (renewed[c] > 0 && has(up[n], c) && !has(kept[n], c) && (isMine(c, n) || lock[server(c, n)] == 0))
inline extend(c, n) {
	if
	:: isMine(c, n) -> kept[n] = with(kept[n], c); say("client %d extends on node %d\n", c, n)
	:: else -> lock[server(c, n)] = c + 1; say("client %d refills node %d\n", c, n)
	fi;
	ttl[server(c, n)] = maxTTL(c);
#ifdef ALIAS
	character[server(c, n)] = n;
#endif
	if
	:: count(kept, c) >= 2 ->
		witness(forgotIn(kept, c), survived);
		left[c] = renewed[c];
		renewed[c] = 0;
		clear(kept, c)
	:: else
	fi
}

/* A CLIENT */

/* Another client takes its place. A lease that it holds does not end with it. */
inline die(c) {
	say("client %d ends, and another comes, %d\n", c, 0);
	if
	:: holds[c] -> renewed[c] = 0; clear(kept, c)
	:: else -> finish(c)
	fi;
	clear(up, c);
	clear(over, c);
	forget(c);
	knows[c] = false;
#ifdef SPARE
	spareUp = without(spareUp, c);
	past[c] = 0;
	last[c] = 2;
#endif
	note(writer[0] = (writer[0] == c + 1 -> 0 : writer[0]));
	note(writer[1] = (writer[1] == c + 1 -> 0 : writer[1]));
	note(writer[2] = (writer[2] == c + 1 -> 0 : writer[2]))
}

#if defined(SPARE) && !defined(STRANGER)
#define mayDie !owed
#else
#define mayDie true
#endif

/* A client and a server. */
proctype Link(byte c, n) {
end:	do
	:: atomic { mayLook(c, n) -> look(c, n); settle() }
	:: atomic { mayVote(c, n) -> vote(c, n); settle() }
#ifdef BEHIND
	:: atomic { has(asked[n], c) -> readBehind(c, n); settle() }
#endif
#ifdef VIRGIN
	:: atomic { mayFirst(c, n, 0) && !knows[c] && key[n] == NEW -> firstLook(c, n); settle() }
	:: atomic { mayFirst(c, n, 1) && !knows[c] -> secondLook(c, n); settle() }
	:: atomic { mayFirst(c, n, 2) -> firstUse(c, n); settle() }
#endif
#ifdef EXTENSIONS
	:: atomic { mayExtend(c, n) -> extend(c, n); settle() }
#endif
#ifdef MIXED /* the connection ends, and with time the layout entry */
	:: atomic { c == 0 && has(up[n], c) -> up[n] = without(up[n], c); settle() }
#endif
	od
}

proctype Client(byte c) {
end:	do
	:: atomic { mayBegin(c) -> begin(c) }
	:: atomic { open[c] -> finish(c); settle() }
#ifdef EXTENSIONS
	:: atomic { holds[c] && renewed[c] == 0 -> renewed[c] = maxTTL(c); say("client %d begins an extension of %d ticks\n", c, renewed[c]) }
#endif
#ifdef SPARE
	:: atomic { has(spareUp, c) && open[c] && !holds[c] && spareLock == 0 -> voteOfDeposed(c) }
#endif
#ifndef IMMORTAL
	:: atomic { mayDie -> die(c); settle() }
#endif
	od
}

/* LOSSES */

inline lose(n) {
	losses++;
	note(forgot[n] = forgot[n] || lock[n] > 0 && holds[lock[n] - 1]);
	lock[n] = 0;
	ttl[n] = 0;
	entry[n] = 0;
	age[n] = 0;
	length[n] = 0;
	same[n] = 0;
#ifndef NO_NONCE
	over[n] = 0;
#endif
#if !defined(UNTOLD) && !defined(BEHIND)
	up[n] = 0;
#endif
	key[n] = NONE;
	if
	:: true
	:: key[n] = FOREIGN
	:: key[n] = BACK
#ifdef ANY_NAME
	:: key[n] = NAME
#endif
#ifdef ANY_RECORD
	:: key[n] = LOST; age[n] = LONG; length[n] = LONG
#endif
	fi;
	say("node %d forgets everything, and has key %d\n", n, key[n])
}
/* Of the key alone. */
inline loseKey(n) {
	losses++;
	change(n);
	key[n] = NONE;
	age[n] = 0;
	length[n] = 0;
	say("node %d loses its key, with %d losses\n", n, losses)
}

#ifdef SPARE
#define exchange(a, b) was = a; a = b; b = was
#ifdef ANY_OTHER
#define met(c) (last[c] == current)
#else
#define met(c) (last[c] == current && past[c] == 3) /* also the one that comes back */
#endif
inline failOver() {
	losses++;
	exchange(key[0], spareKey);
	exchange(age[0], spareAge);
	exchange(length[0], spareLength);
	exchange(lock[0], spareLock);
	exchange(ttl[0], spareTTL);
	spareUp = up[0];
	up[0] = 0;
	same[0] = 0;
	over[0] = 0;
	deposed = DEPOSED;
	current = 1 - current;
#ifndef STRANGER
	owed = losses > 1;
#endif
	was = 0;
	say("node %d is server %d now\n", 0, current)
}
#ifdef STRANGER
#define mayFail losses < LOSSES
#else
#define mayFail losses < LOSSES && (losses == 0 || met(0) && met(1))
#endif
#endif

proctype Server(byte n) {
end:	do
#ifdef SPARE
	:: atomic { n == 0 && mayFail -> failOver() }
#else
#ifdef DELETED
	:: atomic { entry[n] > 0 -> entry[n] = 0; settle() }
#endif
	:: atomic { mayLose -> lose(n); settle() }
	:: atomic { mayLose -> loseKey(n); settle() }
#endif
	od
}

/* TIME */

#define passes(time) time = (time > 0 -> time - 1 : 0)
#define LONGEST (LONG + EXTRA)
inline ageNode(n) {
	passes(ttl[n]);
	lock[n] = (ttl[n] == 0 -> 0 : lock[n]);
	age[n] = ((isRecord(n) || key[n] == BACK) && age[n] < LONGEST -> age[n] + 1 : age[n]);
	if
	:: key[n] == BACK && age[n] >= BACKLOG -> key[n] = NAME; age[n] = 0; witness(true, renamed)
	:: else
	fi;
#ifdef MIXED
	entry[n] = (has(up[n], 0) -> LONG : (entry[n] > 0 -> entry[n] - 1 : 0));
#ifdef BRIEF_ENTRY
	entry[n] = (has(up[n], 0) -> entry[n] : 0)
#endif
#endif
}
inline ageClient(c) {
#ifndef SLOW
	forget(c);
#endif
	passes(renewed[c]);
	if
	:: left[c] == 1 -> finish(c)
	:: else -> passes(left[c])
	fi
}

proctype Clock() {
end:	do
	:: atomic {
		ageNode(0); ageNode(1); ageNode(2);
#ifdef SPARE
		passes(spareTTL);
		spareLock = (spareTTL == 0 -> 0 : spareLock);
		spareAge = ((spareKey == NEW || spareKey == LOST) && spareAge < LONGEST -> spareAge + 1 : spareAge);
		spareUp = (deposed == 0 -> 0 : spareUp);
		passes(deposed);
#endif
		ageClient(0); ageClient(1);
		say("a tick passes, the clients' validity is %d and %d\n", left[0], left[1]);
		settle()
	}
	od
}

init {
	atomic {
#ifndef VIRGIN
		key[0] = NAME; key[1] = NAME; key[2] = NAME;
#endif
#ifdef ALIAS
		up[0] = 3; up[1] = 3; up[2] = 3;
#endif
		run Clock();
		run Client(0); run Client(1);
		run Server(0); run Server(1); run Server(2);
		run Link(0, 0); run Link(0, 1); run Link(0, 2);
		run Link(1, 0); run Link(1, 1); run Link(1, 2)
	}
}
