package main

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe/examples/orders"
	"github.com/lockpipe/lockpipe/examples/orders/database"
	"github.com/lockpipe/lockpipe/examples/orders/holder"
	"github.com/stretchr/testify/require"
)

// TestMain lets the program of the tests be the holder.
func TestMain(m *testing.M) {
	holder.Main()
	os.Exit(m.Run())
}

// The goal: all shops sell while nodes break, a holder is paused in each of them, and at the end
// the stock is exact and nothing is left.
func TestLab_SellsWhileThingsBreak(t *testing.T) {
	if testing.Short() {
		t.Skip("-short does not test a flash sale with PostgreSQL and nodes that break")
	}
	b, err := startLab(load{Callers: 16, Products: flash})
	database.Require(t, err)
	h := newHub()
	_, page, joined := h.join()
	require.True(t, joined)
	b.publish(h)
	untilSold := func(more int) {
		var first *sample
		for enough := false; !enough; {
			s := read(t, <-page)
			if first == nil {
				first = &s
			}
			enough = true
			for i := range s.Shops {
				enough = enough && s.Shops[i].Sold >= first.Shops[i].Sold+more
			}
		}
	}
	untilSold(20)
	require.NoError(t, b.breakNode(0, "kill"))
	require.NoError(t, b.breakNode(1, "freeze"))
	untilSold(10)
	require.NoError(t, b.breakNode(1, "thaw"))
	require.NoError(t, b.breakNode(0, "restart"))
	require.Error(t, b.breakNode(nodeCount, "kill"))
	require.Error(t, b.breakNode(0, "paint"))
	require.NoError(t, b.pauseHolder())
	require.Equal(t, errHolderRuns, b.pauseHolder())
	for paused := 0; paused < 3; {
		paused = 0
		s := read(t, <-page)
		for i := range s.Shops {
			paused += strings.Count(s.Shops[i].Holder, "is paused")
		}
	}
	var out strings.Builder
	require.NoError(t, b.close(&out))
	require.Contains(t, out.String(), "row locks: ")
	require.Equal(t, 3, strings.Count(out.String(), " 0 oversold; stock and orders agree\n"))
}

// The goal: what was sold twice is counted, also after new pieces came, and a piece that is in no
// order is found.
func TestLedger_FindsMistakes(t *testing.T) {
	server, err := database.Postgres.Start()
	database.Require(t, err)
	defer server.Close()
	ctx := t.Context()
	pay := func(context.Context, orders.Order) error { return nil }
	s, err := openShop(ctx, "row locks", "mistakes", server, nil, pay)
	require.NoError(t, err)
	defer s.close(ctx)
	place, err := s.open()
	require.NoError(t, err)
	for range 3 {
		s.place(ctx, place, []int{0})
	}
	change := func(statement string) {
		_, err := s.db.ExecContext(ctx, statement)
		require.NoError(t, err)
	}
	counted := func(want count) {
		t.Helper()
		got, err := s.ledger.count(ctx)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	counted(count{Sold: 3, Lots: 1})
	require.NoError(t, s.ledger.restock(ctx)) // there are some
	counted(count{Sold: 3, Lots: 1})
	require.NoError(t, s.ledger.forget(ctx, 3))
	require.NoError(t, s.ledger.audit(ctx))

	change("UPDATE products SET stock = -2 WHERE id = 0")
	counted(count{Sold: lot + 2, Oversold: 2, Lots: 1})
	require.NoError(t, s.ledger.restock(ctx))
	counted(count{Sold: lot + 2, Oversold: 2, Lots: 2})
	require.ErrorContains(t, s.ledger.audit(ctx), "and 3 are in orders")
}

// The goal: a port that is taken is an error that says what to do, before anything starts.
func TestRun_PortIsTaken(t *testing.T) {
	server, _, _ := startPage(t)
	address := server.Listener.Addr().String()
	var port int
	for _, digit := range address[strings.LastIndex(address, ":")+1:] {
		port = 10*port + int(digit-'0')
	}
	require.ErrorContains(t, run(t.Context(), port, io.Discard), "choose another port with -port")
}
