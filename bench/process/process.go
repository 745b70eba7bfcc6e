// Package process reports what this process uses of the machine, and sleeps precisely. It is for
// programs that measure themselves.
package process
