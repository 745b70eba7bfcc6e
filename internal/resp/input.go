package resp

import "io"

// readSize is how much is read at once: the replies of some thousand commands.
const readSize = 32 << 10

// Input is what has come on a connection, and was not used yet. It is for one goroutine.
type Input struct {
	Scanner
	memory   []byte
	from, to int // of memory
}

// NewInput returns an empty Input of values within the limits.
func NewInput(limits Limits) Input { return Input{Scanner: NewScanner(limits)} }

// Bytes returns what was not used yet. It is valid until Fill.
func (in *Input) Bytes() []byte { return in.memory[in.from:in.to] }

// Use says that the first bytes were used.
func (in *Input) Use(n int) { in.from += n }

// Fill reads once from a connection, and returns how much came. It comes only behind a value that
// is not whole, so the limits are those of the memory too.
func (in *Input) Fill(conn io.Reader) (n int, err error) {
	if unused := in.Bytes(); in.from > 0 {
		in.from, in.to = 0, copy(in.memory, unused)
	}
	switch {
	case in.to == len(in.memory):
		in.memory = append(in.memory, make([]byte, max(readSize, in.to))...)
	case in.to == 0 && len(in.memory) > readSize:
		in.memory = make([]byte, readSize)
	}
	n, err = conn.Read(in.memory[in.to:])
	in.to += n
	return n, err
}
