package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"
)

// pair is a delayed connection and the server's side of it.
func pair(t *testing.T, delay time.Duration) (client, server net.Conn) {
	t.Helper()
	near, server := net.Pipe()
	client, err := newDelayed(near, delay)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server
}

// What the server says arrives whole, in order and not before the delay is over; several packets
// are on their way at the same time.
func TestDelay_IsLateButLosesNothing(t *testing.T) {
	const delay, packets = 30 * time.Millisecond, 10
	client, server := pair(t, delay)
	begin := time.Now()
	var want bytes.Buffer
	for i := range packets {
		text := bytes.Repeat([]byte{byte('a' + i)}, 1000)
		want.Write(text)
		if _, err := server.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if written := time.Since(begin); written > packets*delay/2 {
		t.Logf("it took %v to write: this machine is too busy to tell whether packets wait for "+
			"each other", written)
	}
	got := make([]byte, want.Len())
	if _, err := io.ReadFull(client, got[:1]); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < delay {
		t.Errorf("the first byte came after %v, before the delay of %v was over", took, delay)
	}
	if _, err := io.ReadFull(client, got[1:]); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want.Bytes()) {
		t.Error("what arrived is not what was said")
	}
}

// The end of the connection comes after what the server said before, and a later Read returns it
// again.
func TestDelay_EndsAfterTheLastBytes(t *testing.T) {
	client, server := pair(t, time.Millisecond)
	if _, err := server.Write([]byte("last")); err != nil {
		t.Fatal(err)
	}
	_ = server.Close()
	if got, err := io.ReadAll(client); err != nil || string(got) != "last" {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the second read after the end: %v", err)
	}
}

// Close ends a Read that waits, whether nothing was said or what was said is still on its way.
func TestDelay_CloseEndsARead(t *testing.T) {
	for _, onItsWay := range []bool{false, true} {
		client, _ := pair(t, 0)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = client.Read(make([]byte, 10))
		}()
		if d := client.(*delayed); onItsWay {
			d.arrives <- packet{due: time.Since(epoch) + time.Hour, text: []byte("late")}
			for len(d.arrives) > 0 { // until Read has it
				runtime.Gosched()
			}
		}
		_ = client.Close()
		<-done
	}
}

// A node's address is what a client dials, however its URL is written.
func TestDelay_AddressOfANode(t *testing.T) {
	for url, want := range map[string]string{
		"redis://127.0.0.1:7001":               "127.0.0.1:7001",
		"127.0.0.1:7001":                       "127.0.0.1:7001",
		"rediss://user:p%40ss@example:6379/0":  "example:6379",
		"redis://:secret@[::1]:6379/1?ignored": "[::1]:6379",
	} {
		if got := address(url); got != want {
			t.Errorf("address(%q) = %q, want %q", url, got, want)
		}
	}
}
