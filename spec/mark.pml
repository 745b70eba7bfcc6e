/*
 * The restart guard's wait on one node, for spin: the mark, which the code calls loss record
 * (lossrecord.go in internal/restartguard, script/write_marker.lua), and what a client remembers
 * (decide.go there). README.md says how to run it.
 *
 * The node has one server after another, and begins with one that has just forgotten locks. Clients
 * look, mark, wait, admit and get locks. Each step takes any time. Clients end at any time.
 *
 * A server draws a run_id at each start, and a master_replid when it stops being a replica. Nothing
 * else is assumed: a restart may keep the master_replid. Each loss is of all locks.
 *
 * Times count down from MAXTTL, so 0 is at least MaxTTL ago.
 *
 * A variant breaks one rule, and spin must find out:
 *   NO_RUN_ID    a mark counts that names another run_id
 *   NO_REPLID    a mark counts that names another master_replid
 *   KEPT_WAIT    a wait continues though the marker changed
 *   NO_COMPARE   an admission replaces any marker, not only the one that was seen
 *   COPIED_AGE   a mark that replaces a copied one takes its age
 *   NO_MARKER    a wait continues behind a look that found no marker and could leave no mark
 * And these add what is known to be a hole:
 *   OWN_MARKER   a server becomes a master again, with a copy in which its own run_id is the marker
 *   MEANWHILE    a server is demoted and becomes a master again while a client makes its handshake
 * With BRIEF no client lives for MaxTTL. With OWN_WAIT the age of a mark counts for no client.
 */

#ifndef MAXTTL
#define MAXTTL 2
#endif
#ifndef LOSSES
#define LOSSES 1 /* of memory, after the first */
#endif

/* A marker is NONE, the run_id that was admitted, or from MARK on a mark, each another one. */
#define NONE 0
#define MARK 16
#define isMark(marker) (marker >= MARK)

/* The server. */
byte self = 1;           /* its run_id */
byte replid = 1;
byte marker = NONE;
byte copy = NONE;        /* the marker in a file, and on another server */
byte other = 2;          /* the run_id of that server */
bool promoted;           /* it was a replica */
byte start;              /* when it started */
byte granted;            /* when it granted the last lock that it still knows */
byte forgotten = MAXTTL; /* when the last lock was granted that it has forgotten */
byte runs = 2, replids = 1, losses;

/* The marks. */
#define MARKS 8
byte ofRun[MARKS];    /* the history that it names: the run_id, ... */
byte ofReplid[MARKS]; /* ... and the master_replid */
byte written[MARKS];  /* when */
byte former[MARKS];   /* the run_id that was the marker before */
byte marks;

/* The clients: their connection, ... */
mtype = { away, marking, admitting, confirming, up };
mtype phase[2] = away;
byte seen[2];    /* the marker */
byte shown[2];   /* the master_replid */
/* ... and their memory. */
byte runID[2];   /* of the server that was seen last; 0: none was */
byte history[2]; /* its master_replid then */
byte last[2];    /* its marker then */
bool waits[2];
byte until[2];   /* ticks that are left of the wait */
byte life[2];    /* ticks until the client ends, with BRIEF */

/* Events that must happen. None is ever true, so spin finds an assertion violated if one does. */
#ifdef WITNESS
bool shared;    /* a client admits a server that forgot locks */
bool replaced;  /* a mark replaces one of a former memory */
bool continued; /* a wait continues behind another client's mark */
bool contested; /* an admission comes too late */
#define witness(event, name) if :: event -> assert(name) :: else fi
#else
#define witness(event, name) skip
#endif

#ifdef STORY
#define say(text, a, b) printf(text, a, b)
#else
#define say(text, a, b) skip
#endif

/* THE RULE */

/* The mark is of the memory that the server has now. */
#ifdef NO_RUN_ID
#define sameRun(m) true
#else
#define sameRun(m) (ofRun[m] == self)
#endif
#ifdef NO_REPLID
#define sameReplid(m, c) true
#else
#define sameReplid(m, c) (ofReplid[m] == shown[c])
#endif
#define counts(c) (isMark(seen[c]) && sameRun(seen[c] - MARK) && sameReplid(seen[c] - MARK, c))

#define runOf(marker) (isMark(marker) -> former[marker - MARK] : marker)
#define marked(c) (last[c] != NONE && last[c] == runOf(seen[c])) /* and nothing else happened */
#ifdef KEPT_WAIT
#define unchanged(c) true
#else
#define unchanged(c) (last[c] == seen[c] || marked(c))
#endif
#define continues(c) \
	(waits[c] && runID[c] == self && history[c] == shown[c] && unchanged(c))

/* If there was no marker, it may have been there and be gone again. */
#ifdef NO_MARKER
#define lasts(c) true
#else
#define lasts(c) (seen[c] != NONE)
#endif

/* How long a wait is that begins now. This client may have seen the restart. */
#define restarted(c) (runID[c] != 0 && runID[c] != self && !promoted && start > 0)
#define alone(c) (restarted(c) -> start : MAXTTL)
#define least(a, b) (a < b -> a : b)
#ifdef OWN_WAIT
#define wait(c) alone(c)
#else
#define wait(c) (counts(c) -> least(alone(c), written[seen[c] - MARK]) : alone(c))
#endif

inline assess(c) {
	witness(continues(c) && last[c] != seen[c], continued);
	until[c] = (continues(c) -> until[c] : wait(c));
	waits[c] = true;
	runID[c] = self;
	history[c] = shown[c];
	last[c] = seen[c];
	if
	:: seen[c] == self -> settle(c); phase[c] = confirming
	:: seen[c] != self && until[c] == 0 -> phase[c] = admitting
	:: seen[c] != self && until[c] > 0 && lasts(c) -> close(c)
	:: seen[c] != self && until[c] > 0 && !lasts(c) -> settle(c); close(c)
	fi
}

/* What it saw matters only to a client that waits. */
inline settle(c) { waits[c] = false; until[c] = 0; history[c] = 0; last[c] = NONE }

inline close(c) { phase[c] = away; seen[c] = NONE; shown[c] = 0 }

/* A CLIENT */

inline look(c) {
	seen[c] = marker;
	shown[c] = replid;
	say("client %d sees marker %d\n", c, marker);
	if
	:: seen[c] == self || counts(c) || continues(c) && until[c] == 0 -> assess(c)
	:: else -> phase[c] = marking
	fi
}

inline mark(c) {
	assert(marks < MARKS);
	witness(isMark(seen[c]), replaced);
	ofRun[marks] = self;
	ofReplid[marks] = shown[c];
	former[marks] = runOf(seen[c]);
#ifdef COPIED_AGE
	written[marks] = (isMark(seen[c]) -> written[seen[c] - MARK] : MAXTTL);
#else
	written[marks] = MAXTTL;
#endif
	marker = MARK + marks;
	marks++;
	say("client %d leaves mark %d\n", c, marker)
}

/* A wait begins behind the mark. One that could not be left before does not end a wait. */
inline leave(c) {
	if
	:: marker == seen[c] && continues(c) -> mark(c); last[c] = marker
	:: marker == seen[c] && !continues(c) -> mark(c)
	:: marker != seen[c] && continues(c) -> last[c] = seen[c]
	:: else
	fi;
	seen[c] = marker;
	assess(c)
}

/* The server refuses the mark, or the connection breaks before. */
inline fail(c) { say("client %d can't mark, and saw %d\n", c, seen[c]); assess(c); close(c) }

#ifdef NO_COMPARE
#define isSeen(c) true
#else
#define isSeen(c) (marker == seen[c])
#endif
inline admit(c) {
	if
	:: isSeen(c) ->
		say("client %d admits server %d\n", c, self);
		witness(true, shared);
		marker = self;
		phase[c] = confirming
	:: else -> witness(true, contested); close(c)
	fi
}

/* From now on the server tells that it was flushed. */
inline confirm(c) {
	settle(c);
	if
	:: marker == self -> phase[c] = up
	:: else -> close(c)
	fi
}

/* THE PROPERTY: what was granted here and is forgotten was granted at least MaxTTL ago. */
inline vote(c) {
	say("client %d gets a lock, %d ticks too early\n", c, forgotten);
	assert(forgotten == 0);
	granted = MAXTTL
}

#ifdef BRIEF
#define LIFE (MAXTTL - 1)
#define ended(c) (life[c] == 0)
#else
#define LIFE 0
#define ended(c) false
#endif
/* Another client takes the place of this one. */
inline next(c) { close(c); settle(c); runID[c] = 0; life[c] = LIFE }

proctype Client(byte c) {
end:	do
	:: atomic { phase[c] == away && !ended(c) -> look(c) }
	:: atomic { phase[c] == marking -> leave(c) }
	:: atomic { phase[c] == marking -> fail(c) }
	:: atomic { phase[c] == admitting -> admit(c) }
	:: atomic { phase[c] == confirming -> confirm(c) }
	:: atomic { phase[c] == up -> vote(c) }
	:: atomic { phase[c] != away -> close(c) }
	:: atomic { phase[c] == away -> next(c) }
	od
}

/* THE SERVER */

inline lose() {
	losses++;
	forgotten = (granted > forgotten -> granted : forgotten);
	granted = 0
}

inline restart() {
	lose();
	runs++;
	self = runs;
	start = MAXTTL;
	promoted = false;
	if :: marker = NONE :: marker = copy fi;
	if :: replids++; replid = replids :: true fi;
	close(0); close(1);
	say("it restarts as server %d with marker %d\n", self, marker)
}

/* Who is connected is told. */
inline void(c) { if :: phase[c] == up -> close(c) :: else fi }
inline flush() {
	lose();
	marker = NONE;
	void(0); void(1);
	say("it is flushed, and forgets a lock of %d ticks, marker %d\n", forgotten, marker)
}

#ifdef OWN_MARKER
#define mayCopy(server) true
#else
#define mayCopy(server) (copy != server)
#endif
inline promote(server) {
	lose();
	self = server;
	replids++;
	replid = replids;
	promoted = true;
	start = 0;
	marker = copy;
	say("server %d becomes a master with marker %d\n", self, marker)
}

proctype Server() {
	byte replica;
end:	do
	:: atomic { copy != marker -> copy = marker; say("marker %d is copied %d\n", copy, 0) }
	:: atomic { losses < LOSSES -> restart() }
	:: atomic { losses < LOSSES -> flush() }
	:: atomic { losses < LOSSES && mayCopy(self) -> promote(self); /* it was demoted */
#ifdef MEANWHILE
		void(0); void(1)
#else
		close(0); close(1)
#endif
	}
	:: atomic { losses < LOSSES && mayCopy(other) -> /* a failover */
		replica = other; other = self; promote(replica); replica = 0; close(0); close(1) }
	od
}

/* TIME */

#define passes(time) time = (time > 0 -> time - 1 : 0)
inline age(c) {
	passes(until[c]);
	passes(life[c]);
	if :: ended(c) -> next(c); life[c] = 0 :: else fi
}

proctype Clock() {
	byte i;
end:	do
	:: atomic {
		passes(start); passes(granted); passes(forgotten); age(0); age(1);
		do
		:: i < marks -> passes(written[i]); i++
		:: else -> break
		od;
		i = 0;
		say("a tick passes, %d to %d\n", forgotten, granted)
	}
	od
}

init { atomic { run Clock(); run Server(); run Client(0); run Client(1) } }
