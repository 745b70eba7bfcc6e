package repository

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// source is one Go file of this module, for whatever platform.
type source struct {
	name    string // its path from the root of the module, with slashes
	dir     string // its package's directory, "." for the root
	fset    *token.FileSet
	syntax  *ast.File
	imports []importLine
}

// importLine is one import of a file.
type importLine struct {
	path string
	pos  token.Pos
}

func (f *source) at(p token.Pos) string { return fmt.Sprintf("%s:%d", f.name, f.line(p)) }

func (f *source) line(p token.Pos) int { return f.fset.Position(p).Line }

// importing returns the first import of a package or of one below it.
func (f *source) importing(importPath string) (importLine, bool) {
	i := slices.IndexFunc(f.imports, func(i importLine) bool {
		return isOrIsBelow(i.path,
			importPath)
	})
	if i < 0 {
		return importLine{}, false
	}
	return f.imports[i], true
}

// Which files sources returns.
const (
	production = false // all but tests
	everything = true
)

// sources returns the Go files of this module, whatever their build constraints. They are parsed
// once.
func sources(t *testing.T, withTests bool) (files []*source) {
	t.Helper()
	all, err := parseAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if withTests || !strings.HasSuffix(f.name, "_test.go") {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		t.Fatal("no Go files found: this test reads the source, so run it in the source tree")
	}
	return files
}

var parseAll = sync.OnceValues(func() (files []*source, err error) {
	err = filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && !holdsPackages(name):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		f := &source{name: filepath.ToSlash(name), fset: token.NewFileSet()}
		f.dir = path.Dir(f.name)
		if f.syntax, err = parser.ParseFile(f.fset, name, nil,
			parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return err
		}
		for _, s := range f.syntax.Imports {
			importPath, err := strconv.Unquote(s.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, importLine{importPath, s.Pos()})
		}
		files = append(files, f)
		return nil
	})
	return files, err
})

// holdsPackages reports whether the go command would look for packages of this module in the
// directory.
func holdsPackages(dir string) bool {
	base := filepath.Base(dir)
	if base == "testdata" || base == "vendor" || base[0] == '.' || base[0] == '_' {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return errors.Is(err, fs.ErrNotExist)
}

// inThisModule returns the directory of a package of this module.
func inThisModule(importPath string) (dir string, ok bool) {
	if importPath == modulePath {
		return ".", true
	}
	return strings.CutPrefix(importPath, modulePath+"/")
}

func isOrIsBelow(importPath, ancestor string) bool {
	return importPath == ancestor || strings.HasPrefix(importPath, ancestor+"/")
}
