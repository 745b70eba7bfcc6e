package memorynode_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/internal/memorynode"
	"github.com/lockpipe/lockpipe/script"
	"github.com/stretchr/testify/require"
)

// The goal: a client that writes much before it reads gets all replies, in order. The node does not
// keep them without a bound.
func TestServe_AClientMayWriteBeforeItReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const commands = 3000
		n := memorynode.New(0, 1)
		conn := n.Dial()
		text := strings.Repeat("x", 4000)
		written := make(chan int, commands)
		go func() {
			for i := range commands {
				_, _ = conn.Write(command("ECHO", strconv.Itoa(i)+text))
				written <- i
			}
			close(written)
		}()
		synctest.Wait()
		require.Less(t, len(written), commands, "the node reads without end")
		require.Greater(t, len(written), 100, "the node waits for each reply to be read")
		var got bytes.Buffer
		for i := range commands {
			want := fmt.Sprintf("$%d\r\n%d%s\r\n", len(strconv.Itoa(i))+len(text), i, text)
			for chunk := make([]byte, 64<<10); got.Len() < len(want); {
				count, err := conn.Read(chunk)
				require.NoError(t, err)
				got.Write(chunk[:count])
			}
			require.Equal(t, want, string(got.Next(len(want))))
		}
		n.Stop()
	})
}

// The goal: commands that are split anywhere are executed once they are complete.
func TestSession_CommandsMayBeSplit(t *testing.T) {
	n := memorynode.New(0, 1)
	replies := ""
	s := n.Accept(func(p []byte) { replies += string(p) }, func() {})
	defer s.Close()
	text := append(command("SET", "k", "a\r\nb"), command("GET", "k")...)
	for i := range text {
		receive(t, s, text[i:i+1], time.Now())
	}
	require.Equal(t, "+OK\r\n$4\r\na\r\nb\r\n", replies)
}

// The goal: a frozen node executes nothing, and everything after it has thawed, in order. A stopped
// one executes nothing any more and breaks all connections.
func TestNode_FreezeThawStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memorynode.New(0, 1)
		node := talk{t, n.Dial()}
		node.ask("SET", "k", "1")
		n.Freeze()
		reply := make(chan string)
		go func() { reply <- node.ask("SET", "k", "2", "GET") }()
		time.Sleep(10 * time.Second)
		before, _ := n.Get("k")
		require.Equal(t, "1", before)
		n.Thaw()
		require.Equal(t, "$1\r\n1\r\n", <-reply)

		n.Freeze()
		_, err := node.conn.Write(command("SET", "k", "3"))
		require.NoError(t, err)
		n.Stop()
		after, _ := n.Get("k")
		require.Equal(t, "2", after)
		_, err = node.conn.Read(make([]byte, 1))
		require.Error(t, err)
		_, err = n.Dial().Read(make([]byte, 1))
		require.Error(t, err)
		require.Zero(t, n.Sessions())
	})
}

// The goal: subscribers get what is published, in both protocols, until they unsubscribe or leave.
// In RESP2 they may send nothing else.
func TestNode_PublishesToSubscribers(t *testing.T) {
	n := memorynode.New(0, 1)
	two, three := "", ""
	s2 := n.Accept(func(p []byte) { two += string(p) }, func() {})
	s3 := n.Accept(func(p []byte) { three += string(p) }, func() {})
	receive(t, s2, command("SUBSCRIBE", "c"), time.Now())
	receive(t, s3, command("HELLO", "3"), time.Now())
	receive(t, s3, command("SUBSCRIBE", "c"), time.Now())
	two, three = "", ""
	require.Equal(t, ":2\r\n", ask(t, n, "PUBLISH", "c", "hi"))
	require.Equal(t, "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n", two)
	require.Equal(t, ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n", three)
	two, three = "", ""
	receive(t, s2, command("GET", "k"), time.Now())
	receive(t, s3, command("GET", "k"), time.Now())
	require.Contains(t, two, "-ERR Can't execute 'get'")
	require.Equal(t, "_\r\n", three)
	receive(t, s2, command("UNSUBSCRIBE", "c"), time.Now())
	require.Equal(t, ":1\r\n", ask(t, n, "PUBLISH", "c", "hi"))
	s3.Close()
	require.Equal(t, ":0\r\n", ask(t, n, "PUBLISH", "c", "hi"))
}

// The goal: keys that have ended and that nobody reads again take no memory for ever.
func TestNode_ForgetsExpiredKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memorynode.New(0, 1)
		for range 100 {
			for i := range 100 {
				ask(t, n, "SET", fmt.Sprint(time.Now().UnixNano(), i), "v", "PX", "5")
			}
			time.Sleep(10 * time.Millisecond)
		}
		require.Less(t, n.KeysInMemory(), 5000)
		require.Empty(t, n.LiveKeys())
	})
}

// BenchmarkServe executes 100 acquires and releases a write, of 100,000 keys.
func BenchmarkServe(b *testing.B) {
	n := memorynode.New(0, 1)
	defer n.Stop()
	conn := n.Dial()
	load := command("SCRIPT", "LOAD", script.Release.Source)
	_, _ = conn.Write(load)
	chunk := make([]byte, 64<<10)
	_, _ = conn.Read(chunk)
	for i := 0; b.Loop(); i++ {
		var out []byte
		for k := range 100 {
			key := fmt.Sprint("key", (100*i+k)%100000)
			out = append(out, command("SET", key, "token", "NX", "PX", "10000")...)
			out = append(out, command("EVALSHA", script.Release.SHA, "1", key, "1", "token")...)
		}
		go func() { _, _ = conn.Write(out) }()
		for left := 100 * (len("+OK\r\n") + len(":1\r\n")); left > 0; {
			count, err := conn.Read(chunk)
			if err != nil {
				b.Fatal(err)
			}
			left -= count
		}
	}
}
