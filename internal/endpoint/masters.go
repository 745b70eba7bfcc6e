package endpoint

import "context"

// Masters finds out which server is the master of one node, if others name it: sentinels, or the
// servers of a Redis Cluster. All methods are safe for concurrent use.
type Masters interface {
	// Run starts the goroutines. They end with ctx, and wait returns when they have ended.
	Run(ctx context.Context) (wait func())
	// FindMaster asks, and returns the address of the master, which the owner uses next. leave is
	// called when a connection to that server must not be made or used any more, with the reason.
	FindMaster(ctx context.Context, leave context.CancelCauseFunc) (string, error)
	// Confirmed reports whether the server in use may be asked for votes now.
	Confirmed() bool
}
