package restartguard

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// world is a node's history as only its servers know it: with the moment when locks were lost. It
// is the dumb version of decide.
type world struct {
	now, lostAt float64 // when locks were lost last; everything before is gone
	run         int
	started     float64
	marker      string
	durable     bool
	promoted    bool
	disk        generation
	known       map[string]int64 // the highest number of each id, as other nodes keep it
	saved       *world           // a copy of the disk
	replaced    bool             // in the last step, by a server that is older than that
	recordedAt  float64          // when the marker was written, if it is a loss record
	promotions  int              // each draws a new master_replid
}

// hasRecord reports whether the marker is a loss record.
func (w *world) hasRecord() bool {
	_, ok := parseLossRecord(w.marker)
	return ok
}

// step is a second or less of the history, with an accident now and then.
func (w *world) step(r *rand.Rand) {
	w.now += r.Float64()
	w.replaced = false
	if r, ok := parseLossRecord(w.marker); ok && w.now > w.recordedAt+r.lasts.Seconds() {
		w.marker = ""
	}
	switch r.IntN(160) {
	case 0: // it restarts empty
		w.begin(world{started: w.now, durable: r.IntN(3) == 0})
	case 1: // it restarts, from an old file if it is not durable
		if !w.durable {
			w.lostAt = w.now
			if s := w.saved; s != nil && s.hasRecord() {
				w.marker, w.recordedAt = s.marker, s.recordedAt
			}
		}
		w.run, w.started, w.promoted = w.run+1, w.now, false
	case 2:
		// It is wiped; if it was not admitted, it has no locks but those that it lost
		// before.
		if w.marker == fmt.Sprint(w.run) || w.durable && w.wasAdmitted() {
			w.lostAt = w.now
		}
		w.marker, w.disk = "", generation{}
	case 3: // a replica takes its place
		w.run, w.lostAt, w.promoted, w.started, w.durable = w.run+1, w.now, true,
			w.now-20*r.Float64(), false
		w.promotions++
	case 4: // an empty server that had waited next to it takes its place
		w.begin(world{started: w.now - 20*r.Float64(), replaced: true})
	case 5, 6: // its disk is copied
		saved := *w
		w.saved = &saved
	case 7, 8: // it restarts with the copy, if that is old enough to be noticed
		if s := w.saved; s != nil && w.durable && s.durable && s.disk.number < w.known[s.disk.id] {
			w.begin(world{
				started: w.now, durable: true, marker: s.marker, recordedAt: s.recordedAt,
				disk: s.disk,
			})
		}
	case 9, 10, 11, 12:
		// It becomes a replica of its own former replica, which has an older record, and is
		// promoted again.
		if s := w.saved; s != nil && s.run == w.run && s.hasRecord() {
			w.marker, w.recordedAt, w.disk = s.marker, s.recordedAt, s.disk
			w.lostAt, w.promoted = w.now, true
			w.promotions++
		}
	}
}

// wasAdmitted reports whether a server was admitted here before this one.
func (w *world) wasAdmitted() bool { s := w.info(); return s.formerRun() != "" }

// begin is the start of another server, which has none of the locks.
func (w *world) begin(server world) {
	server.now, server.lostAt, server.run = w.now, w.now, w.run+1
	server.promotions, server.known, server.saved = w.promotions, w.known, w.saved
	*w = server
}

// admitted is what follows when a client was admitted: a new generation begins, or the number
// rises.
func (w *world) admitted(d decision) {
	if d.writeMarker && !d.keptMemory {
		w.known[w.disk.id] = endedGeneration
		w.disk = generation{}
		if w.durable {
			w.disk = generation{fmt.Sprint("id", w.now), 0}
		}
	}
	if w.disk.id != "" {
		w.disk.number++
		w.known[w.disk.id] = w.disk.number
	}
}

func (w *world) info() serverInfo {
	outdated := w.disk.id != "" && w.known[w.disk.id] > w.disk.number
	expiresIn := time.Duration(0)
	if r, ok := parseLossRecord(w.marker); ok {
		expiresIn = r.lasts - time.Duration((w.now-w.recordedAt)*float64(time.Second))
	}
	return serverInfo{
		memoryID: fmt.Sprintf("%d.%d", w.run, w.promotions), expiresIn: expiresIn,
		markerReadAt: at(w.now),
		own:          w.disk, outdated: outdated, vouched: w.disk.id != "" && !outdated,
		runID: fmt.Sprint(w.run), uptime: time.Duration(int(w.now)-int(w.started)) * time.Second,
		marker: w.marker, durable: w.durable, maybePromoted: w.promoted, uptimeAskedAt: at(w.now),
		markerAskedAt: at(w.now),
	}
}

// look is what a client does that looks at the node: see Guard.decideVouched.
func (w *world) look(h nodeHistory, longest time.Duration) (decision, nodeHistory) {
	s := w.info()
	d, after := decide(&s, h, longest, at(w.now))
	if r, needed := s.nextRecord(longest, h.everAdmitted); !d.admit && needed {
		w.marker, w.recordedAt = r.text(), w.now
		if r.formerRun == "" {
			w.disk = generation{}
		}
		s = w.info()
		d, after = decide(&s, h, longest, at(w.now))
	}
	if d.writeMarker {
		w.marker = fmt.Sprint(w.run)
	}
	if d.admit {
		after = after.afterAdmission()
		w.admitted(d)
	}
	return d, after
}

// The goal: whatever happens to a node, several clients that come and go admit it only when the
// longest TTL has passed since it lost anything; and they do admit it in the end. The dumb
// version knows when that was. A client that was admitted is connected and looks at once; the
// others look now and then.
//
// What no client can know is left out: when another server took the node's place while the client
// was away; and that a durable server was a replica before its last restart.
func TestDecide_AdmitsOnlyWhatHasLostNothing(t *testing.T) {
	const longest, maxTTL = 10.5, 10500 * time.Millisecond
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := world{
			now: 100, run: 1, started: 50, lostAt: 50, marker: "1",
			known: map[string]int64{},
		}
		clients := make([]nodeHistory, 3)
		lives := []int{3, 10, 100}[r.IntN(3)]
		admitted := 0
		for range 2000 {
			w.step(r)
			if r.IntN(lives) == 0 {
				clients[r.IntN(len(clients))] = nodeHistory{} // a new one
			}
			for i, h := range clients {
				connected := h.admitted && h.until.IsZero()
				if connected || w.replaced {
					h.lastSeen = at(w.now) // until the step
				} else if r.IntN(4) > 0 {
					continue
				}
				d, after := w.look(h, maxTTL)
				clients[i] = after
				if !d.admit {
					if !d.until.After(at(w.now)) || d.until.After(at(w.now+longest)) {
						require.Fail(t, "waits forever, or for nothing",
							"seed %d: until %v s from now", seed, d.until.Sub(at(w.now)))
					}
					continue
				}
				admitted++
				if w.now < w.lostAt+longest {
					require.Fail(t, "admitted too early", "seed %d: %v s after it lost locks", seed,
						w.now-w.lostAt)
				}
			}
		}
		require.Greater(t, admitted, 500)
	}
}
