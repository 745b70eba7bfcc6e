package main

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"time"
)

//go:embed page
var files embed.FS

const (
	maxBody = 1 << 10
	// writeTimeout is for one sample: a page that reads nothing is left.
	writeTimeout = 10 * time.Second
)

// controls are what the buttons of the page do.
type controls interface {
	setLoad(l load) error
	breakNode(i int, action string) error
	pauseHolder() error
}

// handler serves the page, the stream of samples and the actions. It refuses requests that another
// site makes in the user's browser.
func handler(h *hub, c controls) (http.Handler, error) {
	page, err := fs.Sub(files, "page")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(page))
	mux.HandleFunc("GET /samples", h.stream)
	mux.HandleFunc("POST /load", func(w http.ResponseWriter, r *http.Request) {
		var l load
		body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
		body.DisallowUnknownFields()
		if err := body.Decode(&l); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer(w, c.setLoad(l))
	})
	mux.HandleFunc("POST /nodes/{number}/{action}", func(w http.ResponseWriter,
		r *http.Request,
	) {
		number, err := strconv.Atoi(r.PathValue("number"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer(w, c.breakNode(number-1, r.PathValue("action")))
	})
	mux.HandleFunc("POST /holder", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, c.pauseHolder())
	})
	return guard(http.NewCrossOriginProtection().Handler(mux)), nil
}

// answer says how an action ended.
func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// guard refuses requests by another name than this machine's own: a site whose name leads here
// would count as this one. It also keeps the page to itself.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLocal(r.Host) {
			http.Error(w, fmt.Sprintf("%q is not this machine: use 127.0.0.1", r.Host),
				http.StatusForbidden)
			return
		}
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self';"+
			" connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none';"+
			" frame-ancestors 'none'")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// isLocal returns whether a Host header names this machine, by whatever port.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return host == "127.0.0.1" || host == "localhost"
}

// stream sends samples as server-sent events until the page or the program ends.
func (h *hub) stream(w http.ResponseWriter, r *http.Request) {
	before, page, joined := h.join()
	if !joined {
		http.Error(w, "too many pages watch: close one", http.StatusServiceUnavailable)
		return
	}
	defer h.leave(page)
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	write := func(text []byte) bool {
		if control.SetWriteDeadline(time.Now().Add(writeTimeout)) != nil {
			return false
		}
		_, err := fmt.Fprintf(w, "data: %s\n\n", text)
		return err == nil && control.Flush() == nil
	}
	for _, text := range before {
		if !write(text) {
			return
		}
	}
	for {
		select {
		case <-r.Context().Done():
			return
		case text := <-page:
			if !write(text) {
				return
			}
		}
	}
}
