package bench

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Goal: DefaultConfig returns what can be run, in every scenario.
func TestConfig_DefaultsAreValid(t *testing.T) {
	for _, s := range scenarios {
		require.NoError(t, DefaultConfig(s).Validate(), s)
	}
	require.Equal(t, 1, DefaultConfig(Hot).Keys)
	require.Equal(t, 100, DefaultConfig(Each).perCall())
	require.Equal(t, 1, DefaultConfig(Single).perCall())
	require.Equal(t, 3, DefaultConfig(Cart).perCall())
}

// Goal: each value that can't be used is refused, with the name of its field and the value.
func TestConfig_AnErrorNamesTheField(t *testing.T) {
	for _, tc := range []struct {
		field, value string
		set          func(*Config)
	}{
		{"Scenario", "warm", func(c *Config) { c.Scenario = "warm" }},
		{"Scenario", "", func(c *Config) { c.Scenario = "" }},
		{"Callers", "-1", func(c *Config) { c.Callers = -1 }},
		{"Callers", "0", func(c *Config) { c.Callers = 0 }},
		{"Callers", "100000", func(c *Config) { c.Callers = 100_000 }},
		{"Clients", "0", func(c *Config) { c.Clients = 0 }},
		{"Clients", "300", func(c *Config) { c.Clients = 300 }},
		{"Duration", "0s", func(c *Config) { c.Duration = 0 }},
		{"Rate", "-1", func(c *Config) { c.Rate = -1 }},
		{"Rate", "NaN", func(c *Config) { c.Rate = math.NaN() }},
		{"Keys", "0", func(c *Config) { c.Keys = 0 }},
		{"Batch", "0", func(c *Config) { c.Batch = 0 }},
		{"Batch", "20", func(c *Config) { c.Batch, c.Keys = 20, 19 }},
		{"Hold", "-1s", func(c *Config) { c.Hold = -time.Second }},
		{"Leases", "0", func(c *Config) { c.Leases = 0 }},
		{"Leases", "10000001", func(c *Config) { c.Leases = 10_000_001 }},
		{"AutoExtend", "-1s", func(c *Config) { c.AutoExtend = -time.Second }},
		{"AutoExtend", "1001h0m0s", func(c *Config) { c.AutoExtend = 1001 * time.Hour }},
		{"TTL", "9ms", func(c *Config) { c.TTL = 9 * time.Millisecond }},
		{"TTL", "1m1s", func(c *Config) { c.TTL = 61 * time.Second }},
		{"Nodes", "entry 1", func(c *Config) { c.Nodes = "" }},
		{"Nodes", "local:0", func(c *Config) { c.Nodes = "local:0" }},
		{"Nodes", "local:x", func(c *Config) { c.Nodes = "local:x" }},
		{"Nodes", "inprocess:99", func(c *Config) { c.Nodes = "inprocess:99" }},
		{"Nodes", "entry 2", func(c *Config) { c.Nodes = "a:1,http://b" }},
		{"Groups", "0", func(c *Config) { c.Groups = 0 }},
		{"Groups", "-1", func(c *Config) { c.Groups = -1 }},
		{"Groups", "2", func(c *Config) { c.Groups = 2 }},
		{"Groups", "10", func(c *Config) { c.Groups = 10 }},
		{"Hot", "1", func(c *Config) { c.Hot = 1 }},
		{"Others", "1", func(c *Config) { c.Others = 1 }},
		{"Cold", "1", func(c *Config) { c.Cold = 1 }},
		{"Hot", "0", func(c *Config) { c.Scenario = Cart }},
		{"Hot", "10000001", func(c *Config) { c.Scenario, c.Hot = Cart, 10_000_001 }},
		{"Others", "-1", func(c *Config) { c.Scenario, c.Hot, c.Others = Cart, 1, -1 }},
		{"Others", "5", func(c *Config) { c.Scenario, c.Hot, c.Others, c.Keys = Cart, 1, 5, 4 }},
		{"Hot", "0", func(c *Config) { c.Scenario = Combine }},
		{"Work", "-1ns", func(c *Config) { c.Work = -1 }},
		{"Work", "1ms", func(c *Config) { c.Work = time.Millisecond }},
		{"Cold", "-1", func(c *Config) { c.Scenario, c.Hot, c.Cold = Cart, 1, -1 }},
		{"Cold", "16129", func(c *Config) { c.Scenario, c.Hot, c.Cold = Cart, 1, maxCallers-255 }},
	} {
		cfg := DefaultConfig(Single)
		tc.set(&cfg)
		var wrong *ConfigError
		require.ErrorAs(t, cfg.Validate(), &wrong, "%s %s", tc.field, tc.value)
		require.Equal(t, tc.field, wrong.Field)
		require.Equal(t, tc.value, wrong.Value)
		require.NotEmpty(t, wrong.Remedy)
		_, err := Run(t.Context(), cfg)
		require.ErrorAs(t, err, &wrong, "Run refuses it too")
	}
}
