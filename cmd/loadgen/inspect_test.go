package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// Goal: -inspect prints a line for each finding and no load, and is no failure if nothing is
// wrong.
func TestInspect_PrintsFindings(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := loadgen(t.Context(), "-inspect", "-nodes", "inprocess:4")
	require.Equal(t, exitSafe, code, stderr)
	require.Empty(t, stderr)
	require.Regexp(t, `inspection of inprocess:4 \(in-process\)\nThe nodes are in the memory of `+
		`this process .*, as inprocess:4 asks\.\nFor real servers give .*\.\n\ninfo `, stdout)
	require.Equal(t, 4, strings.Count(stdout, " answers within "))
	require.Regexp(t, `\ninfo +all nodes +4 nodes tolerate`, stdout)
	require.NotContains(t, stdout, "locks/s")
}

// Goal: a finding that is an error is a failure, with the table as usual, and no password is
// shown.
func TestInspect_AnErrorIsAFailure(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	for name, value := range map[string]string{
		"maxmemory-policy": "allkeys-lru",
		"maxmemory":        "1gb",
	} {
		_, err := nodes.Do(2, "CONFIG", "SET", name, value)
		require.NoError(t, err)
	}
	code, stdout, stderr := loadgen(t.Context(), "-inspect", "-nodes", strings.Join(nodes.URLs(),
		","))
	require.Equal(t, exitUnsafe, code)
	require.Empty(t, stderr)
	require.Contains(t, stdout, "maxmemory-policy allkeys-lru")

	code, stdout, stderr = loadgen(t.Context(), "-inspect", "-nodes",
		"redis://me:secret@127.0.0.1:1")
	require.Equal(t, exitUnsafe, code)
	require.Empty(t, stderr)
	require.Contains(t, stdout, "\nerror    127.0.0.1:1  can't be used")
	require.NotContains(t, stdout, "secret")
}

// Goal: -json has the same findings, instead of the table or with it.
func TestInspect_JSON(t *testing.T) {
	t.Parallel()
	type findings struct {
		Version, Backend, Nodes string
		Note                    string `json:"nodes_note"`
		Findings                []struct{ Node, Severity, Text string }
	}
	code, stdout, stderr := loadgen(t.Context(), "-inspect", "-nodes", "127.0.0.1:1", "-json", "-")
	require.Equal(t, exitUnsafe, code)
	require.Empty(t, stderr)
	var f findings
	require.NoError(t, json.Unmarshal([]byte(stdout), &f))
	require.Equal(t, "127.0.0.1:1", f.Nodes)
	require.Equal(t, "external", f.Backend)
	require.NotContains(t, stdout, "nodes_note")
	require.NotEmpty(t, f.Version)
	require.Len(t, f.Findings, 3, "it is down, it is the only one, and GuardStrict would be "+
		"better for it")
	require.Equal(t, "error", f.Findings[0].Severity)
	require.Equal(t, "127.0.0.1:1", f.Findings[0].Node)
	require.Equal(t, "warning", f.Findings[1].Severity)
	require.Empty(t, f.Findings[1].Node)

	file := filepath.Join(t.TempDir(), "findings.json")
	code, stdout, stderr = loadgen(t.Context(), "-inspect", "-nodes", "inprocess:1", "-json", file)
	require.Equal(t, exitSafe, code, stderr)
	require.Regexp(t, `\nwarning +all nodes`, stdout)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &f))
	require.Equal(t, "inprocess:1", f.Nodes)
	require.Contains(t, f.Note, "as inprocess:1 asks.")
}

// Goal: an interrupt ends -inspect without a table.
func TestInspect_AnInterruptEndsIt(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	code, stdout, stderr := loadgen(ctx, "-inspect", "-nodes", "inprocess:1")
	require.Equal(t, exitUnsafe, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "interrupted before the nodes had answered")
}

// Goal: -inspect leaves nothing on the nodes, whatever it is told about their clients.
func TestInspect_LeavesNoTrace(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 3)
	state := func() (all []string) {
		for i := range nodes.Len() {
			keys, err := nodes.Keys(i, "")
			require.NoError(t, err)
			text, err := nodes.Do(i, "INFO")
			require.NoError(t, err)
			fields := resp.ParseInfo(text.(string))
			all = append(append(all, keys...), fields["rdb_changes_since_last_save"],
				fields["tracking_clients"])
		}
		return all
	}
	before := state()
	require.Equal(t, []string{"0", "0", "0", "0", "0", "0"}, before)
	urls := nodes.URLs()
	for _, args := range [][]string{
		{"-nodes", strings.Join(urls, ",")},
		{"-nodes", urls[0], "-next", urls[1] + "," + urls[2], "-prefix", "app:"},
		{"-nodes", urls[0] + "," + urls[1] + "," + urls[2], "-guard", "strict"},
	} {
		code, stdout, stderr := loadgen(t.Context(), append(args, "-inspect")...)
		require.Equal(t, exitSafe, code, stdout+stderr)
		require.Equal(t, 3, strings.Count(stdout, " answers within "))
		require.Equal(t, before, state())
	}
}

// Goal: what -inspect is told about the clients decides what is found.
func TestInspect_KnowsTheClients(t *testing.T) {
	t.Parallel()
	nodes := servertest.Start(t, 1)
	info, err := nodes.Do(0, "INFO")
	require.NoError(t, err)
	_, err = nodes.Do(0, "SET", "app:lockpipe:admitted", resp.ParseInfo(info.(string))["run_id"])
	require.NoError(t, err)
	for args, want := range map[string]string{
		"":                          "has no key of the restart guard",
		"-prefix app:":              "was admitted by the restart guard",
		"-max-ttl 3h":               "does not vote for MaxTTL (3h0m0s)",
		"-max-ttl 1s":               "does not vote for MaxTTL (1s)",
		"-ttl 30s":                  "does not vote for MaxTTL (30s)",
		"-guard off":                "because RestartGuard is off",
		"-next inprocess:2":         "two nodes make a quorum only together",
		"-next inprocess:1 -json -": `"next": "inprocess:1"`,
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			all := append(strings.Fields(args), "-inspect", "-nodes", nodes.URLs()[0])
			_, stdout, stderr := loadgen(t.Context(), all...)
			require.Empty(t, stderr)
			require.Contains(t, stdout, want)
		})
	}
}
