package repository

import (
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the documentation shows is compiled, so that it can't stay behind the API. A block of Go
// that begins with "package" is a whole file, and anything that is wrong with it is an error. Any
// other block is a fragment: statements of a function that has ctx and client and returns an error,
// or declarations. Names that a fragment does not declare stand for the reader's own.

// shown are the packages that documents use: a fragment has them without an import.
var shown = []string{
	"context", "crypto/tls", "crypto/x509", "database/sql", "errors", "fmt", "log", "log/slog",
	"net/http", "os", "os/signal", "testing", "time",
	"github.com/prometheus/client_golang/prometheus",
	"github.com/prometheus/client_golang/prometheus/promhttp",
	modulePath, modulePath + "/fence", modulePath + "/lockpipetest", modulePath + "/metrics",
	modulePath + "/lockpipetest/fake",
}

// The goal: every block of Go in docs/, README.md and CONTRIBUTING.md compiles.
func TestDocs_WhatTheyShowCompiles(t *testing.T) {
	files := []string{"README.md", "CONTRIBUTING.md"}
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		more, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, more, pattern)
		files = append(files, more...)
	}
	exports := compiled(t, shown...)
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(importPath string) (io.ReadCloser,
		error,
	) {
		return os.Open(exports[importPath])
	})
	whole := 0
	for _, file := range files {
		for _, b := range goBlocks(t, file) {
			if b.whole() {
				whole++
			}
			for _, wrong := range b.check(fset, imports) {
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

// check returns what is wrong with the block, by its place in the document.
func (b goBlock) check(fset *token.FileSet, imports types.Importer) (wrong []error) {
	f, err := b.parse(fset)
	if err != nil {
		return []error{err}
	}
	cfg := types.Config{Importer: imports, Error: func(err error) {
		var e types.Error
		if b.whole() || !errors.As(err, &e) || !leftOut(e.Msg) {
			wrong = append(wrong, err)
		}
	}}
	_, _ = cfg.Check(f.Name.Name, fset, []*ast.File{f}, nil) // its errors were told
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
