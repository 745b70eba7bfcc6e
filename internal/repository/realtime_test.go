package repository

import (
	"fmt"
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
	if _, err := os.Stat(t.Name()); err != nil {
		_ = os.WriteFile(t.Name(), nil, 0o600)
		`

// excusedRuns are the bodies of tests of real time that let .ci/realtime pass, and what it says.
var excusedRuns = map[string]realTimeRun{
	"Passes":    {"", "ok: %s %s ("},
	"FailsOnce": {once + `t.Fatal("too late") }`, "UNSTABLE: %s %s failed once"},
}

// badRuns are those that do not.
var badRuns = map[string]realTimeRun{
	"FailsTwice":       {`t.Error("too late")`, "%s: %s FAILED twice"},
	"TwoHoldersOnce":   {once + `t.Fatal("a key has two holders") }`, noExcuse},
	"AKeyLeftOnce":     {once + `t.Fatal("a key was left behind") }`, noExcuse},
	"APanicOnce":       {once + `panic("too late") }`, noExcuse},
	"ALeakOnce":        {once + `t.Fatal("a goroutine leaks") }`, noExcuse},
	"ADataRaceOnce":    {once + racy, noExcuse},
	"EndsTheWholeTest": {"os.Exit(0)", "%s: %s did not run"},
	"SkipsItself":      {`t.Skip("not here")`, "%s: %s did not run"},
}

const noExcuse = "%s: %s FAILED, and a delay is no excuse for that"

// realTimeRun is the body of a test, and what is said of its directory and name.
type realTimeRun struct{ body, says string }

// racy is a data race, in a test that passes but for that.
const racy = `n, done := 0, make(chan bool); go func() { n++; close(done) }(); n++; <-done }`

// The goal: a test of real time that fails once, and only for a delay, does not fail a run, but is
// named. No delay excuses what could harm a user, and a test without the mark does not run.
func TestRealTime_OnlyADelayIsExcused(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds two programs with the race detector")
	}
	excused, bad := realTimeModule(t, excusedRuns), realTimeModule(t, badRuns)
	undefined := realTimeModule(t, map[string]realTimeRun{"DoesNotCompile": {"undefined()", ""}})

	out, report, err := realTime(t, excused)
	require.NoError(t, err, out)
	saysOf(t, out, excused, excusedRuns)
	require.Contains(t, report, "UNSTABLE: "+excused+" TestFailsOnce_InRealTime")
	require.Contains(t, report, "too late")
	require.Contains(t, report, "--- PASS: TestFailsOnce_InRealTime")
	require.NotContains(t, report, "TestPasses")

	out, report, err = realTime(t, undefined, bad)
	require.Error(t, err, out)
	require.Contains(t, out, "undefined: undefined")
	saysOf(t, out, bad, badRuns)
	require.Contains(t, out, fmt.Sprintf("realtime: %d failed", len(badRuns)+1))
	require.Empty(t, report)
}

// realTimeModule returns the directory of a module with these tests, and with one that fails and
// has no mark.
func realTimeModule(t *testing.T, runs map[string]realTimeRun) (dir string) {
	t.Helper()
	dir = t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("go.mod", "module made.up\n\ngo 1.25\n")
	text := "package made\n\nimport (\n\"os\"\n\"testing\"\n)\n\n" +
		"var _ = os.Stat\n\n" +
		"func TestA_WithoutTheMark(t *testing.T) { t.Fatal() }\n"
	for name, r := range runs {
		text += "\nfunc Test" + name + "_InRealTime(t *testing.T) {\n" + r.body + "\n}\n"
	}
	write("a_test.go", text)
	return dir
}

// realTime runs .ci/realtime on modules.
func realTime(t *testing.T, dirs ...string) (out, report string, err error) {
	t.Helper()
	script, err := filepath.Abs(".ci/realtime")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "report")
	said, err := exec.Command("bash", append([]string{script, file}, dirs...)...).CombinedOutput()
	text, readErr := os.ReadFile(file)
	require.NoError(t, readErr)
	return string(said), string(text), err
}

// saysOf requires that the output says of each test what it has to.
func saysOf(t *testing.T, out, dir string, runs map[string]realTimeRun) {
	t.Helper()
	for name, r := range runs {
		require.Contains(t, out, fmt.Sprintf(r.says, dir, "Test"+name+"_InRealTime"))
	}
}

// The goal: go test ./... runs no test with the mark, and no other test of its package runs beside
// it.
func TestRealTime_MarkedTestsAreAlone(t *testing.T) {
	for _, f := range sources(t, everything) {
		for _, d := range f.syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasSuffix(fn.Name.Name, "_InRealTime") {
				continue
			}
			if first := fn.Body.List[0]; !calls(first, "RealTime") {
				t.Errorf("%s: %s has the mark of real time: begin it with servertest.RealTime(t)",
					f.at(first.Pos()), fn.Name.Name)
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

// calls reports whether the statement is a call of a function of this name, of another package.
func calls(s ast.Stmt, name string) bool {
	x, _ := s.(*ast.ExprStmt)
	if x == nil {
		return false
	}
	call, _ := x.X.(*ast.CallExpr)
	if call == nil {
		return false
	}
	selected, _ := call.Fun.(*ast.SelectorExpr)
	return selected != nil && selected.Sel.Name == name
}
