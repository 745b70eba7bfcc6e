package line

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// nodes note what they are asked, and answer when the test wants it.
type nodes struct {
	asked []string
	open  []func(Place)
}

func (n *nodes) ask(node int, a Ask) {
	what := "asks"
	if a.Leave {
		what = "leaves"
	} else {
		n.open = append(n.open, a.Answered)
	}
	n.asked = append(n.asked, fmt.Sprintf("%s %d/%s %d", what, node, a.Key, a.Ticket))
}

// answer answers the oldest question.
func (n *nodes) answer(p Place) {
	answered := n.open[0]
	n.open = n.open[1:]
	answered(p)
}

// took returns what was asked since the last time.
func (n *nodes) took() []string {
	asked := n.asked
	n.asked = nil
	return asked
}

var inLine9 = Place{Known: true, Ticket: 9, Before: 7}

// The goal: a call is not woken by an answer that it finds when Ask returns. Otherwise a call that
// is held back would ask a node that is down again and again.
func TestPlaces_NoWakeBeforeAskReturns(t *testing.T) {
	p := NewPlaces(func(_ int, a Ask) { a.Answered(Place{}) })
	p.Ask("k", 1, func() { require.Fail(t, "woken") })
	place, asking := p.State("k", 1)
	require.Equal(t, Place{}, place)
	require.False(t, asking)
}

// The goal: a place is renewed if there is one, and a call that waits for it is told.
func TestPlaces_Renew(t *testing.T) {
	n := new(nodes)
	p := NewPlaces(n.ask)
	p.Renew("k")
	woken := 0
	p.Ask("k", 1, func() { woken++ })
	p.Renew("k")
	require.Equal(t, []string{"asks 1/k 0"}, n.took(), "no ticket is known yet")
	n.answer(inLine9)
	p.Renew("k")
	p.Renew("k")
	require.Equal(t, []string{"asks 1/k 9"}, n.took(), "an answer is to come")
	n.answer(inLine9)
	require.Equal(t, 2, woken)
	p.Leave("k")
	p.Renew("k")
	require.Equal(t, []string{"leaves 1/k 9"}, n.took())
}

// The goal: a process has one place for a key, which the next of its calls renews, and leaves it
// once.
func TestPlaces_OneForAKey(t *testing.T) {
	n := new(nodes)
	p := NewPlaces(n.ask)
	woken := ""
	p.Ask("k", 1, func() { woken += "a" })
	p.Ask("k", 1, func() { woken += "b" }) // an answer is to come
	require.Equal(t, []string{"asks 1/k 0"}, n.took())
	_, asking := p.State("k", 1)
	require.True(t, asking)
	n.answer(inLine9)
	require.Equal(t, "b", woken)
	place, asking := p.State("k", 1)
	require.Equal(t, inLine9, place)
	require.False(t, asking)
	p.Ask("k", 1, func() {})
	n.answer(Place{}) // the node did not answer: the place may be there
	p.Leave("k")
	p.Leave("k")
	require.Equal(t, []string{"asks 1/k 9", "leaves 1/k 9"}, n.took())
}

// The goal: a place that comes late is left: nobody waits any more, or another node is the arbiter.
func TestPlaces_ALateAnswerLeavesNoPlace(t *testing.T) {
	n := new(nodes)
	p := NewPlaces(n.ask)
	p.Ask("k", 1, func() {})
	p.Leave("k")
	require.Equal(t, []string{"asks 1/k 0"}, n.took())
	n.answer(inLine9)
	require.Equal(t, []string{"leaves 1/k 9"}, n.took())

	p.Ask("k", 1, func() {})
	p.Ask("k", 2, func() {})
	n.answer(inLine9)
	n.answer(Place{Known: true, Ticket: 3})
	require.Equal(t, []string{"asks 1/k 0", "asks 2/k 0", "leaves 1/k 9"}, n.took())
	place, _ := p.State("k", 2)
	require.EqualValues(t, 3, place.Ticket)
	place, _ = p.State("k", 1)
	require.Zero(t, place)
	p.LeaveAll()
	require.Equal(t, []string{"leaves 2/k 3"}, n.took())
}

// The goal: the process knows for a while that others want a key, and not longer. It knows that
// nobody does if it finds the key free and the line empty.
func TestPlaces_Contended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(nodes)
		p := NewPlaces(n.ask)
		contended := func() string { return p.Contended([]string{"a", "k"}, time.Now()) }
		require.False(t, p.Any())
		p.Ask("k", 1, func() {})
		require.Empty(t, contended())
		n.answer(inLine9)
		require.Equal(t, "k", contended())
		time.Sleep(contentionTTL)
		require.Empty(t, contended())
		p.Leave("k")
		require.Equal(t, "k", contended(), "until now others were before it")
		time.Sleep(contentionTTL)
		require.Empty(t, contended())
		p.Ask("k", 1, func() {})
		n.answer(Place{Known: true, Ticket: 10, Free: true})
		require.Empty(t, contended())
		p.Leave("k")
		require.False(t, p.Any())
	})
}

// The goal: keys that others wanted once take no memory for ever, and what is in use stays.
func TestPlaces_Forgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := new(nodes)
		p := NewPlaces(n.ask)
		for i := range 3 * maxLines {
			p.Ask(fmt.Sprint("k", i), 1, func() {})
			n.answer(inLine9)
			if i > 0 {
				p.Leave(fmt.Sprint("k", i))
			}
			time.Sleep(time.Millisecond)
		}
		require.Less(t, len(p.byKey), 2*maxLines)
		place, _ := p.State("k0", 1)
		require.Equal(t, inLine9, place)
	})
}
