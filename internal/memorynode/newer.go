package memorynode

import (
	"slices"
	"strconv"
)

// setTogether makes the reply to MSETEX, whose arguments are the number of keys, each key and its
// value, NX or XX, PX and the TTL. It sets all keys, or none. It does not look whether a key is
// there twice, as servers do not.
func (s *Session) setTogether(args []string) {
	args = args[1:]
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 1 {
		s.fail("ERR invalid numkeys value or out of range")
		return
	}
	if len(args) != 1+2*n+3 || args[2*n+2] != "PX" {
		s.fail(noSyntax)
		return
	}
	ttl, _ := strconv.ParseInt(args[2*n+3], 10, 64)
	mustExist := args[2*n+1] == "XX"
	for pair := range slices.Chunk(args[1:1+2*n], 2) {
		if _, ok := s.node.entry(pair[0]); ok != mustExist {
			s.number(0)
			return
		}
	}
	for pair := range slices.Chunk(args[1:1+2*n], 2) {
		s.node.set(pair[0], pair[1], ttl)
	}
	s.number(1)
}

// delIfEqual makes the reply to DELIFEQ, which deletes a key if it has this value.
func (s *Session) delIfEqual(args []string) {
	key, value := args[1], args[2]
	s.node.reportRelease(key, value)
	if now, ok := s.node.get(key); !ok || now != value {
		s.number(0)
		return
	}
	s.node.del(key)
	s.number(1)
}
