package sentinel

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The goal: the client uses the master of the highest epoch. Of masters of the same epoch it stays
// with the one that it uses, if a sentinel still names that. So clients that agreed do not come to
// use two masters as one node. All of that is so in whatever order the sentinels are listed.
func TestSentinels_TheNewestMasterDoesNotDependOnTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = time.Minute
		time.Sleep(time.Hour)
		fresh, stale := time.Now(), time.Now().Add(-ttl-1)
		failed := errors.New("connection refused")
		for name, test := range map[string]struct {
			using, want string
			reports     [3]report
		}{
			"a higher epoch": {"old", "new", [3]report{
				{master: "old", epoch: 1}, {master: "new", epoch: 2}, {master: "old", epoch: 1},
			}},
			"a lower epoch": {"new", "new", [3]report{
				{master: "old", epoch: 1}, {master: "new", epoch: 2}, {master: "old", epoch: 1},
			}},
			"the highest of three": {"a", "c", [3]report{
				{master: "a", epoch: 1}, {master: "b", epoch: 2}, {master: "c", epoch: 3},
			}},
			"the same epoch, and one stays": {"old", "old", [3]report{
				{master: "new", epoch: 7}, {master: "old", epoch: 7}, {master: "new", epoch: 7},
			}},
			"no epochs, and one stays": {"old", "old", [3]report{
				{master: "new"}, {master: "old"}, {master: "new"},
			}},
			"the same epoch, and none stays": {"old", "new", [3]report{
				{master: "new", epoch: 7}, {master: "new", epoch: 7}, {},
			}},
			"one that failed lately counts": {"old", "new", [3]report{
				{master: "old", epoch: 1}, {master: "new", epoch: 2, err: failed}, {},
			}},
			"one that failed long ago does not": {"new", "old", [3]report{
				{master: "old", epoch: 1},
				{},
				{master: "new", epoch: 2, err: failed, namedAt: stale},
			}},
			"none names any": {"old", "", [3]report{}},
		} {
			for _, order := range [][3]int{
				{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0},
			} {
				all := &Sentinels{reportTTL: ttl, using: test.using}
				for _, i := range order {
					r := test.reports[i]
					if r.namedAt.IsZero() {
						r.namedAt = fresh
					}
					all.reports = append(all.reports, r)
				}
				require.Equal(t, test.want, all.newest(), "%s: %v", name, order)
			}
		}
	})
}
