// Package lockpipetest starts independent Redis masters for tests, benchmarks and demonstrations,
// and breaks them on request: a node can be frozen, thawed, killed, restarted empty and flushed.
//
// With a redis-server on the PATH every node is a real child process. Without one the nodes are
// miniredis servers inside this process, which know most commands a lock needs but are much slower,
// answer no INFO server, and know neither CONFIG nor DEBUG nor CLIENT TRACKING. [Nodes.Backend]
// says which it is. Both serve TCP on 127.0.0.1, on a port of their own, so that any Redis client
// can be pointed at them.
//
// Nothing is left behind. Nodes keep nothing on disk: persistence is off and no temporary directory
// is made. On Linux the kernel kills the children when this process ends, however it ends;
// elsewhere a process that is killed before [Nodes.Close] leaves them running. A test that wants a
// durable node gives it a directory first, with CONFIG SET dir, and removes that directory itself.
//
// [StartReplicatedT] starts a master with a replica and three Sentinels, for tests of a failover.
// Only the sentinels use a directory, which the test removes at its end. If the test is killed, the
// directory stays.
//
// In a test:
//
//	func TestTransfer(t *testing.T) {
//		nodes := lockpipetest.StartT(t, 5)
//		client, err := lockpipe.New(lockpipe.Config{Nodes: nodes.URLs()})
//		...
//		require.NoError(t, nodes.Kill(0)) // a minority may fail
//	}
package lockpipetest
