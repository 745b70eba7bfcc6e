// Package fake gives unit tests a Client that is ready in a millisecond or two, needs no server and
// no socket, and fails on request. It is no second implementation: a real [lockpipe.Client] talks
// to three nodes in memory, and all that it does is real.
//
// A service says which calls it needs, as an interface of its own. A *lockpipe.Client has them in
// production, and a *Client of this package in tests:
//
//	type Locker interface {
//		AcquireAll(ctx context.Context, keys []string, opts ...lockpipe.Option) (
//			*lockpipe.Lease, error)
//	}
//
//	func TestReserve_FailsWhileAnotherHoldsTheProduct(t *testing.T) {
//		locks := fake.NewClient(t)
//		locks.Hold("sku:42")
//		err := shop.New(locks).Reserve(ctx, "sku:42")
//		...
//	}
//
// [Client.Hold] is for what a service does when another holds a key, [Client.Lose] and
// [Client.Expire] for a lease that ends during the work, and [Client.StopVotes] for nodes that do
// not vote. Code that takes a *lockpipe.Client gets the field Client of the fake.
//
// A Client also works in a bubble of testing/synctest, if NewClient is called in it, with the t of
// the bubble. There time costs nothing: a test can wait for the end of a TTL or of a context.
//
// The nodes vote at once, and survive: for nodes that are killed, frozen or restarted use package
// lockpipetest.
package fake
