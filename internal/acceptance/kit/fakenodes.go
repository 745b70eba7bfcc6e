package kit

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe"
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/stretchr/testify/require"
)

// ReadOnly is what a replica answers; nothing was executed then.
const ReadOnly = "READONLY You can't write against a read only replica."

// OutOfMemory is what a server answers at maxmemory: nothing was executed, and the connection
// stays.
const OutOfMemory = "OOM command not allowed when used memory > 'maxmemory'."

// FakeNodes is a group of in-memory nodes in a synctest bubble. Time passes there only while
// everybody waits, so a machine that stalls cannot make a test miss anything, and times are exact.
// Keys are given without the prefix, as to a client.
type FakeNodes struct {
	URLs  []string
	Nodes []*fakeNode
}

// InBubble runs a test in a bubble of its own, with n nodes and a client that is connected to all
// of them. Everything is closed when the test ends, whatever state the nodes are in then.
func InBubble(t *testing.T, n int, test func(t *testing.T, v *FakeNodes, c *lockpipe.Client),
	change ...func(*lockpipe.Config),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := NewFakeNodes(t, n)
		test(t, v, v.Client(t, change...))
	})
}

// NewFakeNodes is called in the bubble.
func NewFakeNodes(t *testing.T, n int) *FakeNodes {
	t.Helper()
	v := &FakeNodes{}
	for i := range n {
		v.URLs = append(v.URLs, fmt.Sprintf("node-%d:6379", i))
		v.Nodes = append(v.Nodes, newFakeNode(t, i))
	}
	return v
}

// Client returns a further client of the nodes, connected.
func (v *FakeNodes) Client(t *testing.T, change ...func(*lockpipe.Config)) *lockpipe.Client {
	t.Helper()
	cfg := Config(v.URLs, change)
	if cfg.Dial == nil {
		cfg.Dial = v.Dial
	}
	c, err := lockpipe.New(cfg)
	require.NoError(t, err)
	return v.Connect(t, c)
}

// Connect waits until a client is connected, and closes it when the test ends.
func (v *FakeNodes) Connect(t *testing.T, c *lockpipe.Client) *lockpipe.Client {
	t.Helper()
	t.Cleanup(func() {
		// Time stands still after the clean-up, so nothing may be left that only time would end.
		v.Heal(Span(0, len(v.Nodes))...)
		v.Speak(Span(0, len(v.Nodes))...)
		ctx, cancel := context.WithTimeout(context.Background(), Patient)
		defer cancel()
		_ = c.Close(ctx)
	})
	time.Sleep(20 * v.Nodes[0].Latency)
	synctest.Wait()
	require.True(t, AllUp(c), "a node does not come up")
	return c
}

// Dial is for Config.Dial.
func (v *FakeNodes) Dial(_ context.Context, _, addr string) (net.Conn, error) {
	for i, url := range v.URLs {
		if url == addr {
			return v.Nodes[i].Dial(), nil
		}
	}
	return nil, fmt.Errorf("no node %s", addr)
}

// Hold is a lease that every node has granted: a call returns when a quorum has, and what follows
// could overtake the rest.
func (v *FakeNodes) Hold(t *testing.T, c *lockpipe.Client, key string,
	opts ...lockpipe.Option,
) *lockpipe.Lease {
	t.Helper()
	l := Try(t, c, key, opts...)
	synctest.Wait()
	for i := range v.Nodes {
		require.Equal(t, l.Token(), v.Get(i, key), "node %d", i)
	}
	return l
}

// Silence lets the nodes stop before the next lock command: on each connection it hangs, and what
// comes behind it. Other commands are answered on a connection where none hangs, so a client that
// gave up connects again. What was sent before comes first: a call returns when a quorum has
// answered, and the other nodes may not have the key yet.
func (v *FakeNodes) Silence(which ...int) {
	synctest.Wait()
	for _, i := range which {
		v.Nodes[i].silence()
	}
}

// Speak lets silent nodes continue with what hangs, in the order of arrival, also if the client has
// given up the connection. What was sent before it has arrived by then. When it returns, the nodes
// have executed that, and all goroutines have done what follows from it.
func (v *FakeNodes) Speak(which ...int) {
	synctest.Wait()
	for _, i := range which {
		for _, resume := range v.Nodes[i].Speak() {
			close(resume)
			synctest.Wait() // what an older connection brought comes before what a newer one did
		}
	}
}

// Hanging is how many connections of a silent node have a lock command that hangs.
func (v *FakeNodes) Hanging(i int) int {
	n := v.Nodes[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.hung)
}

// Fail lets node i answer lock commands with an error such as "READONLY no writes here" instead of
// executing them.
func (v *FakeNodes) Fail(i int, message string) { v.Nodes[i].fail(message) }

// Heal lets failing nodes execute lock commands again.
func (v *FakeNodes) Heal(which ...int) {
	for _, i := range which {
		v.Nodes[i].fail("")
	}
}

// Latency lets what clients send take a random time up to longest to a node, and the answers as
// much back. It is called before there are clients.
func (v *FakeNodes) Latency(longest time.Duration) {
	for _, n := range v.Nodes {
		n.Latency = longest
	}
}

// Watch calls see with every command that node i is about to execute, and with SET, PEXPIRE and DEL
// and their key when a script has done that. see must not use the nodes; nil ends it.
func (v *FakeNodes) Watch(see func(i int, command string, args []string)) {
	for i, n := range v.Nodes {
		n.mu.Lock()
		n.watch = nil
		if see != nil {
			n.watch = func(command string, args []string) { see(i, command, args) }
		}
		n.mu.Unlock()
	}
}

// Executed is how many commands of this name, SET or EVALSHA, node i has executed for
// clients. What a script calls does not count.
func (v *FakeNodes) Executed(i int, command string) int {
	n := v.Nodes[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.executed[command]
}

// ExecutedOnAll is the sum of Executed for all nodes. An operation that is decided may not be sent
// to the rest of them.
func (v *FakeNodes) ExecutedOnAll(command string) (sum int) {
	for i := range v.Nodes {
		sum += v.Executed(i, command)
	}
	return sum
}

// Sent is how many lock commands the nodes have executed for clients, when all that was sent has
// arrived.
func (v *FakeNodes) Sent() (sum int) {
	synctest.Wait()
	for _, command := range []string{"SET", "EVALSHA"} {
		sum += v.ExecutedOnAll(command)
	}
	return sum
}

// Get is what the key has on node i; "" where it is not set.
func (v *FakeNodes) Get(i int, key string) string {
	value, _ := v.Nodes[i].Get(Prefix + key)
	return tokenOf(value)
}

// Ttl is how long node i will keep the key; 0 where it is not set, or has no end.
func (v *FakeNodes) Ttl(i int, key string) time.Duration { return v.Nodes[i].TTL(Prefix + key) }

// Set gives the key a value on node i, without an end.
func (v *FakeNodes) Set(i int, key, value string) { v.Nodes[i].Set(Prefix+key, value) }

// fenceMember is where a node has the numbers of a key.
func fenceMember(key string) string { return strconv.Itoa(int(ids.FenceMember(key))) }

// Fence is the highest number that node i knows for the key, as text; "0" where it knows none.
func (v *FakeNodes) Fence(i int, key string) string {
	n := v.Nodes[i].Score(Prefix+ids.FencesKey, fenceMember(key))
	return strconv.FormatInt(int64(n), 10)
}

// SetFence has node i know a number for the key.
func (v *FakeNodes) SetFence(i int, key, number string) {
	n, err := strconv.ParseFloat(number, 64)
	if err != nil {
		panic(err)
	}
	v.Nodes[i].SetScore(Prefix+ids.FencesKey, fenceMember(key), n)
}

// ForgetFence has node i know no number for the key.
func (v *FakeNodes) ForgetFence(i int, key string) { v.SetFence(i, key, "0") }

// Del takes the key off node i.
func (v *FakeNodes) Del(i int, key string) { v.Nodes[i].Delete(Prefix + key) }

// LayoutsKey has the layouts in use, which clients leave at each connect.
const LayoutsKey = Prefix + "lockpipe:layouts"

// Keys is what is left on node i, with the prefix, but for the layouts in use, and for what says
// for a moment that a client has left a line.
func (v *FakeNodes) Keys(i int) []string {
	return slices.DeleteFunc(v.Nodes[i].LiveKeys(), func(key string) bool {
		return key == LayoutsKey || strings.HasPrefix(key, Prefix+ids.TurnKey)
	})
}

// NothingLeft lets everybody finish what is under way, and wants no key on any node then.
func (v *FakeNodes) NothingLeft(t *testing.T) {
	t.Helper()
	synctest.Wait()
	isLine := func(key string) bool { return strings.HasPrefix(key, Prefix+ids.LineKey) }
	for i := range v.Nodes {
		if slices.ContainsFunc(v.Keys(i), isLine) {
			time.Sleep(time.Second) // it is left in the background
			synctest.Wait()
		}
	}
	for i := range v.Nodes {
		require.Empty(t, v.Keys(i), "node %d", i)
	}
}

// WithRunIDs lets each node show a run_id and have its marker, as if it had been admitted before.
func (v *FakeNodes) WithRunIDs() {
	for _, n := range v.Nodes {
		n.HidesRunID = false
		n.Set(Prefix+"lockpipe:admitted", n.RunID())
	}
}

// NameOf is what a client calls its node i, whatever server that is.
func NameOf(i int) string { return fmt.Sprintf("name-%d:6379", i) }

// UnderNames has a client call these servers, by their numbers, name 0, name 1 and so on. The names
// lead where the numbers say at each connect.
func (v *FakeNodes) UnderNames(servers []int) func(*lockpipe.Config) {
	return func(cfg *lockpipe.Config) {
		cfg.Nodes = nil
		for i := range servers {
			cfg.Nodes = append(cfg.Nodes, NameOf(i))
		}
		cfg.Dial = func(_ context.Context, _, address string) (net.Conn, error) {
			i := slices.Index(cfg.Nodes, address)
			if servers[i] < 0 {
				return nil, fmt.Errorf("%s is out of reach", address)
			}
			return v.Nodes[servers[i]].Dial(), nil
		}
	}
}

// InOrder has a client list the nodes in this order.
func (v *FakeNodes) InOrder(order ...int) func(*lockpipe.Config) {
	return func(cfg *lockpipe.Config) {
		cfg.Nodes = nil
		for _, i := range order {
			cfg.Nodes = append(cfg.Nodes, v.URLs[i])
		}
	}
}

// Value is what the key has on server i.
func (v *FakeNodes) Value(i int, key string) string {
	value, _ := v.Nodes[i].Get(Prefix + key)
	return value
}

// Drop ends all connections to these servers.
func (v *FakeNodes) Drop(servers ...int) {
	for _, i := range servers {
		n := v.Nodes[i]
		n.mu.Lock()
		n.HangUp()
		n.mu.Unlock()
	}
	synctest.Wait()
}

// Shifted is a further client, whose wall clock is off by d.
func (v *FakeNodes) Shifted(t *testing.T, d time.Duration) *lockpipe.Client {
	t.Helper()
	c := v.Client(t)
	ShiftClock(c, d)
	return c
}

// OnlyCompanions wants nothing else left on the nodes.
func (v *FakeNodes) OnlyCompanions(t *testing.T) {
	t.Helper()
	synctest.Wait()
	for i := range v.Nodes {
		require.Empty(t, v.noCompanions(i), "node %d", i)
	}
}

// noCompanions is what else is left on node i.
func (v *FakeNodes) noCompanions(i int) []string {
	return slices.DeleteFunc(v.Keys(i), func(key string) bool {
		return key == Prefix+ids.FencesKey
	})
}

// SoonOnlyCompanions waits until nothing else is left, as long as keys may last, and wants it to
// stay so. It waits no longer: clients probe their idle connections, so that minutes of virtual
// time are work.
func (v *FakeNodes) SoonOnlyCompanions(t *testing.T) {
	t.Helper()
	left := func(i int) bool { return len(v.noCompanions(i)) > 0 }
	for range 120 {
		synctest.Wait()
		if !slices.ContainsFunc(Span(0, len(v.Nodes)), left) {
			break
		}
		time.Sleep(time.Second)
	}
	time.Sleep(5 * time.Second)
	v.OnlyCompanions(t)
}

// Intercept has node i reply to commands with what answer returns, or in the usual way if that is
// nothing.
func (v *FakeNodes) Intercept(i int, answer func(command string, args []string) (reply string),
) {
	n := v.Nodes[i]
	n.mu.Lock()
	defer n.mu.Unlock()
	n.intercepted = answer
}

// Hang lets commands of this name hang at node i until the returned function is called.
func (v *FakeNodes) Hang(i int, command string) (resume func()) {
	hung := make(chan struct{})
	v.Intercept(i, func(asked string, _ []string) string {
		if asked == command {
			<-hung
		}
		return ""
	})
	return func() {
		close(hung)
		synctest.Wait() // what hung is over before the node ends
	}
}
