package repository

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// packages reads the compiled form of all packages of this module, by import path.
func packages(t *testing.T) map[string]*types.Package {
	t.Helper()
	found, err := readPackages()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var readPackages = sync.OnceValues(func() (map[string]*types.Package, error) {
	files, err := compileAll()
	if err != nil {
		return nil, err
	}
	imports := importerOf(token.NewFileSet(), files)
	found := make(map[string]*types.Package)
	for importPath := range files {
		if _, ours := inThisModule(importPath); !ours || files[importPath] == "" { // tests only
			continue
		}
		p, err := imports.Import(importPath)
		if err != nil {
			return nil, fmt.Errorf("%s: its compiled form cannot be read: %w", importPath, err)
		}
		found[importPath] = p
	}
	if len(found) < len(allowedImports) {
		return nil, fmt.Errorf("only %d packages were found, and allowedImports has %d: see what "+
			"go list returns", len(found), len(allowedImports))
	}
	return found, nil
})

// importerOf reads packages from their compiled form, which is in files by import path.
func importerOf(fset *token.FileSet, files map[string]string) types.Importer {
	return importer.ForCompiler(fset, "gc", func(importPath string) (io.ReadCloser, error) {
		return os.Open(files[importPath])
	})
}

// compiled returns the files with the compiled form of this module's packages, of those that
// documents show, and of all they import, by import path.
func compiled(t *testing.T) map[string]string {
	t.Helper()
	files, err := compileAll()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var compileAll = sync.OnceValues(func() (map[string]string, error) {
	cmd := exec.Command("go", append([]string{
		"list", "-export", "-deps", "-json=ImportPath,Export",
		"./...",
	}, shown...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmd, err)
	}
	files := make(map[string]string)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct{ ImportPath, Export string }
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return files, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", cmd, err)
		}
		files[p.ImportPath] = p.Export
	}
})
