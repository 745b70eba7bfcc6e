package multiplex

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParse: whatever stands in the configuration, parse ends with an endpoint that can be dialled or with an error, and an error does
// not show the password, also where the URL is broken around it.
func FuzzParse(f *testing.F) {
	for _, parts := range [][3]string{
		{"redis://", "secret12", "@host:6379/0"},
		{"redis://user:", "secret12", "@host"},
		{"rediss://:", "secret12", "@[::1]:6380?skip_verify"},
		{"unix://u:", "secret12", "@/run/redis.sock?db=1"},
		{"", ":secret12", "@host:1"},
		{"redis://:", "sec/ret12", "@host"},
		{"redis://:", "sec#ret12", "@host"},
		{"redis://:", "sec%ret12", "@host"},
		{"redis://:", "secret12", "@host:port"},
		{"redis://:", "secret12", "@host/x"},
		{"redis://host?password=", "secret12", ""},
		{"redis://host?db=", "secret12", ""},
		{"redis://h:", "secret12", ""},
		{"http://:", "secret12", "@h"},
		{"redis://:", "sec ret12", "@a,b"},
		{"redis://:", "sec\x00ret12", "@host"},
		{"redis://:", "secret12@x", "@host/?#"},
		{"", "", ""},
	} {
		f.Add(parts[0], parts[1], parts[2])
	}
	f.Fuzz(func(t *testing.T, before, password, behind string) {
		e, err := parse(before+password+behind, nil)
		if err == nil {
			require.NotEmpty(t, e.address)
			require.Contains(t, []string{"tcp", "unix"}, e.network)
			return
		}
		// Where a password may stand: between a : or :// and an @, whatever else is broken.
		secret := strings.Contains(before, ":") && strings.HasPrefix(behind, "@") && len(password) >= 8
		if secret && !strings.Contains(fixedWords, strings.ToLower(password)) {
			require.NotContains(t, err.Error(), password)
			if plain, bad := url.PathUnescape(password); bad == nil && len(plain) >= 8 {
				require.NotContains(t, err.Error(), plain)
			}
		}
	})
}

// fixedWords is what errors say anyway.
const fixedWords = "is not a url such as redis://user:password@host:6379 is not usable (details are left out, because they may show a password) " +
	"is empty; give a url such as redis://host:6379 has no path; give unix:///path/to/socket"
