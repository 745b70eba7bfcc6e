//go:build !linux

package main

import "time"

// preciseTimer is a timer of the runtime here.
type preciseTimer struct{}

func newPreciseTimer() (*preciseTimer, error) { return &preciseTimer{}, nil }

func (t *preciseTimer) sleep(d time.Duration) { time.Sleep(d) }

func (t *preciseTimer) close() {}
