package repository

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestComments_EachPackageHasOne(t *testing.T) {
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

func TestComments_EachExportedNameHasOne(t *testing.T) {
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
