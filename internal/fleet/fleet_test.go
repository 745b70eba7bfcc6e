package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/restartguard"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// trial is a client of three nodes, on each of which a test says what others have left.
type trial struct {
	fleet     *Fleet
	nodes     []*Node
	log       bytes.Buffer
	abandoned [3]int
	renewed   [3]int
	args      []string // of the last script
}

func newTrial(strict bool, layouts ...string) *trial {
	r := &trial{}
	r.fleet = New(layouts, strict, slog.New(slog.NewTextHandler(&r.log, nil)))
	for i := range 3 {
		r.nodes = append(r.nodes, r.fleet.Node(NodeConfig{
			Name: fmt.Sprint("n", i), Key: "layouts", MaxTTL: time.Minute,
			RenewSoon: func() { r.renewed[i]++ }, Abandon: func() { r.abandoned[i]++ },
		}))
	}
	return r
}

// renew renews on a node that has these entries of others.
func (r *trial) renew(t *testing.T, node int, entries string) {
	t.Helper()
	run := func(_ context.Context, s *script.Script, keys, args []string) (string, error) {
		require.Equal(t, script.Layouts, s)
		require.Equal(t, []string{"layouts"}, keys)
		r.args = args
		return entries, nil
	}
	require.NoError(t, r.nodes[node].Renew(t.Context(), run))
}

func (r *trial) lines(text string) int { return strings.Count(r.log.String(), text) }

// The goal: clients with a layout in common do not see each other as foreign.
func TestFleet_AJointEntryIsForeignToNeitherOfItsLayouts(t *testing.T) {
	for _, test := range []struct {
		own, others string
		foreign     int
	}{
		{"A", "A,B=1000", 0},
		{"B", "A,B=1000", 0},
		{"A,B", "A=1000 B=1000 B,C=1000", 0},
		{"A,B", "A=1000 C=1000 C,D=1000", 2},
		{"A", "B=1000", 1},
	} {
		r := newTrial(false, strings.Split(test.own, ",")...)
		r.renew(t, 0, test.others)
		require.Equal(t, test.foreign, r.fleet.Foreign(), "%v", test)
		require.Equal(t, []string{test.own, "150000", ""}, r.args)
		require.NoError(t, r.nodes[0].Refuses(), "the client is not strict")
	}
}

// The goal: one line when a foreign entry appears, with all nodes that have it, and one when it is
// gone. The other nodes are asked at once.
func TestFleet_LogsAForeignEntryOnceWithItsNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(false, "A")
		r.renew(t, 1, "B=150000")
		require.Equal(t, [3]int{1, 0, 1}, r.renewed)
		require.Equal(t, sightingTime, r.nodes[1].UntilRenewal())
		r.renew(t, 2, "B=150000")
		r.renew(t, 0, "A,C=150000")
		require.Zero(t, r.log.Len())
		for range 5 {
			time.Sleep(sightingTime)
			r.renew(t, 1, "B=150000")
		}
		require.Equal(t, 1, r.lines("shares no quorum"), r.log.String())
		require.Contains(t, r.log.String(), "layout=B own=A nodes=\"[n1 n2]\"")
		require.GreaterOrEqual(t, r.nodes[1].UntilRenewal(), renewEvery/2)
		r.renew(t, 1, "")
		require.Equal(t, 1, r.fleet.Foreign(), "node 2 has it")
		time.Sleep(150 * time.Second)
		require.Zero(t, r.fleet.Foreign(), "it has ended, although node 2 did not answer")
		r.renew(t, 0, "")
		r.renew(t, 1, "")
		require.Equal(t, 1, r.lines("not in use any more"), r.log.String())
		require.Equal(t, [3]int{}, r.abandoned)
	})
}

// The goal: a strict client has no node while one of them has a foreign entry. It leaves none
// meanwhile.
func TestFleet_AStrictClientStaysOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTrial(true, "A")
		r.renew(t, 0, "A,B=1000")
		require.Equal(t, []string{"A", "150000", "1"}, r.args)
		require.NoError(t, r.nodes[0].Refuses())
		r.renew(t, 1, "B=5000")
		require.Equal(t, [3]int{1, 1, 1}, r.abandoned)
		for _, n := range r.nodes {
			var q *restartguard.Quarantine
			require.ErrorAs(t, n.Refuses(), &q)
			require.Equal(t, time.Now().Add(5*time.Second), q.Until)
			require.Contains(t, q.Reason, "(B on n1; this one's is A)")
		}
		cause := func() string {
			var q *restartguard.Quarantine
			require.ErrorAs(t, r.nodes[0].Refuses(), &q)
			return q.Cause()
		}
		before := cause()
		r.renew(t, 1, "B=9000")
		require.Equal(t, []string{"A", "0", "1"}, r.args, "nothing is left")
		require.Equal(t, before, cause(), "another end is not another cause")
		time.Sleep(9 * time.Second)
		require.NoError(t, r.nodes[0].Refuses())
		r.renew(t, 1, "")
		require.Equal(t, []string{"A", "150000", "1"}, r.args)
	})
}

func TestFleet_AnErrorIsLoggedOnce(t *testing.T) {
	r := newTrial(true, "A")
	for range 3 {
		r.nodes[1].Failed(errors.New("NOPERM"))
	}
	require.Equal(t, 1, r.lines("NOPERM"))
	require.NoError(t, r.nodes[1].Refuses())
	r.renew(t, 1, "")
	r.nodes[1].Failed(errors.New("NOPERM"))
	require.Equal(t, 2, r.lines("NOPERM"))
}

func TestFleet_WithoutLayoutsDoesNothing(t *testing.T) {
	var f *Fleet
	require.Nil(t, New(nil, true, nil))
	n := f.Node(NodeConfig{Key: "layouts"})
	require.NoError(t, n.Renew(t.Context(), nil))
	require.NoError(t, n.Admit(nil))
	require.NoError(t, n.Refuses())
	require.Empty(t, n.Key())
	require.Zero(t, f.Foreign())
	require.Positive(t, n.UntilRenewal())
}

// The goal: a group's nodes may be added while those of another are in use already. Then they are
// connected as soon as they are there.
func TestFleet_NodesAreAddedWhileOthersAreInUse(t *testing.T) {
	r := newTrial(false, "A")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			r.fleet.Node(NodeConfig{RenewSoon: func() {}, Abandon: func() {}})
		}
	}()
	for range 100 {
		r.renew(t, 0, "B=1000")
		r.renew(t, 0, "")
	}
	<-done
	require.Zero(t, r.fleet.Foreign())
}
