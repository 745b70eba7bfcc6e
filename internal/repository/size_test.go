package repository

import (
	"go/ast"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	// maxFunctionLines is the length of the longest function, from its first line to its last.
	maxFunctionLines = 70
	// maxFileLines and maxPackageLines count the lines of production code, comments included.
	maxFileLines    = 400
	maxPackageLines = 2000
	// maxColumns is the width of a line. A tab is as wide as tabColumns.
	maxColumns = 100
	tabColumns = 4
	// longString is the width of a string that may make its line too wide: cut in two, nobody finds
	// it again.
	longString = 20
)

// large are the files and packages that may have more lines, and how many.
var large = map[string]int{
	"multiplex": 2074, "internal/memorynode": 2660,
	"lockpipetest": 2020, "lockpipetest/cluster.go": 415,
}

// mutexes are the packages with more than one mutex, and why.
var mutexes = map[string]string{
	"internal/acceptance/kit": "a cable's comes before a node's, and that before a stream's",
	"bench/faults":            "that of the results is a leaf, and held for no change of a cluster",
	"internal/line":           "that of the process's places comes before that of a node's watches",
	"lease":                   "a term's own guards its validity alone; the manager's is taken before it",
	"lockpipetest":            "nodes, output and in-process nodes are independent leaves",
	"internal/node":           "the order of flushes comes first; pending releases and refused keys are leaves",
	"multiplex":               "a claim's comes before the log's; those of rounds and aging are leaves",
}

func TestSize_NoFunctionIsLongerThanAScreen(t *testing.T) {
	for _, f := range sources(t, production) {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			name := "a function literal"
			switch n := n.(type) {
			case *ast.FuncDecl:
				name = n.Name.Name
			case *ast.FuncLit:
			default:
				return true
			}
			if lines := f.line(n.End()) - f.line(n.Pos()) + 1; lines > maxFunctionLines {
				t.Errorf("%s: %s has %d lines, above %d: give a part of it a name and make it a "+
					"function", f.at(n.Pos()), name, lines, maxFunctionLines)
			}
			return true
		})
	}
}

func TestSize_FilesAndPackagesAreSmall(t *testing.T) {
	lines := make(map[string]int)
	for _, f := range sources(t, production) {
		n := f.line(f.syntax.FileEnd)
		if limit := max(maxFileLines, large[f.name]); n > limit {
			t.Errorf("%s: the file has %d lines, above %d: split it by its ideas", f.name, n, limit)
		}
		lines[f.dir] += n
	}
	for _, dir := range slices.Sorted(maps.Keys(lines)) {
		limit := max(maxPackageLines, large[dir])
		if lines[dir] > limit {
			t.Errorf("%s: the package has %d lines, above %d: an idea of it may be a package of "+
				"its own", dir, lines[dir], limit)
		}
	}
}

// The goal: nobody has to remember an order of locks.
func TestSize_APackageHasOneMutex(t *testing.T) {
	found := make(map[string][]string)
	for _, f := range sources(t, production) {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			s, isSelector := n.(*ast.SelectorExpr)
			if !isSelector {
				return true
			}
			x, isName := s.X.(*ast.Ident)
			if isName && x.Name == "sync" && (s.Sel.Name == "Mutex" || s.Sel.Name == "RWMutex") {
				found[f.dir] = append(found[f.dir], f.at(s.Pos()))
			}
			return true
		})
	}
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		if len(found[dir]) > 1 && mutexes[dir] == "" {
			t.Errorf("%s has %d mutexes, at %s: one is enough, or say in mutexes why not", dir,
				len(found[dir]), strings.Join(found[dir], " and "))
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(mutexes)) {
		if len(found[dir]) < 2 {
			t.Errorf("mutexes has a row for %s, which needs none: delete the row", dir)
		}
	}
}

func TestSize_GoLinesAreNarrow(t *testing.T) {
	for _, name := range filesOf(t, ".go") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		exempt := longStrings(text)
		for i, line := range strings.Split(string(text), "\n") {
			if w := columns(line); w > maxColumns && !exempt[i+1] {
				t.Errorf("%s:%d: the line has %d columns, above %d", name, i+1, w, maxColumns)
			}
		}
	}
}

// longStrings returns the lines with a long string, a string of several lines, or a comment that is
// laid out by hand.
func longStrings(text []byte) map[int]bool {
	exempt := make(map[int]bool)
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	for {
		pos, kind, literal := s.Scan()
		if kind == token.EOF {
			return exempt
		}
		byHand := kind == token.COMMENT && strings.HasPrefix(literal, "//\t")
		if byHand || kind == token.STRING && len(literal) > longString {
			first := file.Line(pos)
			for i := range 1 + strings.Count(literal, "\n") {
				exempt[first+i] = true
			}
		}
	}
}

// columns is the width of a line.
func columns(line string) int {
	return len([]rune(line)) + (tabColumns-1)*strings.Count(line, "\t")
}

// unbreakable is a line of Markdown that can't be broken: of a table or of code, or one that is a
// single link or picture.
var unbreakable = regexp.MustCompile(`^(    |\s*\||!?\[[^]]*\]\([^)]*\)\S*$|\[[^]]+\]:)`)

func TestSize_MarkdownLinesAreNarrow(t *testing.T) {
	for _, name := range filesOf(t, ".md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code := false
		for i, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			if w := columns(line); w > maxColumns && !code && !unbreakable.MatchString(line) {
				t.Errorf("%s:%d: the line has %d columns, above %d", name, i+1, w, maxColumns)
			}
		}
	}
}

// filesOf returns the files of the repository whose names end so, those of other modules too.
func filesOf(t *testing.T, suffix string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "testdata" ||
			name != "." && strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case !entry.IsDir() && strings.HasSuffix(name, suffix):
			names = append(names, filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Fatalf("no files end in %s: this test reads the source, so run it in the source tree",
			suffix)
	}
	return names
}
