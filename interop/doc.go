// Package interop has tests only: that other Redlock clients, on the same keys of the same masters,
// exclude lockpipe and are excluded by it. They are redsync, over go-redis and over rueidis, and
// redlock for node, of which both lines are in use: 4.2 and 5.0 beta. On a single master they are
// also redislock and rueidislock, which know no more.
//
// redlock needs node and the packages in package.json; "make interop" installs these and runs
// everything. Without them its tests are skipped, or fail with LOCKPIPE_REQUIRE_NODE=1.
package interop
