//go:build !linux

package main

import "time"

// alarm is a timer of the runtime here.
type alarm struct{}

func newAlarm() (*alarm, error) { return &alarm{}, nil }

func (a *alarm) sleep(d time.Duration) { time.Sleep(d) }

func (a *alarm) close() {}
