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
func (m Mode) String() string { return NameOf("GuardMode", m, "auto", "strict", "off") }

// NameOf returns the name of a value, of those from 0 on; of another value its type and number.
func NameOf[T ~int](typ string, value T, names ...string) string {
	if value < 0 || int(value) >= len(names) {
		return fmt.Sprintf("%s(%d)", typ, int(value))
	}
	return names[value]
}
