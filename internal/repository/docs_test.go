package repository

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the documentation shows is compiled, so that it can't stay behind the API. A block of Go
// that begins with "package" is a whole file, and anything that is wrong with it is an error. The
// whole files of one document and one name, but main, are one package. Any other block is a
// fragment: statements of a function that has ctx and client and returns an error, or declarations.
// Names that a fragment does not declare stand for the reader's own.

// shown are the packages that documents use: a fragment has them without an import.
var shown = []string{
	"context", "crypto/tls", "crypto/x509", "database/sql", "errors", "fmt", "log", "log/slog",
	"net/http", "os", "os/signal", "testing", "time",
	"github.com/prometheus/client_golang/prometheus",
	"github.com/prometheus/client_golang/prometheus/promhttp",
	modulePath, modulePath + "/fence", modulePath + "/lockpipetest", modulePath + "/metrics",
	modulePath + "/lockpipetest/fake",
}

// The goal: every block of Go in docs/, README.md and CONTRIBUTING.md compiles, and drops no error
// without a sign, as errcheck wants it.
func TestDocs_WhatTheyShowCompiles(t *testing.T) {
	files := []string{"README.md", "CONTRIBUTING.md"}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		more, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, more, pattern)
		files = append(files, more...)
	}
	fset := token.NewFileSet()
	imports := importerOf(fset, compiled(t))
	whole := 0
	for _, file := range files {
		packages := make(map[string][]*ast.File) // the whole files so far, by their package
		for _, b := range goBlocks(t, file) {
			f, err := b.parse(fset)
			if err != nil {
				t.Error(err)
				continue
			}
			name := f.Name.Name
			pkg := []*ast.File{f}
			if b.whole() {
				whole++
				pkg = append(pkg, packages[name]...)
			}
			if b.whole() && name != "main" { // each main is a program of its own
				packages[name] = pkg
			}
			for _, wrong := range b.check(pkg, fset, imports) {
				t.Error(wrong)
			}
		}
	}
	require.NotZero(t, whole, "no whole program was found: look at goBlocks")
}

// goBlock is a block of Go in a document.
type goBlock struct {
	file string
	line int // of its first line
	text string
}

var goFence = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

func goBlocks(t *testing.T, file string) (blocks []goBlock) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, at := range goFence.FindAllSubmatchIndex(text, -1) {
		blocks = append(blocks, goBlock{
			file, 1 + strings.Count(string(text[:at[2]]), "\n"),
			string(text[at[2]:at[3]]),
		})
	}
	return blocks
}

func (b goBlock) whole() bool { return strings.HasPrefix(b.text, "package ") }

// check returns what is wrong with the block, by its place in the document. It is the first file of
// pkg.
func (b goBlock) check(pkg []*ast.File, fset *token.FileSet, imports types.Importer) (
	wrong []error,
) {
	cfg := types.Config{Importer: imports, Error: func(err error) {
		var e types.Error
		if b.whole() || !errors.As(err, &e) || !leftOut(e.Msg) {
			wrong = append(wrong, err)
		}
	}}
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue)}
	_, _ = cfg.Check(pkg[0].Name.Name, fset, pkg, info) // its errors were told
	return append(wrong, droppedErrors(pkg[0], fset, info)...)
}

// droppedErrors complains of each call that returns an error as its last result, and stands alone.
// Those of package fmt are no matter.
func droppedErrors(f *ast.File, fset *token.FileSet, info *types.Info) (wrong []error) {
	ast.Inspect(f, func(n ast.Node) bool {
		var call ast.Expr
		switch n := n.(type) {
		case *ast.ExprStmt:
			call = n.X
		case *ast.DeferStmt:
			call = n.Call
		case *ast.GoStmt:
			call = n.Call
		default:
			return true
		}
		result := info.TypeOf(call)
		if all, several := result.(*types.Tuple); several && all.Len() > 0 {
			result = all.At(all.Len() - 1).Type()
		}
		c, isCall := call.(*ast.CallExpr)
		if !isCall || result == nil ||
			!types.Identical(result, types.Universe.Lookup("error").Type()) {
			return true
		}
		if text := types.ExprString(c.Fun); !strings.HasPrefix(text, "fmt.") {
			wrong = append(wrong, fmt.Errorf("%s: %s: its error is dropped: handle it, or write _ =",
				fset.Position(c.Pos()), text))
		}
		return true
	})
	return wrong
}

// parse parses the block, with what surrounds it where it is a fragment.
func (b goBlock) parse(fset *token.FileSet) (*ast.File, error) {
	text := "//line " + filepath.Base(b.file) + ":" + strconv.Itoa(b.line) + "\n" + b.text
	if b.whole() {
		return parser.ParseFile(fset, b.file, text, parser.SkipObjectResolution)
	}
	head := "package fragment\nimport (\n\"" + strings.Join(shown, "\"\n\"") + "\"\n)\n"
	if f, err := parser.ParseFile(fset, b.file, head+text,
		parser.SkipObjectResolution); err == nil {
		return f, nil
	}
	return parser.ParseFile(fset, b.file, head+"func _(ctx context.Context, client "+
		"*lockpipe.Client) error {\n"+text+"}\n", parser.SkipObjectResolution)
}

// leftOut reports whether an error means no more than that a fragment is one: it uses what it does
// not declare, or the reverse.
func leftOut(msg string) bool {
	name, undefined := strings.CutPrefix(msg, "undefined: ")
	return undefined && !strings.Contains(name, ".") ||
		strings.HasPrefix(msg, "declared and not used: ") ||
		strings.HasSuffix(msg, "imported and not used") ||
		msg == "missing return"
}
