// Package lockpipetest starts independent Redis masters, the nodes, for tests, benchmarks and
// demonstrations. It breaks them on request: a node can be frozen, thawed, killed, restarted empty
// and flushed.
//
// With a redis-server on the PATH every node is a real child process. Without one the nodes are in
// the memory of this process. These know the commands and scripts of lockpipe, redsync and
// redislock, and what other Redlock clients send, in RESP2 and RESP3. They answer everything else
// with an error that says so. LOCKPIPE_REDIS_SERVER names another program, by path or by name, such
// as valkey-server. [Nodes.Backend] returns which kind it is. Both serve TCP on 127.0.0.1, each on
// a port of its own.
//
// Nothing is left behind. Nodes keep nothing on disk: persistence is off and no temporary directory
// is made. On Linux the kernel kills the children when this process ends, however it ends. On other
// systems a process that is killed before [Nodes.Close] leaves them running. A test that wants a
// node with a disk first gives it a directory with CONFIG SET dir, and removes that directory
// itself.
//
// [StartReplicatedT] starts a master with a replica and three Sentinels, for tests of a failover.
// [StartCluster] starts a Redis Cluster, for tests of failovers, moves of slots and partitions.
// Only sentinels and clusters use a directory, which the test removes at its end. If the test is
// killed, the directory stays.
//
// In a test:
//
//	func TestTransfer(t *testing.T) {
//		nodes := lockpipetest.StartT(t, 5)
//		client, err := lockpipe.New(lockpipe.Config{Nodes: nodes.URLs()})
//		...
//		require.NoError(t, client.Ready(t.Context())) // new nodes vote once all have answered
//		require.NoError(t, nodes.Kill(0))             // now a minority may fail
//	}
//
// Close the client before its nodes, as by t.Cleanup after [StartT]. A busy test machine is slow:
// set Config.NodeTimeout to seconds. [StartT] says how a missing redis-server becomes a failure.
//
// For unit tests, which need locks but no servers, package lockpipetest/fake has a Client in one
// line.
//
// # Goroutine leaks
//
// After Client.Close only callbacks that still run are left. But a dependency of lockpipe, ants,
// starts two goroutines when it is imported. With goleak:
//
//	goleak.VerifyTestMain(m,
//		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
//		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"))
package lockpipetest
