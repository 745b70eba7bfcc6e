package main

import (
	"encoding/json"
	"slices"
	"sync"
	"time"
)

const (
	maxPages = 32                          // that may watch
	kept     = int(time.Minute / interval) // samples for a page that opens
)

// hub gives samples to the pages that watch. A page that is slow misses some. All methods are safe
// for concurrent use.
type hub struct {
	mu    sync.Mutex
	last  [][]byte // JSON, of the last minute
	pages map[chan []byte]bool
}

func newHub() *hub { return &hub{pages: make(map[chan []byte]bool)} }

// publish gives a sample to each page.
func (h *hub) publish(s sample) {
	text, err := json.Marshal(s)
	if err != nil {
		return // a sample has nothing that JSON can't say
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = append(h.last[max(0, len(h.last)-kept+1):], text)
	for page := range h.pages {
		offer(page, text)
	}
}

// offer puts a text in place of one that nobody has read.
func offer(page chan []byte, text []byte) {
	select {
	case <-page:
	default:
	}
	page <- text // there is room: only the hub sends, and it has its mutex
}

// join returns the samples of the last minute, and a channel with those that come. It returns false
// if too many pages watch. The caller ends it with leave.
func (h *hub) join() (before [][]byte, page chan []byte, joined bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.pages) >= maxPages {
		return nil, nil, false
	}
	page = make(chan []byte, 1)
	h.pages[page] = true
	return slices.Clone(h.last), page, true
}

func (h *hub) leave(page chan []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.pages, page)
}
