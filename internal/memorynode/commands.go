package memorynode

import (
	"slices"
	"strconv"
	"strings"
)

// command is one that a node knows.
type command struct {
	words  int  // that it has at least, its name included
	writes bool // a replica refuses it
	newer  bool // only a node with Newer has it
	run    func(s *Session, args []string)
}

// commands has them by their names. It is filled at the start of the program, because some of its
// functions read it.
var commands map[string]command

func init() {
	commands = map[string]command{
		"PING": {words: 1, run: (*Session).ping},
		"ECHO": {words: 2, run: func(s *Session, args []string) { s.text(args[1]) }},
		"AUTH": {words: 2, run: (*Session).ok}, "SELECT": {words: 2, run: (*Session).ok},
		"QUIT": {words: 1, run: (*Session).ok}, "RESET": {words: 1, run: (*Session).ok},
		"HELLO":   {words: 1, run: (*Session).hello},
		"CLIENT":  {words: 2, run: (*Session).client},
		"INFO":    {words: 1, run: func(s *Session, _ []string) { s.text(s.node.info()) }},
		"CONFIG":  {words: 3, run: (*Session).config},
		"TIME":    {words: 1, run: (*Session).time},
		"CLUSTER": {words: 2, run: (*Session).cluster},

		"GET":         {words: 2, run: (*Session).getKey},
		"GETRANGE":    {words: 4, run: (*Session).getRange},
		"MGET":        {words: 2, run: (*Session).getKeys},
		"EXISTS":      {words: 2, run: (*Session).exists},
		"PTTL":        {words: 2, run: (*Session).pttlOf},
		"TTL":         {words: 2, run: (*Session).pttlOf},
		"TYPE":        {words: 2, run: (*Session).typeOf},
		"DBSIZE":      {words: 1, run: (*Session).countKeys},
		"SCAN":        {words: 2, run: (*Session).scan},
		"KEYS":        {words: 2, run: (*Session).keys},
		"SET":         {words: 3, writes: true, run: (*Session).set},
		"SETNX":       {words: 3, writes: true, run: (*Session).setIfMissing},
		"MSET":        {words: 3, writes: true, run: (*Session).setAll},
		"DEL":         {words: 2, writes: true, run: (*Session).del},
		"UNLINK":      {words: 2, writes: true, run: (*Session).del},
		"PEXPIRE":     {words: 3, writes: true, run: (*Session).expire},
		"EXPIRE":      {words: 3, writes: true, run: (*Session).expire},
		"PERSIST":     {words: 2, writes: true, run: (*Session).persist},
		"MSETEX":      {words: 3, writes: true, newer: true, run: (*Session).setTogether},
		"DELIFEQ":     {words: 3, writes: true, newer: true, run: (*Session).delIfEqual},
		"FLUSHALL":    {words: 1, writes: true, run: (*Session).flush},
		"FLUSHDB":     {words: 1, writes: true, run: (*Session).flush},
		"ZADD":        {words: 4, writes: true, run: (*Session).addScores},
		"ZSCORE":      {words: 3, run: (*Session).score},
		"ZMSCORE":     {words: 3, run: (*Session).scores},
		"ZCARD":       {words: 2, run: (*Session).countScores},
		"HGETALL":     {words: 2, run: (*Session).fields},
		"SCRIPT":      {words: 2, run: (*Session).script},
		"EVAL":        {words: 3, run: (*Session).eval},
		"EVALSHA":     {words: 3, run: (*Session).evalSHA},
		"PUBLISH":     {words: 3, run: (*Session).publish},
		"SUBSCRIBE":   {words: 2, run: (*Session).subscribe},
		"UNSUBSCRIBE": {words: 1, run: (*Session).unsubscribe},
	}
}

// realServer ends the errors about what the node does not know.
const realServer = ": this is a lockpipe node in memory, and not Redis; use redis-server for it"

// execute makes the reply to one command.
func (s *Session) execute(args []string) {
	n := s.node
	if n.Before != nil {
		if reply := n.Before(args); reply != "" {
			s.out = append(s.out, reply...)
			return
		}
	}
	name := args[0]
	c, known := commands[name]
	if !known {
		name = strings.ToUpper(name)
		c, known = commands[name]
	}
	switch {
	case !known || c.newer && !n.Newer:
		s.fail("ERR unknown command '" + printable(args[0]) + "'" + realServer)
	case len(args) < c.words:
		s.fail("ERR wrong number of arguments for '" + strings.ToLower(name) + "' command")
	case n.Cluster != nil && s.route(name, args):
	case c.writes && n.replica:
		s.fail(ReadOnly)
	case len(s.channels) > 0 && !s.resp3 && !slices.Contains(subscribed, name):
		s.fail("ERR Can't execute '" + strings.ToLower(name) + "': only (UN)SUBSCRIBE / PING / QUIT " +
			"are allowed in this context")
	default:
		c.run(s, args)
	}
	if name != "CLIENT" {
		s.caching = false
	}
}

// printable returns what an error may repeat of what a client sent.
func printable(text string) string {
	quoted := strconv.Quote(text[:min(len(text), 64)])
	return quoted[1 : len(quoted)-1]
}

func (s *Session) ok([]string) { s.status("OK") }

func (s *Session) ping(args []string) {
	switch {
	case len(s.channels) > 0 && !s.resp3:
		s.array(2)
		s.text("pong")
		s.text(strings.Join(args[1:], " "))
	case len(args) > 1:
		s.text(args[1])
	default:
		s.status("PONG")
	}
}
