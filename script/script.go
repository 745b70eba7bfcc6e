// Package script holds the Lua scripts that run on the masters and the Go half of each one's
// contract: the order of KEYS and ARGV, and the meaning of the reply. The Lua files are the other
// half; each begins with the same contract.
//
// The scripts run on Redis 6.2 and later, and on Valkey: no shebang, no bit, struct or cmsgpack,
// every key that is touched is in KEYS, and nothing depends on the text of an error.
package script

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
)

// Script is one Lua script. It is immutable after package initialisation.
type Script struct {
	// Name is the file's name without its ending.
	Name string
	// Source is the text for SCRIPT LOAD.
	Source string
	// SHA is the SHA-1 of Source in lower-case hexadecimal: the name by which EVALSHA calls it.
	SHA string
}

//go:embed *.lua
var sources embed.FS

var (
	// Acquire takes sets of keys, each as a whole or not at all.
	Acquire = load("acquire")
	// AcquireAny takes one key of each set: the first that is free.
	AcquireAny = load("acquire_any")
	// Extend lets sets of keys that still hold their tokens last for the TTL from now on, or
	// longer, and sets missing keys again.
	Extend = load("extend")
	// Release deletes the keys that still hold their tokens.
	Release = load("release")
	// AcquireFenced is Acquire of sets with a Fence.
	AcquireFenced = load("acquire_fenced")
	// RaiseFence raises the fence keys of sets to the numbers of their fences. The sets have fence
	// keys as their Keys, and the number as their Token.
	RaiseFence = load("raise_fence")
	// Guard writes the key of the restart guard, if it still is what the client has read. It takes
	// no sets.
	Guard = load("guard")
	// Layouts leaves which layout a client uses, and returns the others in use. It takes no sets.
	Layouts = load("layouts")
)

// All lists every script, for loading them at once.
func All() []*Script {
	return []*Script{
		Acquire, AcquireAny, Extend, Release, AcquireFenced, RaiseFence, Guard, Layouts,
	}
}

// MaxSet is the most keys of a set that one call takes.
func (s *Script) MaxSet() int {
	if s == AcquireFenced {
		return MaxKeys / 2 // KEYS has a fence key for each
	}
	return MaxKeys
}

// hasTTL reports whether ARGV has a TTL.
func (s *Script) hasTTL() bool { return s != Release && s != RaiseFence }

// load returns the script in the file of this name.
func load(name string) *Script {
	source, err := sources.ReadFile(name + ".lua")
	if err != nil {
		panic(err) // no such file, which the first test notices
	}
	// EVALSHA names a script by its SHA-1; nothing is protected with it.
	sum := sha1.Sum(source)
	return &Script{Name: name, Source: string(source), SHA: hex.EncodeToString(sum[:])}
}
