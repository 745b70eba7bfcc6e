package repository

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/stretchr/testify/require"
)

// The goal: each relative link of a Markdown file leads to a file of the repository, and to a
// heading of it if the link has an anchor. Each page of docs/ that another file mentions exists.
func TestLinks_LeadToFilesAndHeadings(t *testing.T) {
	for _, dead := range deadLinks(t, os.DirFS(".")) {
		t.Error(dead)
	}
}

// The goal: the check of links finds dead ones, and only these.
func TestLinks_DeadOnesAreFound(t *testing.T) {
	page := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	files := fstest.MapFS{
		"docs/a.md": page("# What's `A`, [really](b.md)?\n## Twice\n```sh\n# none\n```\n## Twice\n"),
		"docs/b.md": page("[up](a.md#whats-a-really) [2](a.md#twice-1) [self](#b) [dir](../src)\n# B\n" +
			"```go\n[x](y)\n```\n`[x](y)` [out](https://example.com/none.md) ![p](p.svg)\n[n]: ../none.md\n"),
		"docs/p.svg": page(""),
		"src/a.go":   page("// docs/b.md and docs/c.md\n"),
		"top.md":     page("[1](docs/a.md#none) [2](docs/b.md#twice) [3](docs/d.md)\n[4](../x.md)"),
	}
	require.Equal(t, []string{
		"docs/b.md:7: ../none.md: there is no such file",
		"src/a.go:1: docs/c.md: there is no such file",
		"top.md:1: docs/a.md#none: the page has no such heading",
		"top.md:1: docs/b.md#twice: the page has no such heading",
		"top.md:1: docs/d.md: there is no such file",
		"top.md:2: ../x.md: there is no such file",
	}, deadLinks(t, files))
}

var (
	// inlineLink is [text](target), and linkTarget [name]: target on a line of its own.
	inlineLink = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	linkTarget = regexp.MustCompile(`^\[[^\]]+\]: (\S+)`)
	codeSpan   = regexp.MustCompile("`[^`]*`")
	heading    = regexp.MustCompile(`^#{1,6} (.*)$`)
	// docsPage is a page of the documentation that a file of another kind mentions.
	docsPage = regexp.MustCompile(`\bdocs/[a-z/-]+\.md\b`)
)

// mentions are the kinds of files, besides Markdown, whose comments name pages of docs/.
var mentions = []string{".go", ".yml", ".pml", ".sh"}

// deadLinks returns each link of files that leads nowhere, with its place.
func deadLinks(t *testing.T, files fs.FS) (dead []string) {
	t.Helper()
	check := func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git"):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		markdown := path.Ext(file) == ".md"
		if !markdown && !slices.Contains(mentions, path.Ext(file)) {
			return nil
		}
		if file == "internal/repository/links_test.go" {
			return nil // the dead links of its test
		}
		text, err := fs.ReadFile(files, file)
		if err != nil {
			return err
		}
		lines := strings.Split(string(text), "\n")
		if markdown {
			lines = withoutCode(lines)
		}
		for i, line := range lines {
			targets, from := docsPage.FindAllString(line, -1), "."
			if markdown {
				targets, from = linksOf(line), path.Dir(file)
			}
			for _, target := range targets {
				if why := leadsNowhere(files, from, file, target); why != "" {
					dead = append(dead, fmt.Sprintf("%s:%d: %s: %s", file, i+1, target, why))
				}
			}
		}
		return nil
	}
	require.NoError(t, fs.WalkDir(files, ".", check))
	return dead
}

// withoutCode returns lines with those of fenced blocks empty.
func withoutCode(lines []string) []string {
	fenced := false
	text := slices.Clone(lines)
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence || fenced {
			text[i] = ""
		}
		fenced = fenced != fence
	}
	return text
}

// linksOf returns the targets of the links in a line of Markdown.
func linksOf(line string) (targets []string) {
	line = codeSpan.ReplaceAllString(line, "")
	for _, link := range append(inlineLink.FindAllStringSubmatch(line, -1),
		linkTarget.FindAllStringSubmatch(line, -1)...) {
		targets = append(targets, link[1])
	}
	return targets
}

// leadsNowhere says why a link of file, relative to directory from, is dead; "" if it is not.
func leadsNowhere(files fs.FS, from, file, target string) string {
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return err.Error()
	case u.Scheme != "":
		return ""
	}
	page := file
	if u.Path != "" {
		page = path.Join(from, u.Path)
	}
	if _, err := fs.Stat(files, page); err != nil {
		return "there is no such file"
	}
	if u.Fragment == "" || slices.Contains(anchors(files, page), u.Fragment) {
		return ""
	}
	return "the page has no such heading"
}

// anchors returns the names that GitHub gives the headings of a page.
func anchors(files fs.FS, page string) (names []string) {
	text, err := fs.ReadFile(files, page)
	if err != nil {
		return nil
	}
	count := make(map[string]int)
	for _, line := range withoutCode(strings.Split(string(text), "\n")) {
		match := heading.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		name := anchor(match[1])
		count[name]++
		if n := count[name]; n > 1 {
			name = fmt.Sprintf("%s-%d", name, n-1)
		}
		names = append(names, name)
	}
	return names
}

// anchor returns the name that GitHub gives a heading: its text in lower case, with hyphens for
// spaces and without punctuation.
func anchor(heading string) string {
	text := regexp.MustCompile(`\]\([^)]*\)`).ReplaceAllString(heading, "")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(text))
}
