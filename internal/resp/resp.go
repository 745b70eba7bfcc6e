// Package resp knows RESP, the protocol of Redis. It writes commands, reads replies within limits,
// parses INFO, and checks what a server sends to a client that trusts it.
package resp

import (
	"cmp"
	"errors"
	"strconv"
	"strings"
)

// Value is one reply in RESP2.
type Value struct {
	Kind  byte    // + - : $ or *
	Text  string  // of all kinds but an array
	Null  bool    // only of kind $ or *
	Items []Value // of an array
}

// Err returns the error that the server replied with, or nil.
func (v Value) Err() error {
	if v.Kind != '-' {
		return nil
	}
	return errors.New(v.Text)
}

// AsString returns the text of a string. ok is false for null and for other kinds.
func (v Value) AsString() (text string, ok bool) {
	return v.Text, !v.Null && (v.Kind == '$' || v.Kind == '+')
}

// Any returns the value in Go's types: a string, an int64, nil, an error (for an error that the
// server replied with), or a []any of these.
func (v Value) Any() any {
	switch {
	case v.Null:
		return nil
	case v.Kind == '-':
		return v.Err()
	case v.Kind == ':':
		n, _ := strconv.ParseInt(v.Text, 10, 64) // the Reader has checked it
		return n
	case v.Kind == '*':
		items := make([]any, len(v.Items))
		for i, item := range v.Items {
			items[i] = item.Any()
		}
		return items
	}
	return v.Text
}

// AppendCommand appends one command as clients send it.
func AppendCommand(dst []byte, args ...string) []byte {
	dst = AppendHeader(dst, '*', len(args))
	for _, a := range args {
		dst = AppendBulk(dst, a)
	}
	return dst
}

// AppendBulk appends a string of any bytes, as commands and replies have it.
func AppendBulk(dst []byte, text string) []byte {
	dst = append(AppendHeader(dst, '$', len(text)), text...)
	return append(dst, "\r\n"...)
}

// AppendHeader appends the line that begins a value of this kind and length: an array ('*') of n
// values, or a string ('$') of n bytes.
func AppendHeader(dst []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(dst, kind), int64(n), 10), "\r\n"...)
}

// ServerMode returns what the fields of INFO say that a server is: standalone, cluster or sentinel.
// Redis and Valkey have a field of different names for that.
func ServerMode(fields map[string]string) string {
	return cmp.Or(fields["redis_mode"], fields["server_mode"], fields["redict_mode"])
}

// ParseInfo returns the fields of a reply to INFO. It ignores headings and other lines.
func ParseInfo(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}
