package sim

import (
	"os"
	"runtime/debug"
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

func TestRep(t *testing.T) {
	if os.Getenv("NOGC") != "" {
		debug.SetGCPercent(-1)
	}
	same := 0
	for s := range 30 {
		a, b := Run(t, uint64(s), Mix{}), Run(t, uint64(s), Mix{})
		if a.Hash == b.Hash {
			same++
		}
	}
	t.Log(same, "of 30")
}
