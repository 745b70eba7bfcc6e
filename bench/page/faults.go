package page

import (
	"fmt"
	"slices"

	"github.com/lockpipe/lockpipe/bench"
	"github.com/lockpipe/lockpipe/bench/faults"
)

const (
	laneHeight = 20.0
	// letterRoom is the part of the width that a letter needs on a phone, and wordRoom what each
	// letter of a word needs on a wide screen.
	letterRoom, wordRoom = 0.04, 0.008
	// maxBands bounds what is drawn behind every chart; the lanes and the table have all.
	maxBands = 60
)

// letters stand for the faults in the lanes.
var letters = []struct{ action, letter, meaning string }{
	{"freeze", "F", "frozen"},
	{"kill", "K", "killed"},
	{"restart", "R", "restarted, empty"},
	{"flush", "E", "emptied"},
	{"scriptflush", "S", "scripts forgotten"},
	{"reset", "C", "connections cut"},
	{"readonly", "W", "refuses writes"},
	{"oom", "M", "out of memory"},
	{"busy", "B", "busy with a script"},
	{"demote", "D", "demoted to a replica"},
	{"failover", "O", "failed over to its replica"},
	{"takeover", "T", "taken over by its replica"},
	{"reshard", "H", "slot moved to another master"},
	{"deposed", "X", "deposed, and cut off from the cluster"},
}

func letterOf(action string) (letter, meaning string) {
	for _, l := range letters {
		if l.action == action {
			return l.letter, l.meaning
		}
	}
	return "?", ""
}

// happened is the faults of a run as they are drawn: a killed node is down until its restart.
func (t *timeline) happened() []faults.Result {
	if t.report.FaultReport == nil {
		return nil
	}
	list := slices.Clone(t.report.Faults)
	for i := range list {
		if list[i].Action != "kill" {
			continue
		}
		list[i].UntilS = t.report.DurationS
		for _, later := range list[i+1:] {
			if later.Action == "restart" && later.Node == list[i].Node {
				list[i].UntilS = later.FromS
				break
			}
		}
	}
	return list
}

func (t *timeline) said(f faults.Result) string {
	text := fmt.Sprintf("node %d: %s, %s to %s", f.Node, f.Action, t.clock.at(f.FromS),
		t.clock.at(f.UntilS))
	if f.Error != "" {
		text += " (failed: " + f.Error + ")"
	}
	return text
}

// everyNode stands for a node's number if all are meant.
const everyNode = 0

// faults returns when a node had faults, or any node. If there are too many to see them, there are
// none.
func (t *timeline) faults(node int) (bands []band) {
	for _, f := range t.happened() {
		if node != everyNode && f.Node != node {
			continue
		}
		if len(bands) == maxBands {
			return nil
		}
		bands = append(bands, t.band(f.FromS, f.UntilS, t.said(f)))
	}
	return bands
}

// lanes draws below a chart what happened to each node that anything happened to.
func (t *timeline) lanes(c *chart) {
	list := t.happened()
	if len(list) == 0 || c.Empty != "" {
		return
	}
	var numbers []int
	used := make(map[string]bool)
	for _, f := range list {
		used[f.Action] = true
		if !slices.Contains(numbers, f.Node) {
			numbers = append(numbers, f.Node)
		}
	}
	slices.Sort(numbers)
	top := plotHeight + axisHeight + 8
	for _, number := range numbers {
		c.Lanes = append(c.Lanes, lane{
			Y: pixels(top), Middle: pixels(top + laneHeight/2 + 3.5),
			Height: pixels(laneHeight - 4), Name: fmt.Sprintf("node %d", number),
			Spans: t.marks(list, number),
		})
		top += laneHeight
	}
	c.Whole = pixels(top)
	for _, l := range letters {
		if used[l.action] {
			c.LaneKeys = append(c.LaneKeys, l.letter+" "+l.meaning)
		}
	}
}

// marks are the faults of one node. If there is no room for its word up to the next fault, a fault
// has a letter. A letter that would touch the one before is left out.
func (t *timeline) marks(list []faults.Result, number int) (marks []mark) {
	list = slices.DeleteFunc(slices.Clone(list), func(f faults.Result) bool {
		return f.Node != number
	})
	last := -1.0
	for i, f := range list {
		m := mark{band: t.band(f.FromS, f.UntilS, t.said(f)), Class: "fault"}
		if f.Error != "" {
			m.Class = "fault failed"
		}
		if at := t.across(f.FromS); at-last >= letterRoom || last < 0 {
			letter, word := letterOf(f.Action)
			m.Letter, last = letter, at
			room := 1 - at
			if i+1 < len(list) {
				room = t.across(list[i+1].FromS) - at
			}
			if wordRoom*float64(len(word)+1) <= room {
				m.Word = word
			}
		}
		marks = append(marks, m)
	}
	return marks
}

// faultTable is all of them as text.
func faultTable(r *bench.Report) table {
	tab := table{Title: "Faults", Head: []string{"fault", "from s", "until s"}}
	if r.FaultReport == nil {
		return tab
	}
	failed := slices.ContainsFunc(r.Faults, func(f faults.Result) bool { return f.Error != "" })
	if failed {
		tab.Head = append(tab.Head, "failed")
	}
	for _, f := range r.Faults {
		row := []string{f.Fault, fmt.Sprintf("%.3f", f.FromS), fmt.Sprintf("%.3f", f.UntilS)}
		if failed {
			row = append(row, f.Error)
		}
		tab.Rows = append(tab.Rows, row)
	}
	return tab
}
