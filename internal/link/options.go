package link

import (
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/redis/rueidis"
)

// What a connection can bear, and how long it may be silent.
const (
	// MaxTrips is the most trips under way on one connection.
	MaxTrips = 4
	// rueidis' ring and buffers are for its own commands and the connector's: trips pass them by.
	ringScale  = 6 // a ring of 2^6 = 64
	bufferSize = 4 << 10
	// A connection on which nothing came for SilenceGap is probed with a PING. It is given up when
	// nothing has come for ProbeTimeout more. So a node that hangs under load is noticed after 1.5
	// to 2 seconds. Callers do not wait for that, since each attempt has its own timeout. And a
	// server that is busy for a second is not worth a reconnect.
	SilenceGap   = 500 * time.Millisecond
	ProbeTimeout = time.Second
)

// clientOption returns how rueidis behaves. All of it is here. rueidis does not hear of sentinels:
// it would keep connections of its own to them, and the connector finds the master.
func clientOption(e *endpoint.Endpoint) (o rueidis.ClientOption) {
	o.InitAddress = []string{e.Address}
	o.Username, o.Password, o.SelectDB = e.User, e.Password, e.Database
	o.ClientName, o.TLSConfig = e.ClientName, e.TLS
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
	o.Dialer.KeepAlive = -1 // see Conn.keepAlive
	// The connector's context ends sooner than both.
	o.ConnWriteTimeout, o.Dialer.Timeout = e.DialTimeout, e.DialTimeout
	// Not set: ConnLifetime, because it sends commands that are under way once more. MaxFlushDelay,
	// because the log groups the operations.
	return o
}
