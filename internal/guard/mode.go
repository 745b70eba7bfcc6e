package guard

import "fmt"

// Mode is what the restart guard does.
type Mode int

const (
	// Auto: all six rules. A server that shows no run_id is admitted with a warning.
	Auto Mode = iota
	// Strict: all rules but the first use, so new nodes wait too. A server that shows no run_id is
	// refused.
	Strict
	// Off: every server votes at once. The guard's key is neither read nor written.
	Off
)

// String returns the mode as one lower-case word.
func (m Mode) String() string {
	names := [...]string{"auto", "strict", "off"}
	if m < 0 || int(m) >= len(names) {
		return fmt.Sprintf("GuardMode(%d)", int(m))
	}
	return names[m]
}
