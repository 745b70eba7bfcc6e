package endpoint

import (
	"crypto/tls"
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
		{"host:6380,password=", "secret12", ",ssl=True"},
		{"", "password=secret12", ""},
		{"redis://user:", "secret12", ""},
		{"redis://user:12?", "secret12", "=1"},
		{"redis://user:12/", "secret12", ""},
		{"redis://s?master_set=m&addr=", "secret12", "&addr=secret12"},
		{"", "secret12", "://host"},
		{"valkeys://:", "secret12", "@host:port"},
		{"", "", ""},
	} {
		f.Add(parts[0], parts[1], parts[2])
	}
	f.Fuzz(func(t *testing.T, before, password, behind string) {
		e, err := Parse(before+password+behind, nil, 0)
		if err == nil {
			require.NotEmpty(t, e.Address)
			require.Contains(t, []string{"tcp", "unix"}, e.Network)
			return
		}
		// The scheme alone may be shown.
		inScheme := strings.Contains(behind, "://") && !strings.Contains(before, "://")
		shown := strings.ToLower(err.Error())
		for _, form := range []string{password, plain(password)} {
			form = strings.ToLower(form)
			if len(form) >= 4 && !inScheme && !strings.Contains(fixedWords, form) {
				require.NotContains(t, shown, form)
			}
		}
	})
}

// plain returns a password without its escapes.
func plain(password string) string {
	text, err := url.PathUnescape(password)
	if err != nil {
		return password
	}
	return text
}

// fixedWords are what errors say anyway, in lower case.
var fixedWords = strings.ToLower("is not a URL such as redis://user:password@host:6379: " +
	"is not usable: is empty; give a URL such as redis://host:6379 " +
	"has no scheme that is known; " + schemes + " has the scheme " +
	"details are left out, because they may show a password " + noPort +
	" has more than one URL: give each master an entry of its own " +
	"it is more than one host and port: give each master an entry of its own " +
	"has an IPv6 address without brackets: write it such as [::1]:6379 " +
	"it has a # that is not written as %23 it has no host it has no path; give unix:///path/to/socket " +
	"a parameter has a % or ; that is not written as %25 or %3B " +
	"addr is for a master by Sentinel: give redis:// or rediss://, the address of a sentinel, and " +
	"master_set sentinel_user sentinel_password sentinel_tls " +
	"its parameter number 1 is unknown (an & in a password is written as %26); db, client_name and " +
	"skip_verify are known, and for a master by Sentinel addr, master_set, sentinel_user, " +
	"sentinel_password and sentinel_tls " +
	"has a + that is not written as %2B, or a space as %20 " +
	"in a user or password every character but letters, digits and - . _ ~ must be " +
	"percent-escaped, such as # as %23, % as %25, / as %2F and ? as %3F " +
	"it has two databases: give one, in the path or as db the database is negative " +
	"the database is not a number skip_verify is neither true nor false " +
	"master_set has to be a name of letters, digits and . - _ " +
	"it has sentinel_user, and sentinel_password is missing " +
	"sentinel_tls is neither true nor false sentinel_tls needs a master with TLS: use rediss:// " +
	"addr has to be host:port of one sentinel " +
	"the port of a sentinel is not a number from 1 to 65535 it names a sentinel twice")

// The goal: an entry that users write by mistake gets an error that says what is wrong and what to
// write, and shows neither the user nor the password.
func TestEndpoint_AnEntryThatIsNoNodeIsExplained(t *testing.T) {
	const escape = "in a user or password every character but letters, digits and - . _ ~ " +
		"must be percent-escaped"
	const brackets = "without brackets: write it such as [::1]:6379"
	const several = "give each master an entry of its own"
	for text, says := range map[string]string{
		"http://host:6379":                         "has the scheme http; " + schemes,
		"http://name:canary@host:6379":             "has the scheme http; " + schemes,
		"name:canary://@host":                      "has no scheme that is known; " + schemes,
		"::1:7001":                                 brackets,
		"::1":                                      brackets,
		"fe80::1":                                  brackets,
		"redis://2001:db8::1:7001/2":               brackets,
		"redis://name:canary@::1:7001":             brackets,
		"redis://name:ca/nary@::1:7001":            escape,
		"host:6379?max_retries=1":                  "its parameter number 1 is unknown",
		"redis://name:canary@host?bogus=canary":    "its parameter number 1 is unknown",
		"redis://host?password=canary&canary":      "its parameter number 1 is unknown",
		"redis://host?db=1&ca2nary=1":              "its parameter number 2 is unknown",
		"redis://host?db=1&db=2":                   "it has two databases: give one",
		"redis://host/0?db=1":                      "it has two databases: give one",
		"redis://name:canary":                      noPort,
		"host:6380,password=canary,ssl=True":       noPort,
		"password=canary":                          several,
		"redis://name:p@ss?canary=1@host":          escape,
		"redis://name:ca/nary@host":                escape,
		"redis://name:1234?canary=@host":           escape,
		"redis://name:1234#canary@host":            escape,
		"redis://name:%xcanary@host":               escape,
		"redis://name:can%a@host":                  escape,
		"redis://name:[canary@host":                escape,
		"name:can ary@host":                        escape,
		"redis://name:canary@host:port":            noPort,
		"redis://name:canary@host:0":               "the port is not a number from 1 to 65535",
		"redis://name:canary@host/-1":              "the database is negative",
		"redis://name:canary@host/canary":          "the database is not a number",
		"redis://name:canary@host/1/2":             "the database is not a number",
		"redis://name:canary@host/x?client_name=1": "the database is not a number",
		"unix:///s?db=canary":                      "the database is not a number",
		"rediss://host?skip_verify=canary":         "skip_verify is neither true nor false",
		"unix://":                                  "it has no path; give unix:///path/to/socket",
		"redis://name:canary@host:1,host:2":        several,
		"redis://name:canary@a,redis://b":          several,
		"redis://name:canary@a, rediss://c:d@b":    several,
		"redis://host#canary":                      "# that is not written as %23",
		"redis://name:canary@ho%zzst?y=1":          "details are left out",
	} {
		_, err := Parse(text, nil, 0)
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
		e, err := Parse(text, nil, 0)
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
		e, err := Parse(text, nil, 0)
		require.NoError(t, err)
		require.Equal(t, want, e.LayoutName(), text)
	}
}

// The goal: the schemes of Valkey mean what those of Redis do.
func TestEndpoint_ValkeyIsNamedAsRedisIs(t *testing.T) {
	for _, rest := range []string{
		"://u:p@host:7001/2?client_name=c", "s://h?skip_verify", "s://s1?master_set=m&sentinel_tls",
	} {
		redis, err := Parse("redis"+rest, nil, 0)
		require.NoError(t, err)
		valkey, err := Parse("Valkey"+rest, nil, 0)
		require.NoError(t, err)
		require.Equal(t, redis, valkey)
	}
}

// The goal: a node that would be sent passwords and locks in clear, although Config.TLS is set, is
// refused with what to write. host:port gets TLS.
func TestEndpoint_TLSIsNotIgnored(t *testing.T) {
	config := new(tls.Config)
	for _, text := range []string{
		"redis://host", "valkey://u:canary@host:1/2", "REDIS://s1?master_set=m",
	} {
		_, err := Parse(text, config, 0)
		require.ErrorContains(t, err, "use rediss:// or valkeys://, or leave Config.TLS out", text)
		require.NotContains(t, err.Error(), "canary")
	}
	for _, text := range []string{"host", "rediss://host", "valkeys://host", "s1?master_set=m"} {
		e, err := Parse(text, config, 0)
		require.NoError(t, err)
		require.NotNil(t, e.TLS, text)
	}
	e, err := Parse("unix:///run/redis.sock", config, 0)
	require.NoError(t, err)
	require.Nil(t, e.TLS)
}
