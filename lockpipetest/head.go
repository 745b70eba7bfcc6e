package lockpipetest

import (
	"bytes"
	"sync"
)

// headLimit is how much of a child's output is kept. The reason why a server does not start is
// among the first lines.
const headLimit = 4 << 10

// head keeps the beginning of what is written to it and swallows the rest, so that a talkative
// child neither blocks nor grows it.
type head struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf.Write(p[:min(len(p), headLimit-h.buf.Len())])
	return len(p), nil
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(bytes.TrimSpace(h.buf.Bytes()))
}
