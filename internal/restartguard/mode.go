package restartguard

import "fmt"

// Mode is what the restart guard does. Locks live in the masters' memory, so one that comes
// back without it must not vote until every lock that it may have lost has expired.
type Mode int

const (
	// Auto: a node votes only when a key on it, the marker, shows that it has lost nothing
	// since it was admitted, or when the longest TTL has passed. When no node has a marker and all
	// of them answer, that is taken for the first use, and they are admitted at once. A server that
	// has no run_id to compare is admitted with a warning.
	Auto Mode = iota
	// Strict is Auto without these two exceptions: also before the first use the longest
	// TTL passes, and a server without a run_id is down. Config.OnAdmit may keep nodes out too.
	Strict
	// Off: every server votes at once. The marker is neither read nor written.
	Off
)

// String returns the mode as one lower-case word.
func (g Mode) String() string {
	names := [...]string{"auto", "strict", "off"}
	if g < 0 || int(g) >= len(names) {
		return fmt.Sprintf("GuardMode(%d)", int(g))
	}
	return names[g]
}
