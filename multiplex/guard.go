package multiplex

import "github.com/lockpipe/lockpipe/internal/guard"

// GuardMode is what the restart guard does.
type GuardMode = guard.Mode

// The modes of the restart guard: see guard.Mode.
const (
	GuardAuto   = guard.Auto
	GuardStrict = guard.Strict
	GuardOff    = guard.Off
)
