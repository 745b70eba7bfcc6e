package multiplex

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
	"github.com/lockpipe/lockpipe/script"
	"github.com/redis/rueidis"
)

// handshake talks to a server on a connection that rueidis does not have yet, in RESP2, which every
// server knows. It reads exactly the replies to what it asked.
type handshake struct {
	conn net.Conn
	r    *resp.Reader
}

// handshakeLimits bound one reply in the handshake. INFO has a few kilobytes, CONFIG GET a few
// items, and SENTINEL MASTER some fifty: a server that sends more fails its node, and costs the
// process nothing.
var handshakeLimits = resp.Limits{Line: 4 << 10, Bytes: 64 << 10, Items: 128, Depth: 1}

func newHandshake(conn net.Conn) *handshake {
	return &handshake{conn: conn, r: resp.NewReader(conn, handshakeLimits)}
}

// question is one command of the handshake, and what its reply is good for. An error is why the
// server is of no use.
type question struct {
	command []string
	take    func(resp.Value) error // nil: whatever it replies
}

// errUnanswered: the server, or what stands before it, has hung up.
var errUnanswered = errors.New("the connection was closed before any answer")

// ask sends the questions in one write and takes the replies. After an error the connection is
// closed or to be closed.
func (h *handshake) ask(questions []question) error {
	if len(questions) == 0 {
		return nil
	}
	var request []byte
	for _, q := range questions {
		request = resp.AppendCommand(request, q.command...)
	}
	written := make(chan struct{})
	var unwritten error
	go func() {
		// Beside the reading: a connection without a buffer takes the rest only when the first
		// replies were read.
		defer close(written)
		_, unwritten = h.conn.Write(request)
	}()
	var first resp.Value
	var refused error
	for i, q := range questions {
		r, err := h.r.Read()
		if err != nil {
			_ = h.conn.Close()
			<-written
			return broken(i == 0, first, err)
		}
		if i == 0 {
			first = r
		}
		if q.take != nil { // also behind an error, which what follows may explain: see unfit
			refused = cmp.Or(refused, q.take(r))
		}
	}
	if <-written; unwritten != nil {
		return unwritten
	}
	if h.r.Buffered() > 0 {
		return resp.ErrNotRedis
	}
	return refused
}

// broken is why a connection ended during the handshake. A server that turns clients away says why
// in its first reply, and closes.
func broken(unanswered bool, first resp.Value, err error) error {
	switch {
	case strings.HasPrefix(first.Text, "DENIED ") && first.Kind == '-': // a page of advice follows
		sentence, _, _ := strings.Cut(first.Text, ". ")
		return errors.New(sentence)
	case first.Kind == '-':
		return fmt.Errorf("%s: %w", first.Text, err)
	case unanswered && hungUp(err):
		return errUnanswered // by either: which of them is chance
	}
	return err
}

// hungUp reports whether the other side has ended the connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

// sight is what a server shows of itself.
type sight struct {
	// runID is drawn anew at each start of a server; "" where it does not tell, and silence is why.
	runID   string
	silence error
	// unfit is why it can be no node, whatever else it shows.
	unfit error
	// uptime is in whole seconds, and may be a second too long or too short; negative where the
	// server does not tell. It was asked for at introduced.
	uptime     time.Duration
	introduced time.Time
	// durable: no answered write is lost at a restart.
	durable bool
	// rewritten: the append-only file was written anew since the server's start, as it is when it
	// is switched on after that.
	rewritten bool
	// replica: of another server at this moment.
	replica bool
	// promoted: it may have been a replica since its start, so what it forgot it may have forgotten
	// later.
	promoted bool
	// history names what the server's memory has become since it was another server's, or empty:
	// the run_id and the master_replid, which a server draws again when it is no replica any more.
	// "" if the server shows only one of them.
	history string
	// marker is the run_id of the server that was admitted here last, or a mark, or "" if there is
	// none. It expires after left, which was known at read. left is 0 or less if it does not
	// expire.
	marker string
	left   time.Duration
	read   time.Time
	// deletion is which command it has for releases.
	deletion deletion
	// client is the server's number of this connection; "" where it does not tell.
	client string
	// asked is before the marker was asked for: the process may stop before it has the reply.
	asked time.Time
	// own is the node's generation, and others are those that it keeps of other nodes.
	own    generation
	others map[string]int64
	// forgot: a later generation of the node is known. vouched: other nodes show that there is
	// none.
	forgot, vouched bool
}

// introduce authenticates, loads the scripts, lets the server tell of watched keys, if it can,
// selects the database, and wants to be allowed to delete, with the key of that name, which is not
// there. marker and generations are the keys to read; marker is "" where the guard is off. rueidis
// does some of it again.
func (h *handshake) introduce(o *rueidis.ClientOption, marker, generations, none string) (sight,
	error,
) {
	questions := credentials(o)
	questions = append(questions, permitted(none, marker != "")...)
	s := sight{uptime: -1, promoted: true}
	questions = append(questions, s.deletions(none)...)
	// No NOLOOP: the releases of this process are told as well.
	questions = append(questions, question{[]string{"CLIENT", "TRACKING", "ON", "OPTIN"}, busy})
	s.introduced = time.Now()
	s.asked = s.introduced
	if marker != "" {
		// Behind the marker: what was written for a new one is no fall.
		questions = append(s.questions(questions, marker), s.readGenerations(generations))
	} else { // the run_id is of use, if it is shown
		questions = append(questions, question{
			[]string{"INFO", "server"},
			func(r resp.Value) error {
				_ = s.server(r)
				return nil
			},
		})
	}
	err := h.ask(questions)
	if s.unfit != nil { // which explains all other errors
		err = s.unfit
	}
	if err != nil {
		s.marker = "" // behind an error it may be that of another database
	}
	return s, err
}

// credentials authenticates, and selects the database.
func credentials(o *rueidis.ClientOption) (questions []question) {
	switch {
	case o.Username != "":
		login := []string{"AUTH", o.Username, o.Password}
		questions = append(questions, question{login, resp.Value.Err})
	case o.Password != "":
		questions = append(questions, question{[]string{"AUTH", o.Password}, wrongPassword})
	}
	if o.SelectDB != 0 {
		database := []string{"SELECT", strconv.Itoa(o.SelectDB)}
		questions = append(questions, question{database, resp.Value.Err})
	}
	return questions
}

// unfit is why a server that shows these fields can be no node. A compatible server has a version
// of its own beside Redis', and may differ from that Redis.
func unfit(f map[string]string) error {
	var major, minor int
	version := f["redis_version"]
	known, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	another := false
	for name := range f {
		another = another || strings.HasSuffix(name, "_version") && name != "redis_version" &&
			name != "gcc_version"
	}
	_, dragonfly := f["dragonfly_version"] // which calls itself a cluster also where it is none
	switch mode := f["redis_mode"]; {
	case mode == "sentinel":
		return errors.New("it is a Redis Sentinel; give the masters themselves, " +
			"or add ?master_set=NAME with the master's name at the sentinels")
	case mode == "cluster" && !dragonfly:
		return errors.New("it is a node of a Redis Cluster; give independent masters " +
			"(cluster-enabled no)")
	case known == 2 && !another && (major < 6 || major == 6 && minor < 2):
		return fmt.Errorf("it runs Redis %.32s, which lacks what locks need; "+
			"give Redis 6.2 or later, or Valkey", version)
	}
	return nil
}

// permitted loads the scripts and asks whether a lock could be released: by a user who may set
// locks and not delete them, they would stay for their TTL. guarded: the script for the marker is
// needed as well.
func permitted(none string, guarded bool) (questions []question) {
	var unloaded error
	for _, s := range script.All() {
		questions = append(questions, question{
			[]string{"SCRIPT", "LOAD", s.Source},
			func(r resp.Value) error {
				unloaded = cmp.Or(unloaded, r.Err())
				return nil
			},
		})
	}
	missing := func(r resp.Value) error {
		if strings.HasPrefix(r.Text, "NOSCRIPT") {
			return unloaded
		}
		return nil
	}
	questions = append(
		questions,
		question{
			[]string{"EVALSHA", script.Release.SHA, "1", none, "1", "none"},
			func(r resp.Value) error {
				return cmp.Or(missing(r), forbidden(r))
			},
		},
		// Where the key of that name is not allowed, the script did not get so far.
		question{[]string{"MGET", none}, forbidden},
		question{[]string{"DEL", none}, forbidden},
	)
	if guarded {
		for _, s := range []*script.Script{script.WriteMarker, script.Renew} { // they write nothing
			questions = append(questions, question{[]string{
				"EVALSHA", s.SHA, "2", none, none,
				"seen", "wanted", "", "",
			}, missing})
		}
	}
	return questions
}

// forbidden takes the reply to a command that the user may not, or nobody can, use. What is said
// about the key of that name need not hold for those of locks, and another error may be that of the
// moment.
func forbidden(r resp.Value) error {
	code, text, _ := strings.Cut(r.Text, " ")
	if err := r.Err(); err != nil && (code == "NOPERM" || code == "ERR") &&
		strings.Contains(text, "command") {
		return fmt.Errorf("locks could not be released: %w", err)
	}
	return nil
}

// wrongPassword takes the reply to a password without a user. A server that wants none says so with
// a plain ERR, and is used without; from one that wants another, what follows is NOAUTH.
func wrongPassword(r resp.Value) error {
	if strings.HasPrefix(r.Text, "ERR ") {
		return nil
	}
	return r.Err()
}

// busy takes the reply to what is asked for once on a connection: a server that is busy for the
// moment is to be asked again, on another one.
func busy(r resp.Value) error {
	if strings.HasPrefix(r.Text, "BUSY ") {
		return r.Err()
	}
	return nil
}

// questions appends what the guard wants to know.
func (s *sight) questions(all []question, marker string) []question {
	all = append(
		all,
		question{[]string{"CLIENT", "ID"}, func(r resp.Value) error {
			if r.Kind == ':' {
				s.client = r.Text
			}
			return nil
		}},
		question{[]string{"INFO", "server"}, s.server},
		question{[]string{"INFO", "persistence"}, func(r resp.Value) error {
			f := resp.ParseInfo(r.Text)
			s.durable = f["aof_enabled"] == "1"
			s.rewritten = f["aof_last_rewrite_time_sec"] != "-1" ||
				f["aof_rewrite_in_progress"] != "0" || f["aof_rewrite_scheduled"] != "0"
			return nil
		}},
		question{[]string{"CONFIG", "GET", "*appendfsync*"}, func(r resp.Value) error {
			s.durable = s.durable && synced(r.Items)
			return nil
		}},
		question{[]string{"INFO", "replication"}, func(r resp.Value) error {
			f := resp.ParseInfo(r.Text)
			s.replica = f["role"] == "slave" || f["role"] == "replica"
			s.promoted = f["role"] != "master" || f["master_replid2"] == "" ||
				strings.Trim(f["master_replid2"], "0") != ""
			history := s.runID + "." + f["master_replid"]
			complete := s.runID != "" && f["master_replid"] != "" && f["master_replid2"] != ""
			if complete && !strings.Contains(history, ":") { // no mark could name it
				s.history = history
			}
			return nil
		}},
	)
	return append(all, s.get(marker)...)
}

// get asks for the marker, and then for how long it lasts: if another client replaces it in
// between, it looks younger.
func (s *sight) get(marker string) []question {
	return []question{
		{[]string{"GET", marker}, func(r resp.Value) error {
			s.marker, _ = r.AsString()
			if err := r.Err(); err != nil {
				return fmt.Errorf("the marker %q can't be read: %w", marker, err)
			}
			return nil
		}},
		{[]string{"PTTL", marker}, func(r resp.Value) error {
			ms, _ := strconv.ParseInt(r.Text, 10, 64) // after an error the client does without
			s.left, s.read = time.Duration(ms)*time.Millisecond, time.Now()
			return nil
		}},
	}
}

// look reads the marker again.
func (h *handshake) look(marker string, s *sight) error {
	s.asked = time.Now()
	return h.ask(s.get(marker))
}

// readGenerations asks for the node's generation, and those that it keeps.
func (s *sight) readGenerations(key string) question {
	return question{[]string{"GET", key}, func(r resp.Value) error {
		text, _ := r.AsString()
		s.own, s.others = readGenerations(text)
		if err := r.Err(); err != nil {
			return fmt.Errorf("the generations %q can't be read: %w", key, err)
		}
		return nil
	}}
}

// newGeneration is what a node is to keep that has forgotten something: a generation of its own, if
// it is durable, and those of others; empty to leave it without any.
func (s *sight) newGeneration(others []generation) (text string) {
	switch {
	case s.durable:
		text = newGenerationID() + "=1"
	case s.own.id == "" && len(others) == 0:
		return ""
	default:
		text = noGeneration
	}
	for _, g := range others {
		text += " " + g.id + "=" + strconv.FormatInt(g.number, 10)
	}
	return text
}

// leave puts a mark in the place of the marker that was seen, and reads what is there then. own
// reports whether it was written. Why not makes no difference to this client.
func (h *handshake) leave(marker, generations string, m mark, s *sight) (own bool, err error) {
	value, generation := m.text(), ""
	if s.own.id != "" && m.former == "" {
		generation = noGeneration
	}
	s.asked = time.Now()
	write := question{[]string{
		"EVALSHA", script.WriteMarker.SHA, "2", marker, generations, s.marker,
		value, m.expiry(), generation,
	}, nil}
	err = h.ask(append([]question{write}, s.get(marker)...))
	return s.marker == value, err
}

// server takes the reply to INFO server. An error that is about this user or this moment does not
// mean that the server knows no INFO.
func (s *sight) server(r resp.Value) error {
	if err := r.Err(); err != nil {
		s.silence = err
		code, _, _ := strings.Cut(r.Text, " ")
		switch {
		case code == "NOPERM":
			return fmt.Errorf("the restart guard can't use INFO: %w; give the user +info, or "+
				"use GuardOff", err)
		case notExecuted[code]:
			return err
		}
		return nil
	}
	text, ok := r.AsString()
	if !ok { // not even one without a run_id
		return resp.ErrNotRedis
	}
	f := resp.ParseInfo(text)
	s.runID, s.unfit = f["run_id"], unfit(f)
	if s.runID == "" {
		s.silence = errors.New("INFO shows no run_id")
	}
	if seconds, err := strconv.ParseUint(f["uptime_in_seconds"], 10, 31); err == nil {
		s.uptime = time.Duration(seconds) * time.Second
	}
	return nil
}

// synced reports whether the append-only file is on the disk before a write is answered, also while
// it is being rewritten.
func synced(config []resp.Value) bool {
	set := pairs(config)
	return set["appendfsync"] == "always" && set["no-appendfsync-on-rewrite"] == "no"
}

// pairs are names and values that take turns.
func pairs(items []resp.Value) map[string]string {
	all := make(map[string]string)
	for i := 0; i+1 < len(items); i += 2 {
		all[items[i].Text] = items[i+1].Text
	}
	return all
}

// end ends the connection that the Mux had before on this same server. What a stopped server has
// not read from it must not take effect behind the releases on the new one.
func end(former string) question { return question{[]string{"CLIENT", "KILL", "ID", former}, nil} }

// admission writes the marker, and the generation if there is one, if the marker is still what was
// seen: another client may have admitted the server meanwhile, and it may have been flushed.
func (s *sight) admission(marker, generations, generation string) question {
	command := []string{
		"EVALSHA", script.WriteMarker.SHA, "2", marker, generations, s.marker, s.runID,
		"", generation,
	}
	return question{command, func(r resp.Value) error {
		if err := r.Err(); err != nil {
			return fmt.Errorf("the marker %q can't be written: %w", marker, err)
		}
		if r.Text != "1" {
			return fmt.Errorf("the marker %q has changed since it was looked at", marker)
		}
		return nil
	}}
}
