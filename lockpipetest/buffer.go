package lockpipetest

import (
	"bytes"
	"sync"
)

// outputLimit is how much of a child's output is kept. If a server does not start, the first lines
// say why.
const outputLimit = 4 << 10

// cappedBuffer keeps the beginning of what is written to it and drops the rest. So a child that
// prints a lot neither blocks nor fills the memory.
type cappedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (h *cappedBuffer) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf.Write(p[:min(len(p), outputLimit-h.buf.Len())])
	return len(p), nil
}

func (h *cappedBuffer) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(bytes.TrimSpace(h.buf.Bytes()))
}
