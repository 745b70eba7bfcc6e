package repository

import (
	"flag"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var releaseAPI = flag.Bool("api.release", false, "copy the public API of the stable packages from "+
	"api/ into api/released/, instead of looking for what changed in CHANGELOG.md")

// releasedAPI has the API of the last release, for each package that README.md calls stable, as a
// copy of its file in api/. Before the first release it has what CHANGELOG.md tells as a whole.
const releasedAPI = "api/released"

// The goal: users read in CHANGELOG.md of each exported name of a stable package that was added,
// changed or removed since the last release.
func TestChangelog_NamesWhatChangedInTheAPI(t *testing.T) {
	page, err := os.ReadFile("CHANGELOG.md")
	require.NoError(t, err)
	unreleased := sectionOf(string(page), "Unreleased")
	packages := stablePackages(t)
	if *releaseAPI {
		release(t, packages)
	}
	for _, p := range packages {
		now, err := os.ReadFile(p.file())
		require.NoError(t, err)
		before, err := os.ReadFile(p.releasedFile())
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, name := range p.unmentioned(string(before), string(now), unreleased) {
			t.Errorf("%s: `%s` is not as in the last release, and the changes under Unreleased in "+
				"CHANGELOG.md do not name it: tell users there", p, name)
		}
	}
	released, err := filepath.Glob(releasedAPI + "/*.txt")
	require.NoError(t, err)
	for _, file := range released {
		if !slices.ContainsFunc(packages, func(p stablePackage) bool {
			return p.releasedFile() == filepath.ToSlash(file)
		}) {
			t.Errorf("%s: README.md does not call this package stable any more: delete the file, "+
				"and tell users in CHANGELOG.md", file)
		}
	}
}

// The goal: the check finds each name that was added, changed or removed, only these, and accepts
// the forms in which the changelog names them.
func TestChangelog_UnmentionedNamesAreFound(t *testing.T) {
	const before = "const Max untyped int = 1\n" +
		"func (*Client).Do(ctx context.Context) error\n" +
		"func (*Client).Stop()\n" +
		"func New() *Client\n" +
		"type Client struct\n" +
		"type Config struct\n" +
		"type Config struct, TTL time.Duration\n" +
		"type Old struct\n" +
		"type Old struct, Field int\n" +
		"var ErrHeld error\n"
	const now = "const Max untyped int = 2\n" +
		"func (*Client).Do(ctx context.Context, n int) error\n" +
		"func (*New2).Method()\n" +
		"func (Pair[K, V]).Swap()\n" +
		"func (*lockpipe.Client).Peek()\n" +
		"func New() *Client\n" +
		"type Client struct\n" +
		"type Config struct\n" +
		"type Config struct, Owner string json:\"owner\"\n" +
		"type Config struct, TTL time.Duration\n" +
		"type New2 struct\n" +
		"type Pair[K comparable, V any] struct\n" +
		"var ErrHeld error\n"
	p := stablePackage("lockpipetest/fake")
	require.Equal(t, []string{
		"Client.Do", "Client.Peek", "Client.Stop", "Config.Owner", "Max", "New2", "Old", "Pair",
	}, p.unmentioned(before, now, ""))
	require.Equal(t, []string{"Client.Do", "Max", "New2"}, p.unmentioned(before, now,
		"`Client.Peek`, `Stop(ctx)`, `fake.Config.Owner`, Max, `Other.Max`, `Client`, `NewNew2`, "+
			"`fake.Pair` and\n`Old`"))
	require.Empty(t, p.unmentioned(now, now, ""))
	require.Equal(t, []string{"lockpipetest/fake"}, p.unmentioned("", now, "`fake`"))
	require.Empty(t, p.unmentioned("", now, "`lockpipetest/fake`"))

	const page = "# Changelog\n## Unreleased\n- `A`\n### More\n- `B`\n## v0.1.0\n- `C`\n"
	require.Equal(t, "\n- `A`\n### More\n- `B`", sectionOf(page, "Unreleased"))
	require.Equal(t, "\n- `C`\n", sectionOf(page, "v0.1.0"))
	require.Empty(t, sectionOf(page, "v0.2.0"))
}

// sectionOf returns the text of the section of a page that has this heading; "" if there is none.
func sectionOf(page, title string) string {
	_, text, _ := strings.Cut(page, "\n## "+title)
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// stablePackage is a package that only a minor version may change, as README.md names it.
type stablePackage string

var (
	stableList = regexp.MustCompile("(?s)may change packages other than (.*?)\\.\n")
	inCode     = regexp.MustCompile("`([^`]+)`")
	// apiMember is a line of a recorded API for a method or a field, and apiName one for any other
	// name.
	apiMember = regexp.MustCompile(
		`^(?:func \(\*?(?:\w+\.)?(\w+)[^)]*\)\.|type (\w+)(?:\[[^]]*\])? struct, )(\w+)`)
	apiName = regexp.MustCompile(`^(?:const|func|type|var) (\w+)`)
)

// stablePackages returns the packages that README.md calls stable.
func stablePackages(t *testing.T) (packages []stablePackage) {
	t.Helper()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	list := stableList.FindStringSubmatch(string(text))
	require.NotNil(t, list, "README.md does not say which packages are stable")
	for _, name := range inCode.FindAllStringSubmatch(list[1], -1) {
		packages = append(packages, stablePackage(name[1]))
	}
	require.NotEmpty(t, packages)
	return packages
}

// release makes the API of now that of the last release.
func release(t *testing.T, packages []stablePackage) {
	t.Helper()
	require.NoError(t, os.RemoveAll(releasedAPI))
	require.NoError(t, os.Mkdir(releasedAPI, 0o755))
	for _, p := range packages {
		text, err := os.ReadFile(p.file())
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(p.releasedFile(), text, 0o644))
	}
}

func (p stablePackage) file() string { return apiFile(string(p)) }

func (p stablePackage) releasedFile() string { return releasedAPI + "/" + path.Base(p.file()) }

// unmentioned returns the names, sorted, whose lines in the API before and now differ, and that the
// changes do not have in backticks. A type that is new or gone stands for its methods and fields. A
// package that was not in the last release stands for all of its names.
func (p stablePackage) unmentioned(before, now, changes string) (names []string) {
	if before == "" {
		if !p.names(changes, string(p), "") {
			names = append(names, string(p))
		}
		return names
	}
	differing := strings.Split(strings.TrimSpace(lineDiff(before, now)), "\n")
	whole := make(map[string]bool) // names that are neither methods nor fields
	for _, line := range differing {
		if name, member := nameIn(line); member == "" {
			whole[name] = true
		}
	}
	for _, line := range differing {
		name, member := nameIn(line)
		if name == "" || member != "" && whole[name] || p.names(changes, name, member) {
			continue
		}
		if member != "" {
			name += "." + member
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// nameIn returns the name that a line of lineDiff is about. A method or a field is a member of the
// type with that name.
func nameIn(line string) (name, member string) {
	_, line, _ = strings.Cut(line, " ") // the sign
	if m := apiMember.FindStringSubmatch(line); m != nil {
		return m[1] + m[2], m[3]
	}
	if m := apiName.FindStringSubmatch(line); m != nil {
		return m[1], ""
	}
	return "", ""
}

// names reports whether changes have a name in backticks. The package may be before it, and a list
// of arguments behind it. A member may be alone.
func (p stablePackage) names(changes, name, member string) bool {
	for _, code := range inCode.FindAllStringSubmatch(changes, -1) {
		text, _, _ := strings.Cut(code[1], "(")
		text = strings.TrimPrefix(text, path.Base(string(p))+".")
		if member == "" && text == name ||
			member != "" && (text == member || text == name+"."+member) {
			return true
		}
	}
	return false
}
