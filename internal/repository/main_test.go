// Package repository checks the repository itself: its architecture, its recorded API, its
// documents and its deployment files. It has tests only.
package repository

import (
	"fmt"
	"os"
	"testing"
)

// TestMain makes every path in the checks one from the repository's root.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
