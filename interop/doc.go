// Package interop has only tests. They check that lockpipe and other Redlock clients exclude each
// other on the same keys of the same masters. The others are redsync, over go-redis and over
// rueidis, and redlock for Node.js, of which two versions are in use: 4.2 and 5.0 beta. On a single
// master they are also redislock and rueidislock, which support only one.
//
// redlock needs node and the packages in package.json; "make interop" installs these and runs
// everything. Without them its tests are skipped, or fail with LOCKPIPE_REQUIRE_NODE=1.
package interop
