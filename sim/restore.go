package sim

import (
	"fmt"
	"strings"
	"time"
)

// copyDisks makes copies of the data of durable nodes.
func (r *run) copyDisks() {
	for r.plan.restores && r.sleep(500*time.Millisecond) {
		for _, n := range r.nodes[:r.plan.durableNodes] {
			n.MakeCopy()
		}
	}
}

// restoreNodes lets some durable nodes restart, each with its data or with a copy of any age.
func (m *nemesis) restoreNodes() string {
	text := []string{"restart"}
	for _, i := range m.rng.Perm(m.run.plan.durableNodes) {
		n := m.run.nodes[i]
		copies := n.CopiesBefore(time.Now())
		switch m.rng.IntN(4) {
		case 0:
		case 1:
			n.Restart()
			text = append(text, fmt.Sprint(i))
		default:
			if len(copies) > 0 {
				c := copies[m.rng.IntN(len(copies))]
				n.Restore(c)
				text = append(text, fmt.Sprint(i, " with a copy of ", time.Since(c.At)))
			}
		}
	}
	return strings.Join(text, " ")
}
