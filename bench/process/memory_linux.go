package process

import (
	"bytes"
	"os"
	"strconv"
)

// ResidentBytes returns the size of this process's resident set, without that of its children, or 0
// if the system does not report it.
func ResidentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages := bytes.Fields(text) // the whole, the resident ones, ...
	if len(pages) < 2 {
		return 0
	}
	resident, err := strconv.ParseInt(string(pages[1]), 10, 64)
	if err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}
