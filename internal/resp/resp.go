// Package resp knows RESP, the protocol of Redis. It writes commands, reads replies within limits,
// parses INFO, and checks what a server sends to a client that trusts it.
package resp

import (
	"cmp"
	"strconv"
	"strings"
)

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

// rejections are the first words of errors that a server gives before it executes anything of a
// command. All of them depend on a state of the server that does not change while a script runs, so
// a script that meets one has written nothing.
var rejections = map[string]bool{
	"READONLY": true, "OOM": true, "MISCONF": true, "NOREPLICAS": true, "MASTERDOWN": true,
	"BUSY": true, "LOADING": true, "NOAUTH": true, "NOPERM": true, "NOSCRIPT": true,
	"CLUSTERDOWN": true, "MOVED": true, "TRYAGAIN": true, "ASK": true,
}

// Rejected reports whether an error with this first word says that the server has executed nothing
// of the command.
func Rejected(code string) bool { return rejections[code] }
