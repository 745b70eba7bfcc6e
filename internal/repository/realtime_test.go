package repository

import (
	"go/ast"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// once is the beginning of a test that fails in its first run alone. The file says that it has run.
const once = `
	if _, err := os.Stat("ran"); err != nil {
		_ = os.WriteFile("ran", nil, 0o600)
		`

// realTimeRuns are bodies of a test of real time, and what .ci/realtime says then.
var realTimeRuns = map[string]struct {
	body, says string
	passes     bool
}{
	"passes":             {"", "ok: ", true},
	"fails twice":        {`t.Error("too late")`, "FAILED twice", false},
	"fails once":         {once + `t.Fatal("too late") }`, "UNSTABLE", true},
	"two holders once":   {once + `t.Fatal("a key has two holders") }`, "no excuse", false},
	"a key left once":    {once + `t.Fatal("a key was left behind") }`, "no excuse", false},
	"a panic once":       {once + `panic("too late") }`, "no excuse", false},
	"a leak once":        {once + `t.Fatal("a goroutine leaks") }`, "no excuse", false},
	"a data race once":   {once + racy, "no excuse", false},
	"does not compile":   {"undefined()", "undefined: undefined", false},
	"ends the whole run": {"os.Exit(0)", "did not run", false},
}

// racy is a data race, in a test that passes but for that.
const racy = `n := 0; go func() { n++ }(); n++; runtime.Gosched(); time.Sleep(time.Millisecond) }`

// The goal: a test of real time that fails once, and only for a delay, does not fail a run, but is
// named. No delay excuses what could harm a user, and a test without the mark does not run.
func TestRealTime_OnlyADelayIsExcused(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds ten programs")
	}
	script, err := filepath.Abs(".ci/realtime")
	require.NoError(t, err)
	for name, c := range realTimeRuns {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write := func(name, text string) {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			write("go.mod", "module made.up\n\ngo 1.25\n")
			write("a_test.go", "package made\n\nimport (\n\"os\"\n\"runtime\"\n\"testing\"\n\"time\"\n)\n\n"+
				"var _, _, _ = os.Stat, runtime.Gosched, time.Sleep\n\n"+
				"func TestA_InRealTime(t *testing.T) {\n"+c.body+"\n}\n\n"+
				"func TestA_WithoutTheMark(t *testing.T) { t.Fatal() }\n")
			report := filepath.Join(dir, "report")
			out, err := exec.Command("bash", script, report, dir).CombinedOutput()
			require.Equal(t, c.passes, err == nil, "%s", out)
			require.Contains(t, string(out), c.says)
			text, _ := os.ReadFile(report)
			if c.says == "UNSTABLE" {
				require.Contains(t, string(text), "UNSTABLE: "+dir+" TestA_InRealTime")
				require.Contains(t, string(text), "too late")
				require.Contains(t, string(text), "--- PASS: TestA_InRealTime")
			} else {
				require.Empty(t, text)
			}
		})
	}
}

// The goal: no other test of its package runs beside a test with the mark.
func TestRealTime_MarkedTestsAreNotParallel(t *testing.T) {
	for _, f := range sources(t, everything) {
		for _, d := range f.syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasSuffix(fn.Name.Name, "_InRealTime") {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Parallel" {
					t.Errorf("%s: %s calls Parallel, and has the mark of real time", f.at(s.Pos()),
						fn.Name.Name)
				}
				return true
			})
		}
	}
}
