package lockpipetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDo_ReturnsGoValues(t *testing.T) {
	onBothBackends(t, 1, func(t *testing.T, nodes *Nodes) {
		binary := "a\r\nb\x00\xff"
		require.Equal(t, "OK", do(t, nodes, 0, "SET", "bin", binary))
		require.Equal(t, binary, do(t, nodes, 0, "GET", "bin"))
		require.Equal(t, int64(1), do(t, nodes, 0, "DEL", "bin"))
		require.Nil(t, do(t, nodes, 0, "GET", "bin"))
		require.Equal(t, int64(-2), do(t, nodes, 0, "PTTL", "bin"))
		require.Equal(t, "", do(t, nodes, 0, "ECHO", ""))
		do(t, nodes, 0, "SET", "a", "b")
		require.Equal(t, []any{"b", nil}, do(t, nodes, 0, "MGET", "a", "bin"))
	})
	require.Equal(t, []any{int64(1), "a", nil, []any{"b"}},
		do(t, StartRealT(t, 1), 0, "EVAL", "return {1, 'a', false, {ARGV[1]}}", "0", "b"))
}

func TestDo_ReturnsErrorReplyAsError(t *testing.T) {
	onBothBackends(t, 1, func(t *testing.T, nodes *Nodes) {
		do(t, nodes, 0, "ZADD", "set", "1", "v")
		_, err := nodes.Do(0, "get", "set")
		require.ErrorContains(t, err, "GET to node 0: WRONGTYPE Operation")
	})
}

func TestKeys_TakesPrefixLiterally(t *testing.T) {
	t.Parallel()
	onBothBackends(t, 1, func(t *testing.T, nodes *Nodes) {
		none, err := nodes.Keys(0, "")
		require.NoError(t, err)
		require.Empty(t, none)

		want := []string{`a*[x]?\1`, `a*[x]?\2`}
		for _, key := range append(slices.Clone(want), `abx?\1`, "b") {
			do(t, nodes, 0, "SET", key, "v")
		}
		got, err := nodes.Keys(0, `a*[x]?\`)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

func TestKeys_ReadsManyPages(t *testing.T) {
	t.Parallel()
	onBothBackends(t, 1, func(t *testing.T, nodes *Nodes) {
		c := dialNode(t, nodes, 0)
		want := []string{}
		for i := range 3500 {
			key := fmt.Sprintf("k:%04d", i)
			want = append(want, key)
			_, err := c.Ask("SET", key, "v")
			require.NoError(t, err)
		}
		got, err := nodes.Keys(0, "k:")
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}
