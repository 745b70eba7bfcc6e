package main

import (
	"os"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe/examples/orders"
	"github.com/lockpipe/lockpipe/examples/orders/database"
	"github.com/lockpipe/lockpipe/examples/orders/holder"
	"github.com/lockpipe/lockpipe/lockpipetest"
	"github.com/stretchr/testify/require"
)

// TestMain lets the program of the tests be the holder.
func TestMain(m *testing.M) {
	holder.Main()
	os.Exit(m.Run())
}

// The goal: the faults show what each way does with the last piece. A holder that is killed frees
// its rows, but not the pieces that it took first. A stock that is counted again is sold twice. A
// reservation outlives its process, and if it is forgotten the later payment is refused.
func TestFaults_ShowWhatBecomesOfTheLastPiece(t *testing.T) {
	server, err := database.Postgres.Start()
	database.Require(t, err)
	defer server.Close()
	b := breakage{server, lockpipetest.StartT(t, 3), open(server)}
	for _, c := range []struct {
		way, fault, rival, holder string
		oversold, unpaid          int
	}{
		{"row locks", killed, holder.Placed, holder.Killed, 0, 0},
		{"conditional update", killed, "sold out", holder.Killed, 0, 1},
		{"redis stock", killed, "sold out", holder.Killed, 0, 1},
		{"conditional update", restarted, "sold out", holder.Placed, 0, 0},
		{"redis stock", restarted, holder.Placed, holder.Placed, 1, 0},
		{"lockpipe, reserved", killed, "sold out", holder.Killed, 0, 0},
		{
			"lockpipe, reserved", restarted, holder.Placed,
			"lockpipe: too few nodes keep the keys: lease expired", 0, 0,
		},
	} {
		for _, way := range orders.Ways() {
			if way.Name != c.way {
				continue
			}
			got, err := b.run(t.Context(), way, c.fault)
			require.NoError(t, err)
			got.after = 0
			require.Equal(t, outcome{
				rival: c.rival, holder: c.holder, oversold: c.oversold, unpaid: c.unpaid,
			}, got, "%s, %s", c.way, c.fault)
		}
	}
}

// The goal: the page has all results as text, and a paragraph for each way.
func TestPage_HasAllWays(t *testing.T) {
	var text strings.Builder
	s, err := parse([]string{"-ways", "row", "-pay", "0s,5ms"})
	require.NoError(t, err)
	require.Len(t, s.waysOn(database.Postgres), 2)
	require.Len(t, s.waysOn(database.MariaDB), 1)
	require.NoError(t, renderPage(&text, s, []section{
		{"a <case>", []string{"", "x"}, [][]string{{"a way", "17"}}, []string{"a note"}},
	}))
	require.Contains(t, text.String(), "<h2>a &lt;case&gt;</h2>")
	require.Contains(t, text.String(), "<td>a way</td><td>17</td>")
	for _, way := range orders.Ways() {
		require.Contains(t, text.String(), "<dt>"+way.Name+"</dt>")
	}
}
