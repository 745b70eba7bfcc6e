package metrics_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/combine"
	"github.com/lockpipe/lockpipe/metrics"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

type counted combine.Stats

func (c counted) Stats() combine.Stats { return combine.Stats(c) }

// The goal: what a Combiner counts comes out under its names, in seconds.
func TestNewCombinerCollector_ShowsWhatIsCounted(t *testing.T) {
	c := metrics.NewCombinerCollector(counted{
		Batches: 2, Items: 7, Waited: 1500 * time.Millisecond, Pending: 3,
	})
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP lockpipe_combine_batches_total Batches that ran.
# TYPE lockpipe_combine_batches_total counter
lockpipe_combine_batches_total 2
# HELP lockpipe_combine_calls_pending Calls that wait for their batch, or for its end.
# TYPE lockpipe_combine_calls_pending gauge
lockpipe_combine_calls_pending 3
# HELP lockpipe_combine_items_total Items of the batches that ran.
# TYPE lockpipe_combine_items_total counter
lockpipe_combine_items_total 7
# HELP lockpipe_combine_wait_seconds_total Time that items waited for their batch to run.
# TYPE lockpipe_combine_wait_seconds_total counter
lockpipe_combine_wait_seconds_total 1.5
`)))
}
