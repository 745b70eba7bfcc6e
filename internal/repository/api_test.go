package repository

import (
	"flag"
	"fmt"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var updateAPI = flag.Bool("api.update", false, "write the public API into api/, instead of "+
	"comparing it")

// The goal: nothing changes in what users can name unless somebody wants it: api/ has a line for
// each exported constant, variable, function, type, field and method of every package that users
// can import, as the compiler sees them.
func TestAPI_IsAsRecorded(t *testing.T) {
	now := make(map[string]string) // by file
	for importPath, p := range packages(t) {
		if dir, _ := inThisModule(importPath); p.Name() != "main" && !isInternal(dir) {
			now[apiFile(dir)] = strings.Join(apiOf(p), "\n") + "\n"
		}
	}
	if *updateAPI {
		writeAPI(t, now)
	}
	recorded, err := filepath.Glob("api/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range slices.Sorted(maps.Keys(now)) {
		text, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if diff := lineDiff(string(text), now[file]); diff != "" {
			t.Errorf("the public API is not that of %s:\n%sIf that is meant: make api, and "+
				"commit it; CHANGELOG.md tells users.", file, diff)
		}
	}
	for _, file := range recorded {
		if now[filepath.ToSlash(file)] == "" {
			t.Errorf("%s: there is no such package any more. If that is meant: make api, and "+
				"commit it; CHANGELOG.md tells users.", file)
		}
	}
}

// isInternal reports whether other modules can't import the package.
func isInternal(dir string) bool { return isOrIsBelow(dir, "internal") }

func apiFile(dir string) string {
	if dir == "." {
		dir = "lockpipe"
	}
	return "api/" + strings.ReplaceAll(dir, "/", "_") + ".txt"
}

// writeAPI makes files all that is recorded. What is below, of the last release, stays.
func writeAPI(t *testing.T, files map[string]string) {
	t.Helper()
	recorded, err := filepath.Glob("api/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range recorded {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range files {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// lineDiff has a line for each that is in only one of two sorted texts.
func lineDiff(before, after string) string {
	old, now := strings.Split(before, "\n"), strings.Split(after, "\n")
	var diff strings.Builder
	for _, line := range old {
		if !slices.Contains(now, line) {
			fmt.Fprintln(&diff, "-", line)
		}
	}
	for _, line := range now {
		if !slices.Contains(old, line) {
			fmt.Fprintln(&diff, "+", line)
		}
	}
	return diff.String()
}

// apiOf lists what a package exports, sorted, one line each.
func apiOf(p *types.Package) []string {
	a := apiList{short: func(other *types.Package) string {
		if other == p {
			return ""
		}
		return other.Name()
	}}
	for _, name := range p.Scope().Names() {
		if o := p.Scope().Lookup(name); o.Exported() {
			a.object(o)
		}
	}
	slices.Sort(a.lines)
	return a.lines
}

type apiList struct {
	lines []string
	short types.Qualifier
}

func (a *apiList) add(format string, args ...any) {
	a.lines = append(a.lines, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (a *apiList) object(o types.Object) {
	switch o := o.(type) {
	case *types.Const:
		a.add("const %s %s = %s", o.Name(), types.TypeString(o.Type(), a.short),
			o.Val().ExactString())
	case *types.TypeName:
		a.typeName(o)
	default:
		a.add("%s", types.ObjectString(o, a.short))
	}
}

// typeName lists a type, its exported fields, and all its methods, also those that embedded fields
// bring. What an alias names has its line in its own package.
func (a *apiList) typeName(o *types.TypeName) {
	named, ok := o.Type().(*types.Named)
	if o.IsAlias() || !ok {
		a.add("%s", types.ObjectString(o, a.short))
		return
	}
	name := types.TypeString(named, a.short)
	u, ok := named.Underlying().(*types.Struct)
	if !ok {
		a.add("type %s %s", name, types.TypeString(named.Underlying(), a.short))
	} else {
		a.add("type %s struct", name)
		for i := range u.NumFields() {
			if f := u.Field(i); f.Exported() {
				a.add("type %s struct, %s %s %s", name, f.Name(), types.TypeString(f.Type(),
					a.short), u.Tag(i))
			}
		}
	}
	if types.IsInterface(named) {
		return
	}
	for m := range types.NewMethodSet(types.NewPointer(named)).Methods() {
		if f := m.Obj().(*types.Func); f.Exported() {
			a.add("%s", types.ObjectString(f, a.short))
		}
	}
}
