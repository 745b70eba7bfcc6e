package ids

import (
	"os"
	"strconv"
)

// MaxOwner is the most bytes of an owner. Each of them goes to each node with each lock, and twice
// if the lock is released. The name of a host on Linux, 64 bytes at most, and a process id fit.
const MaxOwner = 80

// OwnerFlaw returns what is wrong with an owner that is not empty; "" if nothing is. Each byte is a
// visible character of ASCII. So an owner fits into any log line, and is one word there.
func OwnerFlaw(owner string) string {
	if len(owner) > MaxOwner {
		return "is longer than " + strconv.Itoa(MaxOwner) + " bytes"
	}
	for i := range len(owner) {
		if owner[i] <= ' ' || owner[i] > '~' {
			return "has a character that is no ASCII letter, digit or punctuation"
		}
	}
	return ""
}

// ThisProcess returns the owner that stands for this process: the name of its host, and its id. If
// the host has no name that an owner can have, it is "?".
func ThisProcess() string {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return ofProcess(host, os.Getpid())
}

func ofProcess(host string, pid int) string {
	id := ":" + strconv.Itoa(pid)
	if host == "" || OwnerFlaw(host+id) != "" {
		return "?" + id
	}
	return host + id
}
