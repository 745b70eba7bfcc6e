package endpoint

import "context"

// Masters finds out which server is the master of one node, if others name it: sentinels, or the
// servers of a Redis Cluster. All methods are safe for concurrent use.
type Masters interface {
	// Run starts the goroutines. They end with ctx, and wait returns when they have ended.
	Run(ctx context.Context) (wait func())
	// FindMaster asks, and returns the address of the master.
	FindMaster(ctx context.Context) (string, error)
	// StartUsing is called by the owner before it connects to the master. The context that it
	// returns ends when another server becomes the master.
	StartUsing(ctx context.Context, master string) (context.Context, context.CancelCauseFunc)
	// UsedMaster returns the master that the owner connects to.
	UsedMaster() string
	// WhyLeave returns why a connection to a server must be left; nil if it may stay.
	WhyLeave(address string) error
	// Confirmed reports whether the server in use may be asked for votes now.
	Confirmed() bool
}
