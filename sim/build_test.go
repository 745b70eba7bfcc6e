package sim

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe/sim/simrand"
	"github.com/stretchr/testify/require"
)

// cores is how many binaries of build can run at the same time.
var cores int

func TestMain(m *testing.M) {
	flag.Parse()
	// With several threads, the order of what happens at one instant would differ each time.
	cores = runtime.GOMAXPROCS(1)
	simrand.EnableMutant(*brokenRule)
	os.Exit(m.Run())
}

// edit is a replacement in one source file of the repository. The old text must occur exactly once.
type edit struct{ file, old, new string }

// seedEdits returns the edits by which lockpipe takes its random delays and its wall clock from
// package simrand. Only fences use the wall clock.
func seedEdits() []edit {
	edits := []edit{
		{"sim/simrand/simrand.go", "const Enabled = false", "const Enabled = true"},
		{
			"internal/locker/locker.go", "\tk.Fences = ids.NewFenceClock(time.Now, ",
			"\t_ = time.Now\n\tk.Fences = ids.NewFenceClock(simrand.Clock(), ",
		},
		{"client.go", "\t\"github.com/lockpipe/lockpipe/internal/suspension\"\n", ""},
		{"client.go", "suspension.Counter()", "simrand.Suspended()"},
		{
			"internal/cluster/cluster.go",
			"\t\"github.com/lockpipe/lockpipe/internal/suspension\"\n", "",
		},
		{"internal/cluster/cluster.go", "suspension.Counter()", "simrand.Suspended()"},
		// It is held where a goroutine may stall.
		{"multiplex/mux.go", "\tbeginning sync.Mutex\n", "\tbeginning simrand.Mutex\n"},
	}
	for _, file := range []string{
		"lease/extension_time.go", "internal/fleet/node.go", "internal/link/connector.go",
		"internal/locker/options.go", "internal/parts/look.go", "internal/endpoint/asker.go",
		"internal/node/failing.go",
	} {
		edits = append(edits, edit{
			file, `"math/rand/v2"`,
			`rand "github.com/lockpipe/lockpipe/sim/simrand"`,
		})
	}
	return append(edits, stallEdits()...)
}

// stallEdits returns the edits by which goroutines of lockpipe stall between two steps. No lock is
// held there: while a goroutine waits for a lock, virtual time does not pass.
func stallEdits() []edit {
	var edits []edit
	for _, e := range []struct{ file, before, after, node string }{
		// A trip was taken, and is not in the line of the connection.
		{"internal/node/flush.go", "", "\tn.order.Lock()\n\tn.joinLine(f)\n", "n.index"},
		// It is in the line, and nothing has sent it.
		{"internal/node/flush.go", "", "\tconn.Trips.Flush()\n", "n.index"},
		// A part of it is to be sent again.
		{"internal/node/flush.go", "", "\tn.order.Lock()\n\tf.buildRetry()\n", "n.index"},
		// It was answered, and has no turn yet. Then its answers are not counted yet.
		{"internal/node/flush.go", "", "\tn.answered(f)\n", "n.index"},
		{"multiplex/rounds.go", "", "\tanswers := f.Answers\n", "t.Reader"},
		// Its votes are counted, and the callers are not awake.
		{"multiplex/rounds.go", "\tdone := quorum.Nodes(s.done.Or(bit) | bit)\n", "", "i"},
		// A node has missed a round, and does not know it.
		{"multiplex/rounds.go", "", "\twhy, down := n.Link.Rejects()\n", "i"},
		// A round is to be sealed.
		{"batch/seal.go", "", "\tfor range yields {\n", "-1"},
	} {
		old := e.before + e.after
		edits = append(edits, edit{
			e.file, old, e.before + "\tsimrand.Stall(" + e.node + ")\n" + e.after,
		})
	}
	return edits
}

var packageClause = regexp.MustCompile(`(?m)^package \w+\n`)

// build compiles the tests of this package with edits, and returns the binary.
func build(t *testing.T, edits []edit) string {
	t.Helper()
	return filepath.Join(buildTests(t, edits, "."), "sim.test")
}

// buildTests compiles the tests of packages with edits, and returns the directory of the binaries.
// It changes no file of the repository: an overlay makes the go command read other files in their
// place. Nobody debugs the binaries, so they have no symbols for that: these take half of the time.
func buildTests(t *testing.T, edits []edit, packagePaths ...string) string {
	t.Helper()
	dir := t.TempDir()
	texts := map[string]string{}
	for _, e := range edits {
		if texts[e.file] == "" {
			text, err := os.ReadFile(filepath.Join("..", e.file))
			require.NoError(t, err)
			texts[e.file] = string(text)
		}
		require.Equal(t, 1, strings.Count(texts[e.file], e.old),
			"%s must have this text exactly once:\n%s", e.file, e.old)
		texts[e.file] = strings.Replace(texts[e.file], e.old, e.new, 1)
		if strings.Contains(e.new, "simrand.") &&
			!strings.Contains(texts[e.file],
				"\nimport \"github.com/lockpipe/lockpipe/sim/simrand\"\n") {
			clause := packageClause.FindString(texts[e.file])
			texts[e.file] = strings.Replace(texts[e.file], clause, clause+
				"\nimport \"github.com/lockpipe/lockpipe/sim/simrand\"\n", 1)
		}
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for file, text := range texts {
		from, err := filepath.Abs(filepath.Join("..", file))
		require.NoError(t, err)
		to := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		require.NoError(t, os.WriteFile(to, []byte(text), 0o600))
		overlay.Replace[from] = to
	}
	text, err := json.Marshal(overlay)
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", append([]string{
		"test", "-c", "-overlay=" + file, "-ldflags=-s -w", "-o", dir + string(filepath.Separator),
	}, packagePaths...)...).CombinedOutput()
	require.NoError(t, err, "%.4000s", out)
	return dir
}

// runBinary runs TestSeeds in a binary of build. It returns an error if violations were found.
func runBinary(t *testing.T, binary string, args ...string) (out string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, append([]string{
		"-test.run=^TestSeeds$",
		"-test.v", "-test.timeout=0",
	}, args...)...)
	text, err := cmd.CombinedOutput()
	return string(text), err
}
