package repository

import (
	"go/types"
	"strings"
	"testing"
)

// Users of the API must be free of the Redis client that is used today. Types are looked at as the
// compiler sees them, so also those that are only inferred or promoted by embedding.
func TestAPI_NamesNoTypeOfRueidis(t *testing.T) {
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
