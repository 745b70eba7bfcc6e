package main

import (
	"context"
	"html"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockpipe/lockpipe/internal/servertest"
	"github.com/stretchr/testify/require"
)

// Every word of a password has this in it.
const secret = "s3cret"

// passwords are as they may be, also with what means something in a URL, a comma and a quote.
var passwords = []string{
	secret, "p@" + secret + ":w/rd%", secret + "?" + secret + "#" + secret,
	`a,` + secret + `"b c`, "1234/" + secret + "@",
}

// forms are the ways in which a password can be written.
func forms(password string) []string {
	return []string{
		password, url.QueryEscape(password), url.PathEscape(password),
		url.UserPassword("", password).String()[1:], html.EscapeString(password),
		strconv.Quote(password),
	}
}

// silent fails if a text has a password, or a word of one.
func silent(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		require.NotContains(t, text, secret)
		for _, p := range passwords {
			for _, form := range forms(p) {
				require.NotContains(t, text, form)
			}
		}
	}
}

// Goal: nothing that loadgen prints, writes or serves has a password in it, in any form: not
// when the command line is wrong, not when the password is, and not when all goes well.
func TestPasswords_AreNeverPrinted(t *testing.T) {
	for _, p := range passwords {
		escaped := url.UserPassword("me", p).String()
		for _, shape := range []string{"redis://me:" + p + "@127.0.0.1:1", "redis://" + escaped +
			"@127.0.0.1:1", "me:" + p + "@127.0.0.1:1"} {
			for _, args := range [][]string{
				{shape},
				{"-inspect", shape},
				{"-inspect=" + shape},
				{"-c", shape},
				{"-" + shape},
				{"-d", shape},
				{"-scenario", "hold", shape},
				{"-inspect", "-nodes", shape + ":x"},
				{"-inspect", "-nodes", shape + "/x"},
				{"-inspect", "-nodes", shape + "?max=1"},
				{"-inspect", "-nodes", "redis://127.0.0.1:1," + shape + ":x"},
				{"-inspect", "-nodes", "reddis://" + shape},
				{"-inspect", "-nodes", "redis://127.0.0.1:1?password=" + p},
				{"-inspect", "-nodes", shape, "-json", "-"},
			} {
				code, stdout, stderr := loadgen(t.Context(), args...)
				require.NotEqual(t, exitSafe, code, args)
				silent(t, stdout, stderr)
			}
		}
	}
}

// Goal: a run with users and passwords shows none of them in its table, JSON, page and metrics,
// also if a node refuses them.
func TestPasswords_AreNeverReported(t *testing.T) {
	nodes := servertest.Start(t, 3)
	var urls []string
	for i, u := range nodes.URLs() {
		p := passwords[i]
		_, err := nodes.Do(i, "ACL", "SETUSER", "me", "on", ">"+p, "~*", "+@all")
		require.NoError(t, err)
		urls = append(urls, strings.Replace(u, "://", "://"+url.UserPassword("me", p).String()+"@",
			1))
	}
	code, stdout, stderr := loadgen(t.Context(), "-nodes", strings.Join(urls, ","), "-c", "4", "-d",
		"100ms")
	require.Equal(t, exitSafe, code, stderr)
	silent(t, stdout, stderr)
	_, err := nodes.Do(2, "ACL", "SETUSER", "me", "resetpass", ">another")
	require.NoError(t, err)
	dir := t.TempDir()
	json, page := filepath.Join(dir, "json"), filepath.Join(dir, "html")
	address := freeAddress(t)
	printed := make(chan string, 1)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	go func() {
		_, stdout, stderr := loadgen(ctx, "-nodes", strings.Join(urls, ","), "-c", "4", "-d", "1h",
			"-json", json, "-html", page, "-metrics", address)
		printed <- stdout + stderr
	}()
	var metrics string
	require.Eventually(t, func() bool {
		metrics = text("http://" + address + "/metrics")
		return strings.Contains(metrics, "lockpipe_node_state") && calling.MatchString(metrics)
	}, 30*time.Second, 5*time.Millisecond)
	interrupt()
	stdout = <-printed
	require.Contains(t, stdout, "single")
	for _, file := range []string{json, page} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotEmpty(t, text)
		silent(t, string(text))
	}
	_, found, _ := loadgen(t.Context(), "-inspect", "-nodes", strings.Join(urls, ","))
	require.Contains(t, found, "WRONGPASS")
	silent(t, stdout, metrics, found)
}
