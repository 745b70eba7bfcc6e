package sim

import (
	"os"
	"strconv"
	"testing"
	"time"
)

func TestTry(t *testing.T) {
	from, _ := strconv.Atoi(os.Getenv("FROM"))
	count, _ := strconv.Atoi(os.Getenv("COUNT"))
	began := time.Now()
	var virtual time.Duration
	calls := 0
	for s := from; s < from+count; s++ {
		r := Run(t, uint64(s), Mix{})
		virtual += r.Clients
		calls += r.Calls
		if len(r.Violations) > 0 {
			t.Errorf("seed %d %s", s, r.Plan)
			for i, v := range r.Violations {
				if i < 5 {
					t.Error(v)
				}
			}
		}
	}
	t.Logf("%v real, %v virtual client time, %d calls", time.Since(began), virtual, calls)
}
