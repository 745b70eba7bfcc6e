package lockpipe_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The architecture, as far as it can be read from the source. A rule that is in the way may be
// changed here, on purpose and in view of a reviewer, and in DESIGN.md with it. Modules inside this
// one, such as bench/peers, keep their own rules.

const (
	modulePath  = "github.com/lockpipe/lockpipe"
	rueidisPath = "github.com/redis/rueidis"
	// maxFunctionLines is the length of the longest function, from its first line to its last.
	maxFunctionLines = 70
)

// allowedImports says which packages of this module each package may import, by their directories.
var allowedImports = map[string][]string{
	"cmd/loadgen":    {"bench", "bench/page"},
	"bench/page":     {"bench"},
	"bench":          {".", "lockpipetest", "fence"},
	".":              {"multiplex", "lease", "waitroom", "batch", "latency"},
	"multiplex":      {"batch", "script", "latency", "internal/watch"},
	"internal/watch": {"batch"},
	"batch":          {},
	"fence":          {},
	"lease":          {},
	"latency":        {},
	"script":         {},
	"waitroom":       {},
	"lockpipetest":   {},
}

// standardLibraryOnly lists the packages that are free of all dependencies.
var standardLibraryOnly = []string{"batch", "fence", "latency", "lease", "script", "waitroom"}

// meaninglessNames say nothing about what is in a package.
var meaninglessNames = []string{
	"util", "utils", "common", "commons", "type", "types", "helper", "helpers", "misc", "shared",
	"base", "lib",
}

func TestImportsFollowTheTable(t *testing.T) {
	found := make(map[string]bool)
	for _, f := range sources(t, production) {
		allowed, listed := allowedImports[f.dir]
		if !listed && !found[f.dir] {
			t.Errorf("%s: package %s is not in the import table: give it a row in "+
				"allowedImports, with as few imports as it needs", f.name, f.dir)
		}
		found[f.dir] = true
		for _, i := range f.imports {
			dir, ours := inThisModule(i.path)
			if listed && ours && !slices.Contains(allowed, dir) {
				t.Errorf("%s: package %s may not import %s (only %q): move the code to a "+
					"package that may, or hand it in as a function or a "+
					"one-method interface", f.at(i.pos), f.dir, i.path, allowed)
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(allowedImports)) {
		if !found[dir] {
			t.Errorf("allowedImports has a row for %s, which has no Go files: delete the row", dir)
		}
	}
}

// The root package knows what a Pipeline refuses, and nothing else of it.
func TestRootImportsBatchForItsErrorsOnly(t *testing.T) {
	for _, f := range sources(t, production) {
		if i, ok := f.importing(modulePath + "/batch"); ok && f.dir == "." &&
			f.name != "errors.go" {
			t.Errorf("%s: the root package imports batch in errors.go only, to re-export its "+
				"errors: go through multiplex", f.at(i.pos))
		}
	}
}

func TestOnlyMultiplexImportsRueidis(t *testing.T) {
	for _, f := range sources(t, production) {
		if i, ok := f.importing(rueidisPath); ok && f.dir != "multiplex" {
			t.Errorf("%s: only multiplex may import %s: add what is missing to multiplex, "+
				"without a rueidis type in its API", f.at(i.pos), i.path)
		}
	}
}

// Operations are grouped by what is in flight, not by a timer.
func TestBatchDoesNotImportTime(t *testing.T) {
	for _, f := range sources(t, production) {
		if i, ok := f.importing("time"); ok && f.dir == "batch" {
			t.Errorf("%s: package batch may not import time: let the caller decide about time, "+
				"and tell the pipeline what it decided", f.at(i.pos))
		}
	}
}

func TestInnerPackagesImportTheStandardLibraryOnly(t *testing.T) {
	for _, f := range sources(t, production) {
		for _, i := range f.imports {
			first, _, _ := strings.Cut(i.path, "/")
			if slices.Contains(standardLibraryOnly, f.dir) && strings.Contains(first, ".") {
				t.Errorf("%s: package %s imports the standard library only, not %s: let the "+
					"package that uses it hand in what it needs",
					f.at(i.pos), f.dir, i.path)
			}
		}
	}
}

func TestNoFunctionIsLongerThanAScreen(t *testing.T) {
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

func TestNoPackageHasAMeaninglessName(t *testing.T) {
	for _, f := range sources(t, everything) {
		name := strings.TrimSuffix(f.syntax.Name.Name, "_test")
		for _, n := range []string{name, path.Base(f.dir)} {
			if slices.Contains(meaninglessNames, n) {
				t.Errorf("%s: the name %q says nothing: name the package after what it "+
					"provides, or move its parts to where they are used",
					f.at(f.syntax.Name.Pos()), n)
				break
			}
		}
	}
}

func TestEveryPackageIsDocumentedOnce(t *testing.T) {
	comments := make(map[string][]string)
	for _, f := range sources(t, production) {
		if _, known := comments[f.dir]; !known {
			comments[f.dir] = nil
		}
		if f.syntax.Doc != nil {
			comments[f.dir] = append(comments[f.dir], f.name)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(comments)) {
		switch files := comments[dir]; len(files) {
		case 0:
			t.Errorf("%s: the package has no package comment: say above one package clause what "+
				"it is for", dir)
		case 1:
		default:
			t.Errorf("%s: the package has %d package comments, in %s: keep one", dir, len(files),
				strings.Join(files, " and "))
		}
	}
}

func TestEveryExportedIdentifierIsDocumented(t *testing.T) {
	for _, f := range sources(t, production) {
		for _, d := range f.syntax.Decls {
			for _, id := range undocumented(d) {
				t.Errorf("%s: %s is exported and has no doc comment: say what it is, with "+
					"units, what errors it returns and what holds afterwards",
					f.at(id.pos), id.name)
			}
		}
	}
}

// Users of the API must be free of the Redis client that is used today. Types are looked at as the
// compiler sees them, so also those that are only inferred or promoted by embedding.
func TestNoExportedAPINamesARueidisType(t *testing.T) {
	for _, p := range packages(t) {
		for _, name := range p.Scope().Names() {
			w := &apiWalk{seen: make(map[types.Type]bool)}
			if o := p.Scope().Lookup(name); o.Exported() && w.on(p.Name()+"."+name, o.Type()) {
				t.Errorf("%s lets users see %s: use a type of the standard library or of "+
					"multiplex instead", strings.Join(w.way, ", "), w.found)
			}
		}
	}
}

// packages reads the compiled form of all packages of this module, by import path.
func packages(t *testing.T) map[string]*types.Package {
	t.Helper()
	files := compiled(t)
	imports := importer.ForCompiler(token.NewFileSet(), "gc",
		func(importPath string) (io.ReadCloser, error) {
			return os.Open(files[importPath])
		})
	found := make(map[string]*types.Package)
	for importPath := range files {
		if _, ours := inThisModule(importPath); !ours {
			continue
		}
		p, err := imports.Import(importPath)
		if err != nil {
			t.Fatalf("%s: its compiled form cannot be read: %v", importPath, err)
		}
		found[importPath] = p
	}
	if len(found) < len(allowedImports) {
		t.Fatalf("only %d packages were found, and allowedImports has %d: see what go list returns",
			len(found), len(allowedImports))
	}
	return found
}

// apiWalk looks for a rueidis type in what users of a type can name or call.
type apiWalk struct {
	seen  map[types.Type]bool
	way   []string // from the exported identifier to the type that was found
	found string
}

// names reports whether t, or what is exported of it, names a rueidis type.
func (w *apiWalk) names(t types.Type) bool {
	if t == nil || w.seen[t] {
		return false
	}
	w.seen[t] = true
	switch t := t.(type) {
	case *types.Alias:
		return w.isRueidis(t.Obj()) || w.names(t.Rhs())
	case *types.Named:
		return w.isRueidis(t.Obj()) || w.namesInNamed(t)
	case *types.Pointer:
		return w.names(t.Elem()) || w.namesInMethods(t)
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() && w.on("field "+f.Name(), f.Type()) {
				return true
			}
		}
	case *types.Interface:
		for e := range t.EmbeddedTypes() {
			if w.names(e) {
				return true
			}
		}
		return w.namesInMethods(t)
	case *types.Union:
		for term := range t.Terms() {
			if w.names(term.Type()) {
				return true
			}
		}
	case *types.Signature:
		return w.namesInTypeParams(t.TypeParams()) || w.names(t.Params()) || w.names(t.Results())
	case *types.Tuple:
		for v := range t.Variables() {
			if w.names(v.Type()) {
				return true
			}
		}
	case *types.Map:
		return w.names(t.Key()) || w.names(t.Elem())
	case interface{ Elem() types.Type }: // slices, arrays, channels
		return w.names(t.Elem())
	}
	return false
}

// namesInNamed looks into types of this module; others cannot know rueidis but by their type
// arguments.
func (w *apiWalk) namesInNamed(t *types.Named) bool {
	for arg := range t.TypeArgs().Types() {
		if w.names(arg) {
			return true
		}
	}
	if p := t.Obj().Pkg(); p == nil {
		return false
	} else if _, ours := inThisModule(p.Path()); !ours {
		return false
	}
	return w.namesInTypeParams(t.TypeParams()) || w.names(t.Underlying()) ||
		w.names(types.NewPointer(t))
}

func (w *apiWalk) namesInTypeParams(list *types.TypeParamList) bool {
	for p := range list.TypeParams() {
		if w.names(p.Constraint()) {
			return true
		}
	}
	return false
}

// namesInMethods looks into all methods, also those that embedded fields bring.
func (w *apiWalk) namesInMethods(t types.Type) bool {
	for m := range types.NewMethodSet(t).Methods() {
		if m.Obj().Exported() && w.on("method "+m.Obj().Name(), m.Type()) {
			return true
		}
	}
	return false
}

func (w *apiWalk) isRueidis(o *types.TypeName) bool {
	if o.Pkg() == nil || !isOrIsBelow(o.Pkg().Path(), rueidisPath) {
		return false
	}
	w.found = o.Pkg().Path() + "." + o.Name()
	return true
}

// on is names for a part of a type, whose description becomes a part of the way.
func (w *apiWalk) on(step string, t types.Type) bool {
	w.way = append(w.way, step)
	if w.names(t) {
		return true
	}
	w.way = w.way[:len(w.way)-1]
	return false
}

// compiled returns the files with the compiled form of this module's packages, of others that are
// named, and of all they import, by import path.
func compiled(t *testing.T, others ...string) map[string]string {
	t.Helper()
	cmd := exec.Command("go", append([]string{
		"list", "-export", "-deps", "-json=ImportPath,Export",
		"./...",
	}, others...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	files := make(map[string]string)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct{ ImportPath, Export string }
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return files
		} else if err != nil {
			t.Fatalf("%s: %v", cmd, err)
		}
		files[p.ImportPath] = p.Export
	}
}

// identifier is a name and where it is declared.
type identifier struct {
	name string
	pos  token.Pos
}

// undocumented returns the exported identifiers of a declaration that have no comment: functions,
// types, methods of exported types, constants and variables. A comment on a const or var group
// counts for all in the group, and one on a type for its fields.
func undocumented(d ast.Decl) []identifier {
	var missing []identifier
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			receiver := receiverName(d.Recv.List[0].Type)
			if !ast.IsExported(receiver) {
				return nil
			}
			name = receiver + "." + name
		}
		if d.Name.IsExported() && d.Doc == nil {
			missing = append(missing, identifier{name, d.Pos()})
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && s.Doc == nil && (d.Doc == nil || d.Lparen.IsValid()) {
					missing = append(missing, identifier{s.Name.Name, s.Pos()})
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if n.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
						missing = append(missing, identifier{n.Name, n.Pos()})
					}
				}
			}
		}
	}
	return missing
}

func receiverName(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

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

// sources parses the Go files of this module, whatever their build constraints.
func sources(t *testing.T, withTests bool) []*source {
	t.Helper()
	var files []*source
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && !holdsPackages(name):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || !withTests &&
			strings.HasSuffix(name, "_test.go"):
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
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no Go files found: this test reads the source, so run it in the source tree")
	}
	return files
}

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
