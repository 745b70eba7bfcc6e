package repository

import (
	"maps"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// The architecture, as far as it can be read from the source. A rule that is in the way may be
// changed here, on purpose and in view of a reviewer, and in DESIGN.md with it. Modules inside this
// one, such as bench/peers, keep their own rules.

const (
	modulePath  = "github.com/lockpipe/lockpipe"
	rueidisPath = "github.com/redis/rueidis"
)

// allowedImports says which packages of this module each package may import, by their directories.
var allowedImports = map[string][]string{
	"cmd/loadgen": {"bench", "bench/figures", "bench/page", "bench/series"},
	"bench/page":  {"bench", "bench/faults", "bench/figures", "bench/series"},
	"bench": {
		".", "bench/calls", "bench/check", "bench/chunks", "bench/errorkinds", "bench/faults",
		"bench/fleet", "bench/nodes", "bench/process", "bench/series", "bench/shares",
		"lockpipetest", "fence",
	},
	"bench/calls":      {},
	"bench/check":      {"internal/endpoint", "internal/resp"},
	"bench/chunks":     {},
	"bench/errorkinds": {".", "bench/check"},
	"bench/faults":     {"lockpipetest"},
	"bench/figures":    {},
	"bench/fleet":      {".", "bench/series", "metrics"},
	"bench/nodes":      {"bench/check", "lockpipetest"},
	"bench/process":    {},
	"bench/series":     {"."},
	"bench/shares":     {},
	".": {
		"multiplex", "lease", "batch",
		"internal/callbacks", "internal/calls", "internal/histogram", "internal/holders",
		"internal/keyset", "internal/layout", "internal/locker", "internal/losslog",
		"internal/outcomes", "internal/parts", "internal/prefix", "internal/preflight",
		"internal/quorum", "internal/reserved", "internal/suspension", "internal/token",
	},
	"multiplex": {
		"batch", "script", "internal/endpoint", "internal/fleet", "internal/holders",
		"internal/inspection", "internal/keyset", "internal/link", "internal/node",
		"internal/quorum", "internal/rendezvous", "internal/restartguard", "internal/servers",
		"internal/watch",
	},
	"batch":        {},
	"fence":        {},
	"lease":        {},
	"script":       {},
	"lockpipetest": {"internal/memorynode", "internal/resp"},
	// Apart from lockpipetest, which the internal tests of multiplex and the root import.
	"lockpipetest/fake": {".", "internal/memorynode"},
	"metrics":           {"."},

	"internal/callbacks": {},
	"internal/calls": {
		"multiplex", "internal/keyqueue", "internal/locker", "internal/outage",
		"internal/outcomes", "internal/token", "internal/waiting",
	},
	"internal/endpoint":   {"internal/resp"},
	"internal/fenceclock": {},
	"internal/fleet": {
		"internal/layout", "internal/resp", "internal/restartguard", "script",
	},
	"internal/histogram": {},
	"internal/holders":   {"internal/link", "internal/resp", "internal/trip"},
	"internal/keyqueue":  {},
	"internal/inspection": {
		"internal/endpoint", "internal/layout", "internal/link", "internal/resp",
	},
	"internal/link": {
		"script", "internal/endpoint", "internal/fleet", "internal/keepalive", "internal/reserved",
		"internal/resp", "internal/restartguard", "internal/sentinel", "internal/servers",
		"internal/trip",
	},
	"internal/keyset":     {"internal/reserved", "script"},
	"internal/memorynode": {"script", "internal/resp"},
	"internal/locker": {
		"multiplex", "lease", "batch", "internal/fenceclock", "internal/keyqueue",
		"internal/outage", "internal/outcomes", "internal/parts", "internal/token",
	},
	"internal/losslog": {},
	"internal/node": {
		"script", "internal/histogram", "internal/holders", "internal/keyset", "internal/link",
		"internal/refusals", "internal/resp", "internal/trip", "internal/watch",
	},
	"internal/layout":   {"internal/quorum", "internal/rendezvous"},
	"internal/outage":   {},
	"internal/outcomes": {"internal/histogram"},
	"internal/parts": {
		"multiplex", "internal/endpoint", "internal/fleet", "internal/holders",
		"internal/inspection", "internal/layout", "internal/quorum",
	},
	"internal/preflight": {
		"internal/inspection", "internal/layout", "internal/link", "internal/restartguard",
	},
	"internal/prefix":        {},
	"internal/quorum":        {},
	"internal/refusals":      {},
	"internal/rendezvous":    {},
	"internal/reserved":      {},
	"internal/resp":          {},
	"internal/resp/resptest": {"internal/resp"},
	"internal/sentinel":      {"internal/endpoint", "internal/resp"},
	"internal/suspension":    {},
	"internal/token":         {},
	"internal/trip":          {"internal/resp"},
	"internal/keepalive":     {"internal/resp", "internal/trip"},
	"internal/waiting":       {},
	"internal/watch":         {"batch"},
	"internal/restartguard":  {"internal/quorum", "internal/resp", "internal/servers", "script"},
	"internal/servers":       {},
	"internal/servertest":    {"lockpipetest"},
}

// standardLibraryOnly lists the packages that are free of all dependencies.
var standardLibraryOnly = []string{
	"batch", "bench/calls", "bench/chunks", "bench/figures", "bench/process", "bench/shares",
	"fence", "lease", "script", "internal/fenceclock", "internal/histogram", "internal/keyqueue",
	"internal/losslog", "internal/outage", "internal/prefix", "internal/resp", "internal/token",
	"internal/waiting",
}

// meaninglessNames say nothing about what is in a package.
var meaninglessNames = []string{
	"util", "utils", "common", "commons", "type", "types", "helper", "helpers", "misc", "shared",
	"base", "lib",
}

func TestImports_FollowTheTable(t *testing.T) {
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

// The root package and the locker know what a Log refuses, and nothing else of it.
func TestImports_TheRootHasBatchForItsErrorsOnly(t *testing.T) {
	for _, f := range sources(t, production) {
		i, ok := f.importing(modulePath + "/batch")
		if ok && (f.dir == "." && f.name != "errors.go" ||
			f.dir == "internal/locker" && f.name != "internal/locker/failure.go") {
			t.Errorf("%s: package %s imports batch in one file only, for its errors: go through "+
				"multiplex", f.at(i.pos), f.dir)
		}
	}
}

func TestImports_OnlyLinkKnowsRueidis(t *testing.T) {
	for _, f := range sources(t, production) {
		if i, ok := f.importing(rueidisPath); ok && f.dir != "internal/link" {
			t.Errorf("%s: only internal/link may import %s: add what is missing there, "+
				"without a rueidis type in its API", f.at(i.pos), i.path)
		}
	}
}

// The goal: a program that only locks links neither Prometheus nor an HTTP server.
func TestImports_LocksNeedNoMetrics(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", ".")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	for importPath := range strings.Lines(string(out)) {
		for _, unwanted := range []string{
			"github.com/prometheus", "google.golang.org/protobuf", "net/http",
		} {
			if isOrIsBelow(strings.TrimSpace(importPath), unwanted) {
				t.Errorf("every user of locks links %s: move what imports it to a package that "+
					"users import only if they want it, such as metrics", importPath)
			}
		}
	}
}

// Operations are grouped by what is in flight, not by a timer.
func TestImports_BatchKnowsNoTime(t *testing.T) {
	for _, f := range sources(t, production) {
		if i, ok := f.importing("time"); ok && f.dir == "batch" {
			t.Errorf("%s: package batch may not import time: let the caller decide about time, "+
				"and tell the log what it decided", f.at(i.pos))
		}
	}
}

func TestImports_InnerPackagesNeedTheStandardLibraryOnly(t *testing.T) {
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

func TestImports_NoPackageHasAMeaninglessName(t *testing.T) {
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
