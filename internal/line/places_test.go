package line

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// nodes note what they are asked about lines, and answer when the test wants it. They have answers
// for watches.
type nodes struct {
	t       *testing.T
	all     map[int]*Node
	down    bool
	watched Place // what is answered to a watch

	mu    sync.Mutex // guards all below
	asked []string
	open  []chan Place
}

func newNodes(t *testing.T) *nodes {
	t.Helper()
	n := &nodes{t: t, all: map[int]*Node{}, watched: Place{Known: true, Free: true}}
	t.Cleanup(func() {
		for _, node := range n.all {
			node.Close(t.Context())
		}
	})
	return n
}

// node returns the node with this number.
func (n *nodes) node(i int) *Node {
	if n.all[i] == nil {
		node := NewNode(nil, nil, "", "", 0)
		node.down = func() bool { return n.down }
		node.exchange = func(asked []*Ask, answers []Place) {
			n.exchange(i, asked, answers)
		}
		n.all[i] = node
	}
	return n.all[i]
}

func (n *nodes) note(format string, what ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, fmt.Sprintf(format, what...))
}

func (n *nodes) exchange(node int, asked []*Ask, answers []Place) {
	for i, q := range asked {
		switch {
		case q.watches:
			n.note("watches %d %d", node, q.Ticket)
			answers[i] = n.watched
		case q.Answered == nil:
			n.note("leaves %d/%s %d", node, q.Key, q.Ticket)
		default:
			answer := make(chan Place)
			n.mu.Lock()
			n.open = append(n.open, answer)
			n.mu.Unlock()
			n.note("asks %d/%s %d", node, q.Key, q.Ticket)
			answers[i] = <-answer
		}
	}
}

// answer answers the oldest question about a line.
func (n *nodes) answer(p Place) {
	synctest.Wait()
	n.mu.Lock()
	answer := n.open[0]
	n.open = n.open[1:]
	n.mu.Unlock()
	answer <- p
	synctest.Wait()
}

// took returns what was asked since the last time.
func (n *nodes) took() []string {
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	asked := n.asked
	n.asked = nil
	return asked
}

// inBubble runs a test with nodes.
func inBubble(t *testing.T, test func(t *testing.T, n *nodes, p *Places)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t)
		test(t, n, NewPlaces())
	})
}

var inLine9 = Place{Known: true, Ticket: 9, Before: 7}

// The goal: a call is not woken by an answer that it finds when Ask returns. Otherwise a call that
// is held back would ask a node that is down again and again.
func TestPlaces_NoWakeBeforeAskReturns(t *testing.T) {
	inBubble(t, func(t *testing.T, n *nodes, p *Places) {
		n.down = true
		p.Ask("k", n.node(1), func() { require.Fail(t, "woken") })
		place, asking := p.State("k", n.node(1))
		require.Equal(t, Place{}, place)
		require.False(t, asking)
	})
}

// The goal: a node may report changes, or be closed, in the moment in which a watch begins.
func TestPlaces_AReportComesAsAWatchBegins(t *testing.T) {
	node := NewNode(nil, nil, "", "", 0)
	node.down = func() bool { return false }
	node.exchange = func(asked []*Ask, answers []Place) {
		for i := range asked {
			answers[i] = inLine9
		}
	}
	p := NewPlaces()
	var reports sync.WaitGroup
	end := make(chan struct{})
	reports.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
				node.Invalidated(nil)
			}
		}
	})
	for range 2000 {
		p.Ask("k", node, func() {})
		for _, asking := p.State("k", node); asking; _, asking = p.State("k", node) {
			runtime.Gosched()
		}
		p.Leave("k")
	}
	close(end)
	reports.Wait()
	node.Close(t.Context())
}

// The goal: a place is renewed if there is one, and the call that waits for it is notified.
func TestPlaces_Renew(t *testing.T) {
	inBubble(t, func(t *testing.T, n *nodes, p *Places) {
		p.Renew("k")
		woken := 0
		p.Ask("k", n.node(1), func() { woken++ })
		p.Renew("k")
		require.Equal(t, []string{"asks 1/k 0"}, n.took(), "no ticket is known yet")
		n.answer(inLine9)
		p.Renew("k")
		p.Renew("k")
		require.Equal(t, []string{"watches 1 7", "asks 1/k 9"}, n.took(), "an answer is to come")
		n.answer(inLine9)
		require.Equal(t, 3, woken)
		p.Leave("k")
		p.Renew("k")
		require.Equal(t, []string{"leaves 1/k 9"}, n.took())
	})
}

// The goal: a process has one place for a key, which the next of its calls renews, and leaves it
// once.
func TestPlaces_OneForAKey(t *testing.T) {
	inBubble(t, func(t *testing.T, n *nodes, p *Places) {
		woken := ""
		p.Ask("k", n.node(1), func() { woken += "a" })
		p.Ask("k", n.node(1), func() { woken += "b" }) // an answer is to come
		require.Equal(t, []string{"asks 1/k 0"}, n.took())
		_, asking := p.State("k", n.node(1))
		require.True(t, asking)
		n.answer(inLine9)
		require.Equal(t, "bb", woken, "by the place, and by the answer to the watch")
		place, asking := p.State("k", n.node(1))
		require.Equal(t, inLine9, place)
		require.False(t, asking)
		p.Ask("k", n.node(1), func() {})
		n.answer(Place{}) // the node did not answer: the place may be there
		p.Leave("k")
		p.Leave("k")
		require.Equal(t, []string{"watches 1 7", "asks 1/k 9", "leaves 1/k 9"}, n.took())
	})
}

// The goal: a place that comes late is left: nobody waits any more, or another node is the arbiter.
func TestPlaces_ALateAnswerLeavesNoPlace(t *testing.T) {
	inBubble(t, func(t *testing.T, n *nodes, p *Places) {
		p.Ask("k", n.node(1), func() {})
		p.Leave("k")
		require.Equal(t, []string{"asks 1/k 0"}, n.took())
		n.answer(inLine9)
		require.Equal(t, []string{"leaves 1/k 9"}, n.took())

		p.Ask("k", n.node(1), func() {})
		synctest.Wait()
		p.Ask("k", n.node(2), func() {})
		n.answer(inLine9)
		n.answer(Place{Known: true, Ticket: 3, Free: true})
		require.Equal(t, []string{"asks 1/k 0", "asks 2/k 0", "leaves 1/k 9"}, n.took())
		place, _ := p.State("k", n.node(2))
		require.EqualValues(t, 3, place.Ticket)
		place, _ = p.State("k", n.node(1))
		require.Zero(t, place)
		p.LeaveAll()
		require.Equal(t, []string{"leaves 2/k 3"}, n.took())
	})
}

// The goal: a call is notified of its turn once: the first when the key is free or may be, another
// one when the ticket before it has left. A watch that will report it is not made again.
func TestPlaces_TellsOfTheTurn(t *testing.T) {
	held := Place{Known: true, Ticket: 9, Token: "t"}
	freed := Place{Known: true, Ticket: 9, Free: true}
	isThere, isMissing := Place{Known: true, Token: "u"}, Place{Known: true, Free: true}
	for _, test := range []struct {
		place, watched Place
		want           string
		turn           bool
	}{
		{freed, Place{}, "", true},
		{held, isThere, "watches 1 0", false},
		{held, isMissing, "watches 1 0", true},
		{held, Place{}, "watches 1 0", true}, // it is not known
		{inLine9, isMissing, "watches 1 7", false},
		{inLine9, isThere, "watches 1 7", true},
		{Place{Known: true}, Place{}, "", false}, // the line is full
	} {
		inBubble(t, func(t *testing.T, n *nodes, p *Places) {
			n.watched = test.watched
			woken := 0
			p.Ask("k", n.node(1), func() { woken++ })
			n.answer(test.place)
			asked := n.took()[1:]
			if test.want == "" {
				require.Empty(t, asked)
			} else {
				require.Equal(t, []string{test.want}, asked)
			}
			place, asking := p.State("k", n.node(1))
			require.False(t, asking)
			require.Equal(t, test.turn, place.Turn)
			if test.turn || test.want == "" {
				return
			}
			p.Renew("k")
			test.place.Until = time.Now().Add(time.Hour) // an extension that no watch reports
			n.answer(test.place)
			require.Equal(t, []string{"asks 1/k 9"}, n.took(), "the watch stays")
			place, _ = p.State("k", n.node(1))
			require.Equal(t, test.place, place)
			woken = 0
			n.node(1).Invalidated(nil)
			require.Equal(t, 1, woken)
			place, _ = p.State("k", n.node(1))
			require.True(t, place.Turn)
		})
	}
}

// The goal: the process knows for a while that others want a key, and not longer. It knows that
// nobody does if it finds the key free and the line empty.
func TestPlaces_Contended(t *testing.T) {
	inBubble(t, func(t *testing.T, n *nodes, p *Places) {
		contended := func() string { return p.Contended([]string{"a", "k"}, time.Now()) }
		require.False(t, p.Any())
		p.Ask("k", n.node(1), func() {})
		require.Empty(t, contended())
		n.answer(inLine9)
		require.Equal(t, "k", contended())
		time.Sleep(contentionTTL)
		require.Empty(t, contended())
		p.Leave("k")
		require.Equal(t, "k", contended(), "until now others were before it")
		time.Sleep(contentionTTL)
		require.Empty(t, contended())
		p.Ask("k", n.node(1), func() {})
		n.answer(Place{Known: true, Ticket: 10, Free: true})
		require.Empty(t, contended())
		p.Leave("k")
		require.False(t, p.Any())
	})
}

// The goal: keys that others wanted once take no memory for ever, and what is in use stays.
func TestPlaces_Forgets(t *testing.T) {
	inBubble(t, func(t *testing.T, n *nodes, p *Places) {
		for i := range 3 * maxLines {
			p.Ask(fmt.Sprint("k", i), n.node(1), func() {})
			n.answer(inLine9)
			if i > 0 {
				p.Leave(fmt.Sprint("k", i))
			}
			time.Sleep(time.Millisecond)
		}
		require.Less(t, len(p.byKey), 2*maxLines)
		place, _ := p.State("k0", n.node(1))
		require.Equal(t, inLine9, place)
	})
}
