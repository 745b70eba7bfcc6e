package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// browser is a headless Chromium with one page. It speaks the DevTools protocol over pipes: JSON,
// with a zero byte after each message.
type browser struct {
	*testing.T
	in      io.Writer
	out     *bufio.Reader
	session string // of the page
	calls   int
}

// openPage starts a Chromium that shows a page, or skips the test if there is none.
func openPage(t *testing.T, url string) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("-short does not test the page in Chromium")
	}
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: Chromium gets its pipes as inherited files, which Windows lacks")
	}
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && program == "" {
			program = path
		}
	}
	if program == "" {
		t.Skip("SKIPPED: no chromium on the PATH: apt-get install --no-install-recommends chromium")
	}
	fromTest, in, err := os.Pipe()
	require.NoError(t, err)
	out, toTest, err := os.Pipe()
	require.NoError(t, err)
	arguments := []string{
		"--headless", "--remote-debugging-pipe", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-dev-shm-usage", "--user-data-dir=" + t.TempDir(), "about:blank",
	}
	if os.Geteuid() == 0 {
		arguments = append([]string{"--no-sandbox"}, arguments...)
	}
	cmd := exec.Command(program, arguments...)
	cmd.ExtraFiles = []*os.File{fromTest, toTest} // its files 3 and 4
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close() // the browser ends with its pipe
		_ = cmd.Wait()
		_ = out.Close()
	})
	require.NoError(t, fromTest.Close())
	require.NoError(t, toTest.Close())
	b := &browser{T: t, in: in, out: bufio.NewReader(out)}
	target := b.call("Target.createTarget", map[string]any{"url": "about:blank"})["targetId"]
	b.session = b.call("Target.attachToTarget",
		map[string]any{"targetId": target, "flatten": true})["sessionId"].(string)
	b.call("Page.navigate", map[string]any{"url": url}) // returns when the page is the new one
	return b
}

// call calls a method of the protocol and returns its result.
func (b *browser) call(method string, params map[string]any) map[string]any {
	b.Helper()
	b.calls++
	request := map[string]any{"id": b.calls, "method": method, "params": params}
	if b.session != "" {
		request["sessionId"] = b.session
	}
	text, err := json.Marshal(request)
	require.NoError(b, err)
	_, err = b.in.Write(append(text, 0))
	require.NoError(b, err)
	for {
		text, err := b.out.ReadBytes(0)
		require.NoError(b, err)
		var reply struct {
			ID     int            `json:"id"`
			Result map[string]any `json:"result"`
			Error  any            `json:"error"`
		}
		require.NoError(b, json.Unmarshal(text[:len(text)-1], &reply))
		if reply.ID == b.calls { // the others are events
			require.Nil(b, reply.Error, "%s", text)
			return reply.Result
		}
	}
}

// run runs a script in the page and returns its value.
func (b *browser) run(script string) any {
	b.Helper()
	reply := b.call("Runtime.evaluate", map[string]any{
		"expression": script, "awaitPromise": true, "returnByValue": true, "userGesture": true,
	})
	require.NotContains(b, reply, "exceptionDetails", script)
	return reply["result"].(map[string]any)["value"]
}

// await returns when a condition, which is a script, is true in the page.
func (b *browser) await(condition string) {
	b.Helper()
	b.run("new Promise((done) => { const look = () => (" + condition +
		") ? done(true) : setTimeout(look, 10); look(); })")
}
