package sim

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// mutant is one rule that is broken on purpose, in a build in which simrand.Mutant has its name.
// Production code knows nothing of it.
type mutant struct {
	name  string
	rule  string
	mix   string
	edit  edit
	also  edit   // a second edit, if needed
	finds string // the violation, or a part of it
	from  int    // the first seed, if many would be needed; 0: 1
}

// A violation may need a goroutine that stops between two steps, and virtual time passes only while
// all goroutines wait. So the mixes of such rules have stalls: see stallEdits.
var brokenRules = []mutant{
	{
		name: "token", rule: "2: a token is reused", mix: "blind", finds: "both hold", from: 21,
		edit: edit{
			"internal/token/token.go", "\tencoding.Encode(text[:], raw[:])\n",
			"\tif simrand.Mutant(\"token\") {\n\t\traw = " +
				"[bits / 8]byte{simrand.StableID(s)}\n\t}\n" +
				"\tencoding.Encode(text[:], raw[:])\n",
		},
	},
	{
		name: "unreleased", rule: "5: an unknown node is not sent the release",
		finds: "soon after Close", mix: "long",
		edit: edit{
			"multiplex/claim.go", "\tif r.LeftNothing {\n",
			"\tif r.LeftNothing || simrand.Mutant(\"unreleased\") && " +
				"a.op.Kind == node.Acquire && r.Vote == node.Unknown {\n",
		},
	},
	{
		name: "reply", rule: "3: validity counts from the reply", mix: "blind", finds: "both hold",
		edit: edit{
			"internal/locker/attempt.go", "lease.Grant{Sent: a.of.Sent(), ",
			"lease.Grant{Sent: map[bool]time.Time{false: a.of.Sent(), true: " +
				"time.Now()}[simrand.Mutant(\"reply\")], ",
		},
	},
	{
		name: "drift", rule: "3: drift is forgotten", mix: "blind", finds: "both hold",
		edit: edit{
			"lease/validity.go", "func Validity(ttl time.Duration) time.Duration { return ttl - " +
				"ttl/100 - rounding }",
			"func Validity(ttl time.Duration) time.Duration {\n\tif simrand.Mutant(\"drift\") " +
				"{\n\t\treturn ttl\n\t}\n\treturn ttl - ttl/100 - rounding\n}",
		},
	},
	{
		name: "refilled", rule: "8: a refilled node counts", mix: "forgetful,admitting",
		finds: "confirmed",
		edit: edit{
			"internal/node/reply.go", "\tfor _, r := range refusals {\n",
			"\tfor _, r := range refusals {\n\t\tif simrand.Mutant(\"refilled\") && r.Key == " +
				"script.Refilled {\n\t\t\tcontinue\n\t\t}\n",
		},
	},
	{
		name: "missed", rule: "8: a node that was refilled by an extension that failed counts " +
			"for the next one", mix: "forgetful,admitting,busy", finds: "confirmed", from: 60,
		edit: edit{
			"multiplex/claim.go", "\t\tif a.tryDecide(); a.decision != quorum.Won {\n",
			"\t\tif a.tryDecide(); a.decision != quorum.Won && !simrand.Mutant(\"missed\") {\n",
		},
	},
	{
		name: "quorum", rule: "1: half of the nodes are enough", mix: "blind", finds: "both hold",
		edit: edit{
			"internal/quorum/decide.go", "func Need(n int) int { return n/2 + 1 }",
			"func Need(n int) int {\n\tif simrand.Mutant(\"quorum\") {\n\t\treturn n / " +
				"2\n\t}\n\treturn n/2 + 1\n}",
		},
	},
	{
		name: "told", rule: "7: the holder is told late", finds: "late that its lease",
		edit: edit{
			"lease/manager.go", "\tif d := time.Duration(at - m.now()); m.timer == nil {\n",
			"\td := time.Duration(at - m.now())\n\tif simrand.Mutant(\"told\") {\n\t\td += " +
				"time.Millisecond\n\t}\n\tif m.timer == nil {\n",
		},
	},
	{
		name: "kept", rule: "5: releases are not sent again", finds: "Close", mix: "long",
		edit: edit{
			"internal/node/pending_releases.go", "\toperations := n.takePending()\n",
			"\toperations := n.takePending()\n" +
				"\tif simrand.Mutant(\"kept\") {\n\t\toperations = nil\n\t}\n",
		},
	},
	{
		name: "stuck", rule: "a lease that expires leaves its keys to the next call",
		finds: "waits behind one that has ended",
		edit: edit{
			"internal/locker/release.go", "\t\tk.passOn(l, nil)\n",
			"\t\tif !simrand.Mutant(\"stuck\") {\n\t\t\tk.passOn(l, nil)\n\t\t}\n",
		},
	},
	{
		name: "stale", rule: "8: an extension is sent when the lease is over",
		finds: "after it ended",
		edit: edit{
			"multiplex/extend.go", "\ta.maxAge = min(a.maxAge, sendBefore.Sub(a.op.Sent))\n",
			"\tif !simrand.Mutant(\"stale\") {\n" +
				"\t\ta.maxAge = min(a.maxAge, sendBefore.Sub(a.op.Sent))\n\t}\n",
		},
		also: edit{
			"lease/extension.go", "\t\tif t.expireIfDue() {\n",
			"\t\tif t.expireIfDue() && !simrand.Mutant(\"stale\") {\n",
		},
	},
	{
		name: "drift", rule: "3: as above, for those who look into the nodes",
		finds: "nodes keep it as long",
	},
	{
		name: "guard", rule: "10: masters forget and vote", mix: "forgetful", finds: "both hold",
		edit: edit{
			"internal/restartguard/decide.go",
			"\tcase s.marker == s.runID && h.replicaRunID != s.runID && !s.outdated:\n",
			"\tcase simrand.Mutant(\"guard\"):\n" +
				"\t\treturn decision{admit: true, writeMarker: true}, h\n" +
				"\tcase s.marker == s.runID && h.replicaRunID != s.runID && !s.outdated:\n",
		},
	},
	{
		name: "half", rule: "10: the quarantine is too short", mix: "forgetful", finds: "both hold",
		edit: edit{
			"internal/restartguard/decide.go", "\t\th.until = waitEnd(",
			"\t\tif simrand.Mutant(\"half\") {\n\t\t\tmaxTTL /= 2\n\t\t}\n" +
				"\t\th.until = waitEnd(",
		},
	},
	{
		name: "marker", rule: "10: the marker of any server is accepted", mix: "forgetful",
		finds: "both hold",
		edit: edit{
			"internal/restartguard/decide.go",
			"\t\treturn decision{admit: true}, h\n\tcase h.until.IsZero(): // first sight\n",
			"\t\treturn decision{admit: true}, h\n" +
				"\tcase simrand.Mutant(\"marker\") && s.formerRun() != \"\":\n" +
				"\t\treturn decision{admit: true, writeMarker: true}, h\n" +
				"\tcase h.until.IsZero(): // first sight\n",
		},
	},
	{
		name: "deaf", rule: "10: a flush that the server tells of is ignored", mix: "forgetful",
		finds: "both hold", from: 10,
		edit: edit{
			"internal/link/link.go", "\tif c == nil || c.IsClosed() {\n",
			"\tif c == nil || c.IsClosed() || simrand.Mutant(\"deaf\") {\n",
		},
	},
	// That every server counts as durable is found too rarely since other nodes have to vouch for
	// one that is: TestServerInfo_WhatIsMissingCountsAgainstAServer holds it.
	{
		name: "companion", rule: "11: a node does not remember the fence that it granted",
		mix: "fenced", finds: "which is not above",
		edit: edit{
			"internal/memorynode/fences.go", "\t\t\tn.set(l.fenceKeys[k], l.last, fenceKeyTTL)\n",
			"\t\t\tif !simrand.Mutant(\"companion\") {\n\t\t\t\tn.set(l.fenceKeys[k], l.last, " +
				"fenceKeyTTL)\n\t\t\t}\n",
		},
	},
	{
		name: "range", rule: "11: the numbers that are reserved for hand-overs are not recorded",
		mix: "fenced", finds: "which is not above",
		edit: edit{
			"internal/keyset/keyset.go",
			"\tf.Numbers, f.Before = [2]int64{first, last}, before\n",
			"\tf.Numbers, f.Before = [2]int64{first, last}, before\n\tif " +
				"simrand.Mutant(\"range\") {\n\t\tlast = first\n\t}\n",
		},
	},
	{
		name: "numbers", rule: "11: a lease is handed over without a number left", mix: "fenced",
		finds: "which is not above", from: 100,
		edit: edit{
			"internal/locker/fencing.go", "\treturn n, n <= last\n",
			"\treturn n, n <= last || simrand.Mutant(\"numbers\")\n",
		},
	},
	{
		name: "clocks", rule: "what docs/fencing.md asks of clocks where nodes forget is needed",
		mix: "forgetful,fenced", finds: "which is not above",
		edit: edit{"sim/plan.go", "p.clientMaxTTL*3/4 - 1}\n", "p.clientMaxTTL*3/4 - 1}\n\t\tif " +
			"simrand.Mutant(\"clocks\") {\n\t\t\tskews = []time.Duration{10 * p.clientMaxTTL}\n" +
			"\t\t}\n"},
	},
	{
		name: "late", rule: "8: an extension that comes late may move a key's end nearer",
		mix: "rough,returning", finds: "nodes keep it as long", from: 45,
		edit: edit{
			"internal/memorynode/node.go", "e.end == 0 || e.end < n.now()+ttl {",
			"e.end == 0 || e.end < n.now()+ttl || simrand.Mutant(\"late\") {",
		},
	},
	{
		name: "confirm", rule: "10: on a new line any marker is enough",
		mix: "forgetful,returning", finds: "both hold",
		edit: edit{
			"internal/link/connector.go", "marker.Text != c.Server.RunID {",
			"marker.Text != c.Server.RunID && !simrand.Mutant(\"confirm\") {",
		},
	},
	{
		name: "seen", rule: "10: a server counts as gone since its connection was made",
		mix: "forgetful,returning,blind", finds: "both hold", from: 110,
		edit: edit{
			"internal/restartguard/guard.go", "ServerLeft() { g.history.lastSeen = time.Now() }",
			"ServerLeft() {\n\tif !simrand.Mutant(\"seen\") {\n" +
				"\t\tg.history.lastSeen = time.Now()\n\t}\n}",
		},
	},
	{
		name: "unsure", rule: "5: a release is dropped while a broken connection may still be read",
		mix: "long,returning", finds: "soon after Close",
		edit: edit{
			"multiplex/claim.go", "\tif c.brokenAt().Has(i) {\n",
			"\tif c.brokenAt().Has(i) && !simrand.Mutant(\"unsure\") {\n",
		},
		also: edit{
			"multiplex/claim.go", "\treturn (c.unanswered() | c.brokenAt()).Has(i)\n",
			"\tif simrand.Mutant(\"unsure\") {\n\t\treturn c.unanswered().Has(i)\n\t}\n" +
				"\treturn (c.unanswered() | c.brokenAt()).Has(i)\n",
		},
	},
	{
		name: "before", rule: "8: an extension may be sent until the end that it asks for",
		mix: "rough,busy", finds: "after it ended", from: 440,
		edit: edit{
			"lease/extension.go", "\te.SendBefore = t.manager.timeOf(t.until)\n",
			"\tif e.SendBefore = t.manager.timeOf(t.until); simrand.Mutant(\"before\") {\n" +
				"\t\te.SendBefore = t.manager.timeOf(until)\n\t}\n",
		},
		also: edit{ // the release of a lease that has ended takes the place of its extension
			"multiplex/attempt.go", "\tcase a.superseded():\n",
			"\tcase a.superseded() && (a.op.Kind != node.Extend || !simrand.Mutant(\"before\")):\n",
		},
	},
	{
		name: "vote", rule: "1: one server may have two votes",
		mix: "aliased", finds: "nodes keep it as long",
		edit: edit{
			"internal/servers/servers.go",
			"\t\tcase other.conn != nil || other.quarantined:\n",
			"\t\tcase (other.conn != nil || other.quarantined) && !simrand.Mutant(\"vote\"):\n",
		},
		also: edit{
			"internal/servers/servers.go", "\t\t\tif i != node && other.inUse && (",
			"\t\t\tif i != node && other.inUse && !simrand.Mutant(\"vote\") && (",
		},
	},
	{
		name: "repeat", rule: "8: a server that has moved may grant an extension twice",
		mix: "aliased,stalled", finds: "nodes keep it as long", from: 141,
		edit: edit{
			"internal/link/conn.go", "\treturn c != nil && !c.MovedAt.IsZero() &&",
			"\treturn !simrand.Mutant(\"repeat\") && c != nil && !c.MovedAt.IsZero() &&",
		},
	},
	{
		name: "vouch", rule: "10: a disk that was put back is taken for one that lost nothing",
		mix: "forgetful,restored,blind", finds: "both hold", from: 254,
		edit: edit{
			"internal/restartguard/generations.go", "\treturn kept && (witnesses > ",
			"\treturn simrand.Mutant(\"vouch\") || kept && (witnesses > ",
		},
		also: edit{
			"internal/restartguard/generations.go", "\tif own.id == \"\" {\n",
			"\tif own.id == \"\" || simrand.Mutant(\"vouch\") {\n",
		},
	},
	{
		name: "replica", rule: "10: a master that was a replica is believed its marker",
		mix: "forgetful,demoted,blind", finds: "both hold", from: 166,
		edit: edit{
			"internal/restartguard/guard.go", "\t\tg.history.replicaRunID = s.runID\n",
			"\t\tif !simrand.Mutant(\"replica\") {\n" +
				"\t\t\tg.history.replicaRunID = s.runID\n\t\t}\n",
		},
		also: edit{ // its memory ID shows it too
			"internal/restartguard/decide.go", "\treturn strings.HasPrefix(h.admittedMemoryID, ",
			"\treturn !simrand.Mutant(\"replica\") && strings.HasPrefix(h.admittedMemoryID, ",
		},
	},
	{
		name: "any", rule: "1: nodes that took different keys are a quorum", mix: "any",
		finds: "both hold",
		edit: edit{
			"multiplex/any.go", "\treturn granted, a.refused | ",
			"\tif simrand.Mutant(\"any\") {\n\t\tgranted = a.granted\n\t}\n" +
				"\treturn granted, a.refused | ",
		},
	},
	{
		name: "part", rule: "1: a lease is granted when its first part is", mix: "grouped",
		finds: "both hold",
		edit: edit{
			"internal/parts/attempt.go", "\t\ts.note(p, o)\n",
			"\t\tif simrand.Mutant(\"part\") && s.kind == acquiring && s.next > 0 {\n" +
				"\t\t\to.Result = multiplex.Won\n\t\t}\n\t\ts.note(p, o)\n",
		},
	},
	{
		name: "skipped", rule: "1: a fleet moves without the step in which both layouts count",
		mix: "moving", finds: "both hold",
		edit: edit{
			"sim/fleet.go", "if !r.roll(rng, both) ||",
			"if !simrand.Mutant(\"skipped\") && !r.roll(rng, both) ||",
		},
	},
	{
		name: "joint", rule: "1: while a fleet moves, a quorum of one layout is enough",
		mix: "moving", finds: "both hold",
		edit: edit{
			"internal/quorum/system.go", "\tfor _, set := range q.sets[1:] {\n",
			"\tfor _, set := range q.sets[1:] {\n\t\tif simrand.Mutant(\"joint\") {\n" +
				"\t\t\tbreak\n\t\t}\n",
		},
	},
	{
		name: "hasty", rule: "1: the next layout is used alone while keys of the other are kept",
		mix: "moving,kept,busy", finds: "has kept it",
		edit: edit{
			"sim/fleet.go", "!r.sleep(r.plan.clientMaxTTL+r.plan.driftMargin())",
			"!simrand.Mutant(\"hasty\") && " +
				"!r.sleep(r.plan.clientMaxTTL+r.plan.driftMargin())",
		},
	},
	{
		name: "left", rule: "9: a release deletes keys that were kept", mix: "kept",
		finds: "has kept it",
		edit: edit{
			"internal/locker/release.go", "|| end == lease.ErrKept { // maybe",
			"|| end == lease.ErrKept && !simrand.Mutant(\"left\") { // maybe",
		},
	},
	{
		name: "suspended", rule: "3: a suspension is not counted",
		mix: "stopped", finds: "late that",
		edit: edit{
			"lease/clock.go", "\tsuspended := m.cfg.Suspended(t)\n",
			"\tsuspended := m.cfg.Suspended(t)\n\tif simrand.Mutant(\"suspended\") {\n" +
				"\t\tsuspended = 0\n\t}\n",
		},
	},
	{
		name: "history", rule: "10: a mark counts that was left on another memory",
		mix: "forgetful,brief,blind", finds: "both hold", from: 55,
		edit: edit{
			"internal/restartguard/lossrecord.go", "r.memoryID != s.memoryID || s.expiresIn",
			"r.memoryID != s.memoryID && !simrand.Mutant(\"history\") || s.expiresIn",
		},
		also: edit{
			"internal/restartguard/lossrecord.go", "(found.memoryID != s.memoryID || s.only",
			"(found.memoryID != s.memoryID && !simrand.Mutant(\"history\") || s.only",
		},
	},
	{
		name: "order", rule: "6: a trip takes its place in the line without the order",
		finds: "behind its release", mix: "busy",
		edit: edit{
			"internal/node/flush.go",
			"\tqueued := conn != nil && conn.Trips.Enqueue(&f.trip) == nil\n",
			"\tif early := f.Reading != nil && !f.lastTry; early && simrand.Mutant(\"order\") {\n" +
				"\t\tn.order.Unlock()\n\t\tf.Reading.Sent()\n" +
				"\t\ttime.Sleep(simrand.N(50 * time.Millisecond))\n\t\tn.order.Lock()\n\t}\n" +
				"\tqueued := conn != nil && conn.Trips.Enqueue(&f.trip) == nil\n",
		},
		also: edit{
			"internal/node/flush.go", "\tif f.Reading != nil && !f.lastTry {\n\t\tf.Reading.Sent()",
			"\tif f.Reading != nil && !f.lastTry && !simrand.Mutant(\"order\") {\n" +
				"\t\tf.Reading.Sent()",
		},
	},
	{
		name: "draft", rule: "6: a release does not take the place of an extension of a draft",
		finds: "behind its release", mix: "stalled,busy",
		edit: edit{
			"multiplex/claim.go", "\t\tif prev.inLog() && a.mux.log.Cancel(prev.place) {\n",
			"\t\tif prev.inLog() && !(simrand.Mutant(\"draft\") && prev.op.Kind == node.Extend) &&\n" +
				"\t\t\ta.mux.log.Cancel(prev.place) {\n",
		},
	},
	{
		name: "slow", rule: "5: a slow node is not sent the releases that it has missed",
		finds: "soon after Close", mix: "long",
		edit: edit{
			"multiplex/read.go", "\t\t\tcase unread && keep:\n",
			"\t\t\tcase unread && keep && simrand.Mutant(\"slow\"):\n" +
				"\t\t\tcase unread && keep:\n",
		},
	},
	{
		name: "out", rule: "5: a node that is down is not sent the releases that it has missed",
		finds: "soon after Close", mix: "long",
		edit: edit{
			"multiplex/read.go", "\t\t\tcase unread:\n",
			"\t\t\tcase unread && simrand.Mutant(\"out\"):\n\t\t\tcase unread:\n",
		},
	},
	{
		name: "look", rule: "6: a trip that was taken before its node missed a round does not look",
		finds: "behind its release", from: 20, mix: "stalled,busy",
		edit: edit{
			"internal/node/flush.go", "|| f.Reading.HasMissed() {\n",
			"|| f.Reading.HasMissed() && !simrand.Mutant(\"look\") {\n",
		},
	},
	{
		name: "done", rule: "1: a node that has missed a round has granted it", mix: "blind",
		finds: "both hold",
		edit: edit{
			"multiplex/attempt.go", "\tif !a.recorded {\n\t\ta.granted |= answered",
			"\tif simrand.Mutant(\"done\") {\n\t\tanswered, missed = answered|missed, 0\n\t}\n" +
				"\tif !a.recorded {\n\t\ta.granted |= answered",
		},
	},
	{
		name: "lost", rule: "10: an answer counts that came behind the report of a flush",
		mix: "forgetful,stalled,blind", finds: "both hold", from: 77,
		edit: edit{
			"internal/node/flush.go", "\tif n.Link.StillValid(conn) {\n",
			"\tif n.Link.StillValid(conn) || simrand.Mutant(\"lost\") && f.Counts {\n",
		},
	},
	{
		name: "twice", rule: "1: one MSETEX takes a key for two callers", mix: "newer,blind,grouped",
		finds: "both hold", from: 150,
		edit: edit{
			"internal/node/together.go", "\tcase len(t.keys) != before+len(keys):\n",
			"\tcase len(t.keys) != before+len(keys) && !simrand.Mutant(\"twice\"):\n",
		},
	},
	{
		name: "alone", rule: "6: an acquire whose MSETEX was refused follows its release",
		finds: "behind its release", mix: "newer,busy,stalled",
		edit: edit{
			"internal/node/flush.go",
			"\t\tif why := f.Ops[at].Skip(f.node.index, now); why != nil {\n\t\t\tf.Answers",
			"\t\tif why := f.Ops[at].Skip(f.node.index, now); why != nil && " +
				"!simrand.Mutant(\"alone\") {\n\t\t\tf.Answers",
		},
	},
}

// The goal: the simulation finds faults. Each rule of lockpipe that is broken by a small edit
// becomes a violation.
func TestEachBrokenRuleIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("a build and some hundred runs")
	}
	edits := seedEdits()
	for _, m := range brokenRules {
		for _, e := range []edit{m.edit, m.also} {
			if e.file != "" {
				edits = append(edits, e)
			}
		}
	}
	binary := build(t, edits)
	for _, m := range brokenRules {
		t.Run(m.name+" "+m.mix, func(t *testing.T) {
			t.Parallel() // each is a process of its own
			out, err := runBinary(t, binary, "-sim.broken="+m.name, "-sim.mix="+m.mix,
				fmt.Sprint("-sim.seed=", max(1, m.from)), "-sim.count=1500",
				"-sim.finds="+m.finds)
			require.Error(t, err, "rule %s, and nothing is found\n%.2000s", m.rule, out)
			require.Contains(t, out, m.finds, "rule %s", m.rule)
			t.Logf("%.3000s", out)
		})
	}
}
