package layout

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// maxEntries is the most entries that a node keeps. script.Layouts has the same number.
	maxEntries = 64
	// maxIDs is how long the IDs of an entry can be.
	maxIDs = 64
	// millisDigits is how long a time can be, so that a script can count with it.
	millisDigits = 15
)

// Entry is what the clients that use the same layouts leave on a node.
type Entry struct {
	// IDs are the ID of the client's layout, or those of two, with a comma in between.
	IDs string
	// Millis is when the entry ends, on the server's clock, or how long it lasts.
	Millis int64
}

// Text returns the IDs of a client's layouts as its entry has them.
func Text(ids []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(ids))), ",")
}

// entryPattern matches what script.Layouts takes for an entry.
var entryPattern = regexp.MustCompile(`([0-9A-Za-z,]+)=(\d+)`)

// ParseEntries reads what a node keeps, or the reply of script.Layouts. It leaves out what is not
// of that form.
func ParseEntries(text string) (all []Entry) {
	for _, found := range entryPattern.FindAllStringSubmatch(text, maxEntries) {
		if ms, err := strconv.ParseInt(found[2], 10, 64); err == nil &&
			len(found[1]) <= maxIDs && len(found[2]) <= millisDigits {
			all = append(all, Entry{found[1], ms})
		}
	}
	return all
}

// Foreign reports whether two entries have no ID in common. Clients of foreign entries do not
// exclude each other.
func Foreign(a, b string) bool {
	theirs := strings.Split(b, ",")
	return !slices.ContainsFunc(strings.Split(a, ","), func(id string) bool {
		return id != "" && slices.Contains(theirs, id)
	})
}

// Use is where an entry is in use, and for how long at most.
type Use struct {
	Nodes []string
	Lasts time.Duration
}

// Uses has the entries that are in use, by their IDs.
type Uses map[string]Use

// Add records for how long an entry lasts on a node. It ignores an entry that has ended.
func (u Uses) Add(ids, node string, lasts time.Duration) {
	if lasts > 0 {
		u[ids] = Use{append(u[ids].Nodes, node), max(u[ids].Lasts, lasts)}
	}
}
