package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// recorder is controls that remember what was done.
type recorder struct {
	done chan any
	err  error
}

func (r recorder) setLoad(l load) error {
	if err := l.check(); err != nil {
		return err
	}
	r.done <- l
	return r.err
}

func (r recorder) breakNode(i int, action string) error {
	r.done <- []any{i, action}
	return r.err
}

func (r recorder) pauseHolder() error {
	r.done <- "pause"
	return r.err
}

// startPage serves a page whose buttons only report.
func startPage(t *testing.T) (*httptest.Server, *hub, recorder) {
	t.Helper()
	h, r := newHub(), recorder{done: make(chan any, 10)}
	page, err := handler(h, r)
	require.NoError(t, err)
	server := httptest.NewServer(page)
	t.Cleanup(func() {
		server.CloseClientConnections() // streams do not end otherwise
		server.Close()
	})
	return server, h, r
}

// send sends an action and returns the status and the text of the answer.
func send(t *testing.T, url, body string, change func(*http.Request)) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url,
		strings.NewReader(body))
	require.NoError(t, err)
	if change != nil {
		change(request)
	}
	reply, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer reply.Body.Close()
	all, err := io.ReadAll(reply.Body)
	require.NoError(t, err)
	return reply.StatusCode, strings.TrimSpace(string(all))
}

// The goal: each action does what its path says.
func TestActions_AreCarriedOut(t *testing.T) {
	server, _, r := startPage(t)
	for _, c := range []struct {
		path, body string
		want       any
	}{
		{"/load", `{"callers": 128, "outsideMs": 50, "products": "zipf"}`, load{128, 50, zipf}},
		{"/nodes/2/kill", "", []any{1, "kill"}},
		{"/holder", "", "pause"},
	} {
		status, text := send(t, server.URL+c.path, c.body, nil)
		require.Equal(t, http.StatusNoContent, status, text)
		require.Equal(t, c.want, <-r.done)
	}
}

// The goal: bad input changes nothing, and the answer says what is wrong.
func TestActions_BadInputIsRefused(t *testing.T) {
	server, _, r := startPage(t)
	for _, c := range []struct {
		path, body string
		status     int
		text       string
	}{
		{"/load", `{"callers": 1000}`, 409, "callers is 1000: choose one of [0 16 64 128 256]"},
		{"/load", `{"outsideMs": -1}`, 409, "outsideMs is -1: choose one of [0 5 50]"},
		{"/load", `{"products": "all"}`, 409, `products is "all": choose one of ["flash" "zipf"]`},
		{"/load", `{"colour": 1}`, 400, `json: unknown field "colour"`},
		{"/load", `{"products": "` + strings.Repeat("a", maxBody) + `"}`, 400, "http: request body too large"},
		{"/nodes/x/kill", "", 400, `strconv.Atoi: parsing "x": invalid syntax`},
		{"/nothing", "", 405, "Method Not Allowed"},
	} {
		status, text := send(t, server.URL+c.path, c.body, nil)
		require.Equal(t, c.status, status, "%s %s: %s", c.path, c.body, text)
		require.Equal(t, c.text, text)
	}
	require.Empty(t, r.done)
}

// The goal: an action that fails says why.
func TestActions_FailureIsTold(t *testing.T) {
	r := recorder{done: make(chan any, 10), err: errors.New("it is dead")}
	page, err := handler(newHub(), r)
	require.NoError(t, err)
	server := httptest.NewServer(page)
	defer server.Close()
	status, text := send(t, server.URL+"/nodes/1/freeze", "", nil)
	require.Equal(t, http.StatusConflict, status)
	require.Equal(t, "it is dead", text)
}

// The goal: another site can't use the buttons by the user's browser, nor read the stream under a
// name of its own that leads here.
func TestActions_OtherSitesAreRefused(t *testing.T) {
	server, _, r := startPage(t)
	for _, change := range []func(*http.Request){
		func(r *http.Request) { r.Header.Set("Origin", "https://elsewhere.example") },
		func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		func(r *http.Request) { r.Host = "elsewhere.example" },
		func(r *http.Request) { r.Host = "127.0.0.1.elsewhere.example:8095" },
	} {
		for _, path := range []string{"/holder", "/nodes/1/kill", "/load"} {
			status, _ := send(t, server.URL+path, "{}", change)
			require.Equal(t, http.StatusForbidden, status)
		}
	}
	require.Empty(t, r.done)
	for _, path := range []string{"/", "/samples"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path,
			nil)
		require.NoError(t, err)
		request.Host = "elsewhere.example"
		reply, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, reply.Body.Close())
		require.Equal(t, http.StatusForbidden, reply.StatusCode)
	}
}

// The goal: a page gets the samples of the last minute at once, and then each that comes.
func TestStream_SamplesCome(t *testing.T) {
	server, h, _ := startPage(t)
	for at := range int64(kept) {
		h.publish(sample{AtMs: at - int64(kept) + 1})
	}
	h.publish(sample{AtMs: 1})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/samples",
		nil)
	require.NoError(t, err)
	reply, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer reply.Body.Close()
	require.Equal(t, "text/event-stream", reply.Header.Get("Content-Type"))
	lines := bufio.NewScanner(reply.Body)
	for want := 2 - int64(kept); want < 4; want++ {
		require.True(t, lines.Scan())
		text, isData := strings.CutPrefix(lines.Text(), "data: ")
		require.True(t, isData, lines.Text())
		var s sample
		require.NoError(t, json.Unmarshal([]byte(text), &s))
		require.Equal(t, want, s.AtMs)
		require.True(t, lines.Scan())
		require.Empty(t, lines.Text())
		if want > 0 {
			h.publish(sample{AtMs: want + 1})
		}
	}
}

// The goal: a page that reads nothing delays nobody, and gets the newest sample when it reads. The
// number of pages has an end.
func TestHub_SlowPagesMissSamples(t *testing.T) {
	h := newHub()
	_, slow, joined := h.join()
	require.True(t, joined)
	for at := range int64(10) {
		h.publish(sample{AtMs: at})
	}
	require.Contains(t, string(<-slow), `"atMs":9,`)
	for range maxPages - 1 {
		_, _, joined := h.join()
		require.True(t, joined)
	}
	_, _, joined = h.join()
	require.False(t, joined)
	h.leave(slow)
	_, _, joined = h.join()
	assert.True(t, joined)
}

// read reads a sample that the hub has published.
func read(t *testing.T, text []byte) (s sample) {
	t.Helper()
	require.NoError(t, json.Unmarshal(text, &s))
	return s
}
