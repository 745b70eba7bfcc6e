package endpoint

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzParse: whatever is in the configuration, Parse ends with an endpoint that can be dialled
// or with an error, and an error does not show the password, also where the URL is broken around
// it.
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
		e, err := Parse(before+password+behind, nil)
		if err == nil {
			require.NotEmpty(t, e.Address)
			require.Contains(t, []string{"tcp", "unix"}, e.Network)
			return
		}
		// Where a password may stand: between a : or :// and an @, whatever else is broken.
		secret := strings.Contains(before, ":") && strings.HasPrefix(behind, "@") &&
			len(password) >= 8 && !strings.Contains(before+behind, password)
		if secret && !strings.Contains(fixedWords, strings.ToLower(password)) {
			require.NotContains(t, err.Error(), password)
			if plain, bad := url.PathUnescape(password); bad == nil && len(plain) >= 8 {
				require.NotContains(t, err.Error(), plain)
			}
		}
	})
}

// fixedWords is what errors say anyway.
const fixedWords = "is not a url such as redis://user:password@host:6379 is not usable (details " +
	"are left out, because they may show a password) " +
	"is empty; give a url such as redis://host:6379 has no path; give unix:///path/to/socket " +
	"has no scheme that is known; use redis, rediss or unix " +
	"has more than one url: give each master an entry of its own " +
	"has an ipv6 address without brackets: write it has a # that is not written as %23 it has " +
	"no host " +
	"it has more than one host or port: give each master an entry of its own " +
	"unknown parameter; db, client_name and skip_verify are known, and for a master by sentinel " +
	"addr, " +
	"master_set, sentinel_user, sentinel_password and sentinel_tls the database is negative " +
	"a parameter has a % or ; that is not written as %25 or %3b is for a master by sentinel: give " +
	"redis:// or rediss://, the address of a sentinel, and master_set " +
	": in a user or password every character but letters, digits and - . _ ~ " +
	"must be percent-escaped, such as # as %23, % as %25, / as %2f and ? as %3f " +
	"the port is not a number from 1 to 65535 net/url: invalid userinfo " +
	"net/url: invalid control character in url invalid character in host name " +
	"the database is not a number skip_verify is neither true nor false it has no path"

// The goal: an entry that users write by mistake gets an error that says what is wrong and what to
// write, and shows neither the user nor the password.
func TestEndpoint_AnEntryThatIsNoNodeIsExplained(t *testing.T) {
	const escape = "in a user or password every character but letters, digits and - . _ ~ " +
		"must be percent-escaped"
	const several = "give each master an entry of its own"
	for text, says := range map[string]string{
		"http://host:6379":             "has the scheme http; use redis, rediss or unix",
		"http://name:canary@host:6379": "has the scheme http; use redis, rediss or unix",
		"name:canary://@host": "has no scheme that is known; use redis, " +
			"rediss or unix",
		"::1:7001":                      "without brackets: write [::1]:7001",
		"::1":                           "write [::1]:6379",
		"fe80::1":                       "write [fe80::1]:6379",
		"redis://2001:db8::1:7001/2":    "write [2001:db8::1]:7001",
		"redis://name:canary@::1:7001":  "write [::1]:7001",
		"redis://name:ca/nary@::1:7001": escape,
		"host:6379?max_retries=1": "unknown parameter max_retries; db, " +
			"client_name and skip_verify are known",
		"redis://name:canary@host?bogus=canary": "unknown parameter bogus; db, client_name and " +
			"skip_verify are known",
		"redis://host?password=canary&canary": "unknown parameter password; db,",
		"redis://host?db=1&ca2nary=1": "unknown parameter; db, client_name and " +
			"skip_verify are known",
		"redis://name:p@ss?canary=1@host":       escape,
		"redis://name:ca/nary@host":             escape,
		"redis://name:1234?canary=@host":        escape,
		"redis://name:1234#canary@host":         escape,
		"redis://name:%xcanary@host":            escape,
		"redis://name:can%a@host":               escape,
		"redis://name:[canary@host":             escape,
		"name:can ary@host":                     escape,
		"redis://name:canary@host:port":         `invalid port ":port" after host`,
		"redis://name:canary@host:0":            "the port is not a number from 1 to 65535",
		"redis://name:canary@host/-1":           "the database is negative",
		"redis://name:canary@host/canary":       "the database is not a number",
		"redis://name:canary@host/1/2":          "the database is not a number",
		"redis://name:canary@host/x?db=1":       "the database is not a number",
		"unix:///s?db=canary":                   "the database is not a number",
		"rediss://host?skip_verify=canary":      "skip_verify is neither true nor false",
		"unix://":                               "it has no path; give unix:///path/to/socket",
		"redis://name:canary@host:1,host:2":     several,
		"redis://name:canary@a,redis://b":       several,
		"redis://name:canary@a, rediss://c:d@b": several,
		"redis://host#canary":                   "# that is not written as %23",
		"redis://name:canary@host:x?y=1":        "details are left out",
	} {
		_, err := Parse(text, nil)
		require.ErrorContains(t, err, says, text)
		for _, secret := range []string{"canary", "nary", "1234", "name:"} {
			require.NotContains(t, err.Error(), secret, text)
		}
	}
}

// The goal: white space around an entry, as lines of a file have it, is no part of it.
func TestEndpoint_WhiteSpaceAroundAnEntryIsIgnored(t *testing.T) {
	for _, text := range []string{
		" host:7001", "host:7001\n",
		"\tredis://name:canary@host:7001 \r\n",
	} {
		e, err := Parse(text, nil)
		require.NoError(t, err)
		require.Equal(t, "host:7001", e.Address)
	}
}

func TestLayoutName_IsTheSameForTheSameLocks(t *testing.T) {
	for text, want := range map[string]string{
		"Host":                                 "host:6379",
		"redis://user:secret@host:6379/0":      "host:6379",
		"redis://host/3":                       "host:6379/3",
		"rediss://host:6380?db=3":              "host:6380/3",
		"unix:///run/redis.sock?db=2":          "/run/redis.sock/2",
		"redis://s2?addr=s1&master_set=m":      "m@s1:26379",
		"redis://s1?addr=s2&master_set=m&db=1": "m@s1:26379/1",
	} {
		e, err := Parse(text, nil)
		require.NoError(t, err)
		require.Equal(t, want, e.LayoutName(), text)
	}
}
