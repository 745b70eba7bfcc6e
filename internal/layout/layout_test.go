package layout_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockpipe/lockpipe/internal/layout"
)

func TestID_IsTheSameForTheSameGroupsInAnyOrder(t *testing.T) {
	a := layout.Group{Name: "a", Nodes: []string{"h1:1", "h2:1", "h3:1"}}
	shuffled := layout.Group{Name: "a", Nodes: []string{"h3:1", "h1:1", "h2:1"}}
	b := layout.Group{Name: "b", Nodes: []string{"h4:1"}}
	id := func(groups ...layout.Group) string { return layout.ID(groups) }
	require.Equal(t, id(a, b), id(b, shuffled))
	require.NotEqual(t, id(a), id(b))
	require.NotEqual(t, id(a, b), id(a))
	renamed := layout.Group{Name: "c", Nodes: a.Nodes}
	require.Equal(t, id(a), id(renamed), "with one group every key belongs to it")
	require.NotEqual(t, id(a, b), id(renamed, b), "keys are placed by the names")
	require.Len(t, id(a), 12)
}

func TestForeign_IsAnEntryWithoutAnIDInCommon(t *testing.T) {
	for _, test := range []struct {
		a, b    string
		foreign bool
	}{
		{"A", "A", false},
		{"A", "B", true},
		{"A,B", "A", false},
		{"A,B", "B", false},
		{"A,B", "B,C", false},
		{"A,B", "C,D", true},
		{"A", "AB", true},
		{"A,", "B,", true},
	} {
		require.Equal(t, test.foreign, layout.Foreign(test.a, test.b), "%v", test)
		require.Equal(t, test.foreign, layout.Foreign(test.b, test.a), "%v", test)
	}
	require.Equal(t, "A,B", layout.Text([]string{"B", "A", "B"}))
}

func TestParseEntries_LeavesOutWhatIsNone(t *testing.T) {
	require.Equal(t, []layout.Entry{{IDs: "A", Millis: 7}, {IDs: "A,B", Millis: 8}},
		layout.ParseEntries("A=7 odd = =1 x= A,B=8 C=1234567890123456"))
	require.Len(t, layout.ParseEntries(strings.Repeat("A=1 ", 1000)), 64)
}
