package repository

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/combine"
	"github.com/lockpipe/lockpipe/metrics"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

var metricName = regexp.MustCompile(`\blockpipe_[a-z_]+\b`)

// mentioned are the metrics that a file speaks of, a histogram's samples by the name of the
// histogram.
func mentioned(t *testing.T, file string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	names := make(map[string]bool)
	for _, name := range metricName.FindAllString(string(text), -1) {
		names[family(name)] = true
	}
	require.NotEmpty(t, names, file)
	return names
}

// family is the name of the metric that a sample belongs to.
func family(sample string) string {
	sample, _, _ = strings.Cut(sample, "{")
	for _, suffix := range []string{"_seconds_bucket", "_seconds_count", "_seconds_sum"} {
		if name, ok := strings.CutSuffix(sample, suffix); ok {
			return name + "_seconds"
		}
	}
	return sample
}

// gatherMetrics returns the metrics of a new client, sorted by name. It needs no server.
func gatherMetrics(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	client, err := lockpipe.New(lockpipe.Config{
		Nodes:  []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"},
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close(t.Context())) }()
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(metrics.NewCollector(client)))
	families, err := registry.Gather()
	require.NoError(t, err)
	return families
}

// noBatches are the counts of a combine.Combiner.
type noBatches struct{}

func (noBatches) Stats() (s combine.Stats) { return s }

// The goal: the dashboard, the alerts and the documentation speak of metrics that there are, and
// the dashboard and the documentation of all of a Client.
func TestDeploy_KnowsTheMetrics(t *testing.T) {
	reported := make(map[string]bool)
	for _, f := range gatherMetrics(t) {
		reported[f.GetName()] = true
	}
	combined := make(map[string]bool)
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(metrics.NewCombinerCollector(noBatches{})))
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		combined[f.GetName()] = true
	}
	for file, all := range map[string]bool{
		"deploy/alerts.yml":                       false,
		"deploy/grafana/dashboards/lockpipe.json": true, "docs/operations.md": true,
	} {
		names := mentioned(t, file)
		for name := range names {
			require.True(t, reported[name] || combined[name], "%s: there is no metric %s", file,
				name)
		}
		for name := range reported {
			require.True(t, names[name] || !all, "%s: %s is missing", file, name)
		}
	}
}

// The goal: each alert says when it fires, how much it matters and what it is about, and the
// documentation says what to do.
func TestDeploy_AlertsAreWhole(t *testing.T) {
	text, err := os.ReadFile("deploy/alerts.yml")
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	manual, err := os.ReadFile("docs/operations.md")
	require.NoError(t, err)
	require.NotEmpty(t, file.Groups)
	for _, r := range file.Groups[0].Rules {
		require.NotEmpty(t, r.Expr, r.Alert)
		require.Contains(t, []string{"warning", "critical"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.Contains(t, r.Annotations["runbook_url"],
			"docs/operations.md#what-do-i-do-about-an-alert", r.Alert)
		require.Contains(t, string(manual), "`"+r.Alert+"`")
	}
}

// The goal: Prometheus takes the rules, and they fire when they should. It needs promtool.
func TestDeploy_AlertsFire(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: whether Prometheus takes the alert rules was not tested")
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {
		"test", "rules",
		"alerts_test.yml",
	}, {"check", "config", "prometheus.yml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = "deploy"
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", args, out)
	}
}

// The goal: Prometheus understands what the dashboard asks. It needs promtool.
func TestDeploy_TheDashboardsQueriesAreValid(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: whether Prometheus understands the dashboard was not " +
			"tested")
	}
	var rules []map[string]string
	for _, p := range dashboard(t).Panels {
		for _, q := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*", "$job", ".*",
				"$namespace", ".*").Replace(q.Expr)
			rules = append(rules, map[string]string{
				"record": fmt.Sprint("panel:", len(rules)),
				"expr":   expr,
			})
		}
	}
	text, err := json.Marshal(map[string]any{"groups": []any{map[string]any{
		"name":  "dashboard",
		"rules": rules,
	}}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "rules.yml") // JSON is YAML
	require.NoError(t, os.WriteFile(file, text, 0o600))
	out, err := exec.Command(promtool, "check", "rules", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// The goal: Grafana can show the dashboard: it is valid JSON, each panel asks something, and no two
// overlap.
func TestDeploy_TheDashboardIsWhole(t *testing.T) {
	taken, ids := make(map[[2]int]string), make(map[int]bool)
	for _, p := range dashboard(t).Panels {
		require.False(t, ids[p.ID], "%s: its number is another's", p.Title)
		ids[p.ID] = true
		require.Equal(t, p.Type == "row", len(p.Targets) == 0, p.Title)
		for _, q := range p.Targets {
			require.NotEmpty(t, q.Expr, p.Title)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Empty(t, taken[[2]int{x, y}], "%s is in its way", p.Title)
				taken[[2]int{x, y}] = p.Title
				require.Less(t, x, 24, p.Title)
			}
		}
	}
}

// panels are what a Grafana dashboard shows.
type panels struct {
	Panels []struct {
		ID          int
		Type, Title string
		GridPos     struct{ H, W, X, Y int }
		Targets     []struct{ Expr string }
	}
}

func dashboard(t *testing.T) (d panels) {
	t.Helper()
	text, err := os.ReadFile("deploy/grafana/dashboards/lockpipe.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	require.NotEmpty(t, d.Panels)
	return d
}

// The goal: the nodes of the example for Kubernetes have the user that the documentation names, and
// are ready only behind the wait of a restart with the default MaxTTL.
func TestDeploy_NodesOnKubernetesAreAsDocumented(t *testing.T) {
	page, err := os.ReadFile("docs/operations.md")
	require.NoError(t, err)
	commands := regexp.MustCompile(`(?m)^ACL SETUSER lockpipe .*? (-@all .*)$`).FindSubmatch(page)
	require.NotNil(t, commands)
	text, err := os.ReadFile("deploy/kubernetes.yaml")
	require.NoError(t, err)
	found := map[string]map[string]any{}
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var object map[string]any
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		found[object["kind"].(string)] = object
	}
	users := found["Secret"]["stringData"].(map[string]any)["users.acl"].(string)
	require.Contains(t, users, "user lockpipe on >PASSWORD ~app:* "+string(commands[1])+"\n")
	require.Contains(t, users, "user default off\n")
	pod := found["StatefulSet"]["spec"].(map[string]any)["template"].(map[string]any)
	node := pod["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
	delay := node["readinessProbe"].(map[string]any)["initialDelaySeconds"].(int)
	require.Equal(t, 10+30, delay)
	service := found["Service"]["spec"].(map[string]any)
	require.Equal(t, true, service["publishNotReadyAddresses"])
}
