package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// example is a sample as a lab could make it.
func example(atMs int64) sample {
	return sample{
		AtMs: atMs, Pool: 10, PatienceMs: 3000, Load: load{64, 5, flash},
		Shops: []shopSample{
			{
				Way: "row locks", InUse: 10,
				OnSale: figures{PerS: 12, P50: 900, P99: 2999.6, Any: true},
				count:  count{Sold: 12345, Oversold: 2}, OthersSold: 100, Holder: "is paused, and holds the product",
			},
			{
				Way: "lockpipe", InUse: 0.32,
				Others: figures{PerS: 567, P50: 6.25, P99: 41, Any: true},
				count:  count{Sold: 12300}, OthersSold: 2300,
			},
			{
				Way: "lockpipe, combined", InUse: 1,
				OnSale: figures{PerS: 640, P50: 12, P99: 25, Any: true},
				Others: figures{PerS: 550, P50: 7, P99: 18, Any: true},
				count:  count{Sold: 98765}, OthersSold: 950,
			},
		},
		Nodes: []nodeSample{
			{State: "up"},
			{Down: "killed", State: "down"},
			{Down: "frozen", State: "up"},
			{State: "quarantined", ForMs: 3100},
			{State: "up"},
		},
		Events: []event{{1, 500, "node 2 was <killed>"}},
	}
}

// The goal: a browser shows what a sample says, and its buttons send what they say.
func TestPage_ShowsSamplesAndSendsActions(t *testing.T) {
	server, h, r := startPage(t)
	h.publish(example(1000))
	b := openPage(t, server.URL+"/")
	b.await("window.document.readyState === 'complete' && document.querySelector('#events li')")
	row := func(n int) any {
		return b.run("[...document.querySelectorAll('#figures tr')][" + string(rune('0'+n)) +
			"].innerText.replaceAll('\\u00a0', ' ').split('\\t')")
	}
	require.Equal(t, []any{"Connections in use, of 10", "10", "0.3", "1.0"}, row(0))
	require.Equal(t, []any{"Orders/s, on sale", "12", "0", "640"}, row(1))
	require.Equal(t, []any{"Wait, on sale: p50 · p99", "900 ms · 3.0 s", "–", "12 ms · 25 ms"}, row(3))
	require.Equal(t, []any{"Wait, other products: p50 · p99", "–", "6.3 ms · 41 ms", "7.0 ms · 18 ms"}, row(4))
	require.Equal(t, []any{"Orders on sale, since the start", "12,345", "12,300", "98,765"}, row(6))
	require.Equal(t, []any{"Orders, other products, since the start", "100", "2,300", "950"}, row(7))
	require.Equal(t, []any{"Oversold, since the start", "2", "0", "0"}, row(8))
	require.Equal(t, []any{"Paused holder", "is paused, and holds the product", "none", "none"}, row(9))
	require.Equal(t, "Orders of other products, against row locks: lockpipe 23\u00a0×, "+
		"lockpipe, combined 9.5\u00a0×. Orders on sale: lockpipe 1.0\u00a0×, lockpipe, combined 8.0\u00a0×.",
		b.run("document.getElementById('headline').textContent"))
	require.Equal(t, []any{
		"node 1: up", "node 2: killed; lockpipe: down", "node 3: frozen; lockpipe: up",
		"node 4: quarantined, 4\u00a0s", "node 5: up",
	}, b.run("[...document.querySelectorAll('#nodes .name')].map((e) => e.textContent)"))
	require.Equal(t, "1 s: node 2 was <killed>",
		b.run("document.querySelector('#events').innerText"))
	require.Equal(t, true, b.run("document.getElementById('pause').disabled"))

	next := example(1250)
	next.Shops[0].Holder = ""
	h.publish(next)
	b.await("!document.getElementById('pause').disabled")
	require.Equal(t, "M875.0 0.0L900.0 0.0", b.run("(show({...history[1], atMs: 2250}),"+
		" charts[0].paths[0].getAttribute('d').split('L').slice(0, 2).join('L'))"))
	b.run("document.getElementById('pause').click()")
	require.Equal(t, "pause", <-r.done)
	b.run("document.querySelector('[aria-label=\"Continue node 3\"]').click()")
	require.Equal(t, []any{2, "thaw"}, <-r.done)
	b.run("document.querySelector('input[name=outsideMs][value=\"50\"]').click()")
	require.Equal(t, load{64, 50, flash}, <-r.done)
}
