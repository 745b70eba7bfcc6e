// Package script holds the Lua scripts that run on the masters and the Go half of each one's
// contract: the order of KEYS and ARGV, and the meaning of the reply. The Lua files are the other
// half; each begins with the same contract.
//
// The scripts run on Redis 6.2 and later, and on Valkey: no shebang, no bit, struct or cmsgpack,
// every key that is touched is in KEYS, and nothing depends on the text of an error.
package script

import "embed"

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
	Acquire = load("acquire", "d86a94d4ca3020bb6a8aed56b5ae81b9f5f30866")
	// Extend lets sets of keys that still hold their tokens last for the TTL from now on, or
	// longer, and sets missing keys again.
	Extend = load("extend", "6c2d9b2630a8bbac44974c24bf653affba1579be")
	// Release deletes the keys that still hold their tokens.
	Release = load("release", "5d425a2cacc4efa746307aa32860fcf21e96f168")
	// Keep turns the values of one set into those of kept keys, or deletes both.
	Keep = load("keep", "5c5e016c08276dc67a2c6169ac25ea6431d814c2")
	// Adopt takes one set of keys that are kept.
	Adopt = load("adopt", "92d5c648ab4a029628955885c1feaf0de3dc788e")
	// Fences reads the highest numbers that a node knows. It takes no sets.
	Fences = load("fences", "c2a930d59160ed97fd46238b18cc9f6259cf1daa")
	// Guard writes the key of the restart guard, if it still is what the client has read. It takes
	// no sets.
	Guard = load("guard", "8ba44ed4553ee2dc53e0d8b5e0de983d195c8c5d")
	// Probe runs each command that locks need, changes nothing, and returns the errors. It takes no
	// sets.
	Probe = load("probe", "29eb3876170da060d56871469f7b680c06bda026")
	// Layouts leaves which layout a client uses, and returns the others in use. It takes no sets.
	Layouts = load("layouts", "7712f1eaa43836fa1703e77a5483ef83df6a9555")
	// Line gets or renews the place of a client in the line for a key. It takes no sets.
	Line = load("line", "aea2c83b3c2f31db325fc1609d689aab6510a49e")
	// Leave ends such a place, and tells the next client. It takes no sets.
	Leave = load("leave", "85d5a1af16df5ef3c217f2ced789d66788e52eb5")
)

// All lists every script, for loading them at once.
func All() []*Script {
	return []*Script{
		Acquire, Extend, Release, Keep, Adopt, Fences, Guard, Probe, Layouts, Line, Leave,
	}
}

// takesOneSet reports whether a call has one set alone.
func (s *Script) takesOneSet() bool { return s == Keep || s == Adopt }

// hasTTL reports whether ARGV has a TTL.
func (s *Script) hasTTL() bool { return s != Release }

// load returns the script in the file of this name. sha is computed by a test, not here: Go's
// FIPS 140 mode refuses SHA-1.
func load(name, sha string) *Script {
	source, err := sources.ReadFile(name + ".lua")
	if err != nil {
		panic(err) // no such file, which the first test notices
	}
	return &Script{Name: name, Source: string(source), SHA: sha}
}
