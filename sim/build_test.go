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

	"github.com/lockpipe/lockpipe/sim/dice"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// One thread, or the order of what happens at one instant would be another each time.
	runtime.GOMAXPROCS(1)
	dice.Break(*broken)
	os.Exit(m.Run())
}

// edit is a replacement in one source file of the repository. The old text must be there once.
type edit struct{ file, old, new string }

// seeded are the edits by which lockpipe draws its pauses from package dice, and has its wall
// clock, which only fences look at, from there.
func seeded() []edit {
	edits := []edit{
		{"sim/dice/dice.go", "const Thrown = false", "const Thrown = true"},
		{"client.go", "c.fences.lead = time.Now, ", "c.fences.lead = dice.Clock(), "},
		{
			"client.go", "return newClient(cfg, suspended())",
			"return newClient(cfg, dice.Suspended())",
		},
	}
	for _, file := range []string{"wait.go", "lease/due.go", "multiplex/connector.go"} {
		edits = append(edits, edit{
			file, `"math/rand/v2"`,
			`rand "github.com/lockpipe/lockpipe/sim/dice"`,
		})
	}
	for _, file := range []string{"multiplex/renew.go", "multiplex/failing.go"} {
		edits = append(edits, edit{
			file, `mathrand "math/rand/v2"`,
			`mathrand "github.com/lockpipe/lockpipe/sim/dice"`,
		})
	}
	return edits
}

var packageClause = regexp.MustCompile(`(?m)^package \w+\n`)

// build compiles the tests of this package with edits, and returns the binary. No file of the
// repository is changed: the go command is told to read others in place of them.
func build(t *testing.T, edits []edit) string {
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
			"%s is to have this once, see what has become of it:\n%s", e.file, e.old)
		texts[e.file] = strings.Replace(texts[e.file], e.old, e.new, 1)
		if strings.Contains(e.new, "dice.") &&
			!strings.Contains(texts[e.file],
				"\nimport \"github.com/lockpipe/lockpipe/sim/dice\"\n") {
			clause := packageClause.FindString(texts[e.file])
			texts[e.file] = strings.Replace(texts[e.file], clause, clause+
				"\nimport \"github.com/lockpipe/lockpipe/sim/dice\"\n", 1)
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
	binary := filepath.Join(dir, "sim.test")
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay="+file, "-o", binary,
		".").CombinedOutput()
	require.NoError(t, err, "%.4000s", out)
	return binary
}

// start runs TestSeeds of a binary that was built. It fails where violations were found.
func start(t *testing.T, binary string, args ...string) (out string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, append([]string{
		"-test.run=^TestSeeds$",
		"-test.v", "-test.timeout=0",
	}, args...)...)
	text, err := cmd.CombinedOutput()
	return string(text), err
}
