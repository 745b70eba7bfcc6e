package metrics

import (
	"github.com/lockpipe/lockpipe/combine"
	"github.com/prometheus/client_golang/prometheus"
)

// combinerMetrics are those of a combine.Combiner. Items divided by batches is the size of a batch,
// and the wait divided by items is that of one.
var combinerMetrics = [...]struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(combine.Stats) float64
}{
	{
		describe("batches_total", "Batches that ran."), prometheus.CounterValue,
		func(s combine.Stats) float64 { return float64(s.Batches) },
	},
	{
		describe("items_total", "Items of the batches that ran."), prometheus.CounterValue,
		func(s combine.Stats) float64 { return float64(s.Items) },
	},
	{
		describe("wait_seconds_total", "Time that items waited for their batch to run."),
		prometheus.CounterValue,
		func(s combine.Stats) float64 { return s.Waited.Seconds() },
	},
	{
		describe("calls_pending", "Calls that wait for their batch, or for its end."),
		prometheus.GaugeValue,
		func(s combine.Stats) float64 { return float64(s.Pending) },
	},
}

func describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("lockpipe_combine_"+name, help, nil, nil)
}

// NewCombinerCollector returns a collector of what a combine.Combiner counts. If several Combiners
// are in one registry, give each a label of its own by prometheus.WrapRegistererWith.
func NewCombinerCollector(combiner interface{ Stats() combine.Stats }) prometheus.Collector {
	return combinerCollector{combiner.Stats}
}

type combinerCollector struct{ stats func() combine.Stats }

// Describe writes the descriptions of all metrics.
func (combinerCollector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range combinerMetrics {
		to <- m.desc
	}
}

// Collect writes what was counted since New and what is so now.
func (c combinerCollector) Collect(to chan<- prometheus.Metric) {
	s := c.stats()
	for _, m := range combinerMetrics {
		to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(s))
	}
}
