package repository

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The architecture, as far as it can be read from the source. A rule that is in the way may be
// changed here, on purpose and in view of a reviewer, and in DESIGN.md with it. Modules inside this
// one, such as bench/peers, keep their own rules.

const (
	modulePath  = "github.com/lockpipe/lockpipe"
	rueidisPath = "github.com/redis/rueidis"
)

// trusted marks, in allowedImports, a package where a mistake can break exclusion. Such a package
// enforces one of rules 1 to 11 of DESIGN.md, or keeps what they are about: keys, tokens, votes.
//
// The other packages ask for leases, find servers, or tell people what happens. What they want, the
// nodes grant and the guard admits. A few of their lines matter for exclusion too. The root refuses
// reserved names and a TTL above MaxTTL. keyqueue compares the keys of two calls before a handoff.
// endpoint selects the database. sentinel has the client leave an old master.
const trusted = "(trusted)"

// allowedImports says which packages of this module each package may import, by their directories.
// A row begins with trusted if the package has that mark: see TestSize_Total.
var allowedImports = map[string][]string{
	"cmd/loadgen": {
		".", "bench", "bench/figures", "bench/inspect", "bench/owned", "bench/page", "bench/series",
	},
	"bench/page": {"bench", "bench/faults", "bench/figures", "bench/series"},
	"bench": {
		".", "bench/batches", "bench/calls", "bench/check", "bench/chunks", "bench/errorkinds",
		"bench/faults",
		"bench/fleet", "bench/nodes", "bench/process", "bench/series", "bench/shares",
		"bench/waits", "lockpipetest", "fence",
	},
	"bench/batches": {".", "combine", "bench/check"},
	"bench/calls":   {},
	"bench/check": {
		"script", "internal/endpoint", "internal/ids", "internal/resp", "internal/resp/resptools",
	},
	"bench/chunks":     {},
	"bench/errorkinds": {".", "bench/check"},
	"bench/faults":     {"lockpipetest"},
	"bench/figures":    {},
	"bench/fleet":      {".", "bench/series", "metrics"},
	"bench/inspect":    {".", "bench", "bench/fleet", "bench/nodes", "bench/process"},
	"bench/nodes":      {"bench/check", "lockpipetest"},
	"bench/owned":      {"bench", "bench/check", "bench/nodes", "bench/process"},
	"bench/process":    {},
	"bench/series":     {"."},
	"bench/shares":     {},
	"bench/waits":      {"bench/series"},
	".": {
		"multiplex", "lease", "batch", "internal/callbacks", "internal/calls", "internal/holders",
		"internal/fleet", "internal/guard", "internal/ids", "internal/link", "internal/locker",
		"internal/parts", "internal/prefix", "internal/preflight", "internal/quorum",
		"internal/stats", "internal/suspension",
	},
	"multiplex": {
		trusted,
		"batch", "script", "internal/cluster", "internal/endpoint", "internal/fleet",
		"internal/guard", "internal/holders", "internal/ids", "internal/line",
		"internal/link", "internal/node", "internal/quorum", "internal/stats",
	},
	"batch":        {trusted},
	"fence":        {},
	"lease":        {trusted},
	"script":       {trusted},
	"lockpipetest": {"internal/memorynode", "internal/resp", "internal/resp/resptools"},
	// Apart from lockpipetest, which the internal tests of multiplex and the root import.
	"lockpipetest/fake": {".", "internal/ids", "internal/memorynode"},
	"metrics":           {".", "combine"},
	"combine":           {".", "internal/ids", "internal/prefix"},

	"internal/callbacks": {},
	"internal/calls": {
		"multiplex", "internal/callbacks", "internal/ids", "internal/keyqueue", "internal/locker",
		"internal/line", "internal/outage", "internal/parts", "internal/stats", "internal/wait",
	},
	"internal/endpoint": {"internal/resp"},
	"internal/cluster": {
		trusted, "lease", "internal/endpoint", "internal/resp", "internal/suspension",
	},
	"internal/fleet":    {trusted, "script", "internal/resp"},
	"internal/holders":  {"internal/ids", "internal/link", "internal/resp", "internal/trip"},
	"internal/keyqueue": {},
	"internal/link": {
		trusted,
		"script", "internal/cluster", "internal/endpoint", "internal/fleet", "internal/guard",
		"internal/ids",
		"internal/keepalive", "internal/resp", "internal/sentinel", "internal/trip",
	},
	"internal/memorynode": {"script", "internal/resp"},
	"internal/locker": {
		trusted,
		"multiplex", "lease", "batch", "internal/ids", "internal/keyqueue", "internal/line",
		"internal/outage", "internal/parts", "internal/prefix", "internal/stats",
	},
	"internal/line": {
		"batch", "script", "internal/ids", "internal/link", "internal/resp", "internal/stats",
		"internal/trip",
	},
	"internal/wait": {"internal/line"},
	"internal/node": {
		trusted,
		"script", "internal/ids", "internal/line", "internal/link", "internal/refusals",
		"internal/resp", "internal/stats", "internal/trip",
	},
	"internal/outage": {},
	"internal/parts": {
		trusted,
		"multiplex", "internal/endpoint", "internal/fleet", "internal/holders", "internal/ids",
		"internal/line", "internal/preflight", "internal/quorum",
	},
	"internal/preflight": {
		"internal/cluster", "internal/endpoint", "internal/fleet", "internal/guard",
		"internal/ids", "internal/link", "internal/resp", "internal/sentinel",
	},
	"internal/prefix":         {},
	"internal/quorum":         {trusted},
	"internal/refusals":       {},
	"internal/resp":           {trusted},
	"internal/resp/resptest":  {"internal/resp"},
	"internal/resp/resptools": {"internal/resp"},
	"internal/sentinel":       {"internal/endpoint", "internal/resp"},
	"internal/suspension":     {trusted},
	"internal/trip":           {trusted, "internal/resp"},
	"internal/keepalive":      {"internal/resp", "internal/trip"},
	"internal/ids":            {trusted, "script"},
	"internal/stats":          {},
	"internal/guard": {
		trusted, "script", "internal/fleet", "internal/quorum", "internal/resp",
	},
	"internal/servertest": {"lockpipetest"},
	"internal/acceptance/kit": {
		".", "fence", "lockpipetest", "internal/ids", "internal/locker", "internal/memorynode",
		"internal/outage", "internal/resp/resptest", "internal/stats",
	},
}

// standardLibraryOnly lists the packages that are free of all dependencies.
var standardLibraryOnly = []string{
	"batch", "bench/calls", "bench/chunks", "bench/figures", "bench/process", "bench/shares",
	"fence", "lease", "script", "internal/stats", "internal/keyqueue",
	"internal/outage", "internal/prefix", "internal/resp",
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
	for _, importPath := range linkedByLocks(t) {
		for _, unwanted := range []string{
			"github.com/prometheus", "google.golang.org/protobuf", "net/http",
		} {
			if isOrIsBelow(importPath, unwanted) {
				t.Errorf("every user of locks links %s: move what imports it to a package that "+
					"users import only if they want it, such as metrics", importPath)
			}
		}
	}
}

// linkedByLocks returns the import paths of all packages that a program that only locks links, the
// same on each machine.
func linkedByLocks(t *testing.T) []string {
	t.Helper()
	linked, err := listLinked()
	if err != nil {
		t.Fatal(err)
	}
	return linked
}

var listLinked = sync.OnceValues(func() ([]string, error) {
	cmd := exec.Command("go", "list", "-deps", ".")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmd, err)
	}
	return strings.Fields(string(out)), nil
})

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
