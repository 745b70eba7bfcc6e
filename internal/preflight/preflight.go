// Package preflight is Inspect: it asks masters what they are and how they do, and says what that
// means for locks. It only reads.
//
// An Inspector asks the nodes, over connections of its own, and applies the rules to the facts. The
// rules are pure: Check asks no node, and reports each finding with its severity and the address of
// its node. A fact that a server does not tell gives no finding, but if a server does not tell a
// group of facts, that is one finding.
//
// The text of a finding is one sentence without its subject: the fact, and what to do about it. A
// user reads it behind the address of the node.
package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockpipe/lockpipe/internal/guard"
	"github.com/lockpipe/lockpipe/internal/resp"
)

// Severity is how much a finding matters: nothing has to be done, calls may fail or take long, or
// the node does not vote or locks may fail to exclude each other.
type Severity int

// The severities.
const (
	Info Severity = iota
	Warning
	Error
)

// String returns the severity as one lower-case word.
func (s Severity) String() string {
	names := [...]string{"info", "warning", "error"}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("Severity(%d)", int(s))
	}
	return names[s]
}

// Finding is one fact and what to do about it. Node is the address of its node, empty if it is
// about all nodes.
type Finding struct {
	Node     string
	Severity Severity
	Text     string
}

// Check returns the findings about each node, in the order of the facts, and then those about
// several nodes.
func Check(cfg *Config, nodes []Facts) []Finding {
	f := &findings{cfg: cfg}
	for i := range nodes {
		f.node = nodes[i].Node
		f.checkState(&nodes[i], nodes)
		f.checkNode(&nodes[i])
	}
	f.checkPairs(nodes)
	f.node = ""
	f.checkClusters(nodes)
	for i, n := range cfg.Sizes {
		if !slices.Contains(cfg.Sizes[:i], n) {
			f.checkNumber(n)
		}
	}
	f.checkLayouts(nodes)
	return f.all
}

// findings gathers what is found about one node after the other, or about all.
type findings struct {
	cfg  *Config
	node string
	all  []Finding
}

func (f *findings) infof(format string, args ...any)  { f.addf(Info, format, args...) }
func (f *findings) warnf(format string, args ...any)  { f.addf(Warning, format, args...) }
func (f *findings) errorf(format string, args ...any) { f.addf(Error, format, args...) }

func (f *findings) addf(s Severity, format string, args ...any) {
	f.all = append(f.all, Finding{f.node, s, fmt.Sprintf(format, args...)})
}

// checkNode reports what is found about one node.
func (f *findings) checkNode(node *Facts) {
	f.checkServer(node)
	if why := node.unfit(); why != nil {
		f.errorf("%s", strings.TrimPrefix(why.Error(), "it "))
	}
	if resp.ServerMode(node.Info) == "sentinel" { // which has no locks, and knows few commands
		return
	}
	for _, r := range node.CommandErrors {
		if r.Command == "CLIENT CACHING" && node.returnedError("CLIENT TRACKING") {
			continue // the other finding names both
		}
		f.checkRefusal(r)
	}
	if _, version := node.server(); version != "" {
		f.checkRole(node)
		f.checkCertificates(node)
		f.checkMemory(node)
		f.checkPersistence(node)
	}
	f.checkOther(node)
	f.checkAdmission(node)
	f.checkTimes(node.Samples)
}

// checkNumber reports what the number of nodes means.
func (f *findings) checkNumber(n int) {
	if n == 1 && f.cfg.Guard == guard.Auto {
		f.warnf("one node with GuardAuto: to a new client, a server that lost its locks looks "+
			"as before its first use, and votes at once, while others may hold locks: use "+
			"GuardStrict, which waits for MaxTTL (%v)", f.cfg.MaxTTL)
	}
	switch {
	case n == 1:
		f.warnf("one node is all there is: without it nobody gets a lock; use three or five " +
			"masters")
	case n == 2:
		f.warnf("two nodes make a quorum only together: when one fails nobody gets a lock; use " +
			"three or five masters")
	case n%2 == 0:
		f.infof("%d nodes tolerate as many failures as %d would (%d): one more would tolerate "+
			"another", n, n-1, (n-1)/2)
	}
}
