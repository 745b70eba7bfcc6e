package repository

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// setting finds each field of Config and each function that makes an Option in the recorded API.
var setting = regexp.MustCompile(`(?m)^(?:type Config struct, (\w+)|func (\w+)\(.*\) Option$)`)

// The goal: the page about the configuration names all that users can set.
func TestDocs_ConfigurationNamesEachSetting(t *testing.T) {
	const manual = "docs/configuration.md"
	recorded, err := os.ReadFile(apiFile("."))
	require.NoError(t, err)
	page, err := os.ReadFile(manual)
	require.NoError(t, err)
	settings := setting.FindAllStringSubmatch(string(recorded), -1)
	require.NotEmpty(t, settings)
	for _, s := range settings {
		if name := s[1] + s[2]; !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("%s does not name `%s`: give it a row, with its default and when to set it",
				manual, name)
		}
	}
}
