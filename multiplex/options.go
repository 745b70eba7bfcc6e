package multiplex

import (
	"time"

	"github.com/redis/rueidis"
)

const (
	// maxFlushes is the most flushes under way on one node. Together with the connector's own
	// commands they must stay below the ring, because rueidis blocks without regard to any context
	// when its ring is full.
	maxFlushes = 4
	ringScale  = 6 // a ring of 2^6 = 64
	// dialTimeout bounds each part of connecting: the dial with TLS, the restart guard, and the
	// first commands of rueidis.
	dialTimeout    = time.Second
	connectTimeout = 3 * dialTimeout
	// dialGrace is how long a Config.Dial may take to return after its context has ended.
	dialGrace = 100 * time.Millisecond
	// A connection without any reply for silenceGap is probed. It is given up when the probe is
	// unanswered for probeTimeout. So a node that hangs is noticed after 1.5 to 2 seconds. Callers
	// do not wait for that, since each attempt has its own timeout. And a server that is busy for a
	// second is not worth a reconnect.
	silenceGap   = 500 * time.Millisecond
	probeTimeout = time.Second
	bufferSize   = 128 << 10
)

// configure sets how rueidis behaves. All of it is here.
func (e *endpoint) configure() {
	o := &e.option
	// The connector finds the master: rueidis would keep connections of its own to the sentinels.
	o.Sentinel = rueidis.SentinelOption{}
	o.InitAddress = o.InitAddress[:1]
	// One socket: no cluster probe, one multiplexed connection, and never the pool for large
	// pipelines.
	o.ForceSingleClient = true
	o.PipelineMultiplex = -1
	o.BlockingPipeline = -1
	// In its synchronous mode rueidis closes the connection when a deadline passes. When pipelining
	// it does not.
	o.AlwaysPipelining = true
	// An acquire that was executed and sent again would find its own key and count it as another's.
	o.DisableRetry = true
	// The cache needs CLIENT TRACKING, and nothing here is cached. The connector turns tracking on
	// for watches: a server that refuses it is still of use.
	o.DisableCache = true
	// CLIENT SETINFO is not known before Redis 7.2.
	o.ClientSetInfo = rueidis.DisableClientSetInfo
	o.RingScaleEachConn = ringScale
	o.ReadBufferEachConn = bufferSize
	o.WriteBufferEachConn = bufferSize
	o.Dialer.KeepAlive = silenceGap
	o.ConnWriteTimeout = probeTimeout
	o.Dialer.Timeout = dialTimeout
	// Not set: ConnLifetime, because it sends commands that are under way once more. MaxFlushDelay,
	// because the pipeline groups the operations.
}
