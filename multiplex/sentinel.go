package multiplex

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
)

const (
	sentinelPort = "26379"
	// Each sentinel is asked once in sentinelEvery at least, at random times.
	sentinelEvery = time.Second
	// sentinelGrace is how long a connect waits for further sentinels when one has answered.
	sentinelGrace = 100 * time.Millisecond
	// sentinelPatience is how long a connect waits for the first one: it may dial and ask.
	sentinelTimeout = 2*dialTimeout + dialGrace
	// sentinelsAgree is how long sentinels need at most until all that reach each other name the
	// new master: each publishes what it knows every two seconds.
	sentinelsAgree = 2 * time.Second
	// deposedFor is for how long a client may use an old master after another client has seen the
	// new one. The sentinels have to agree, the client has to ask the next time, and the answer may
	// take as long as one may. A quarantine lasts that much longer, so what is granted meanwhile
	// excludes others too.
	deposedFor = sentinelsAgree + sentinelEvery + dialTimeout
)

// sentinels knows which server is the master of one node, if Sentinel watches that.
//
// Each sentinel has a goroutine with a connection of its own, which asks for the master again and
// again. All of them are asked, because a sentinel that was cut off from the others names the old
// master for as long as that lasts. The highest epoch wins: each failover has a higher one. An
// answer lasts for MaxTTL if its sentinel fails. So a stale sentinel does not lead the client back.
//
// When the master is another one than before, the client leaves the old one at once. That may take
// itself for a master still, and other clients lock on the new one when its quarantine is over.
//
// What lost: subscribing to +switch-master. The message comes sooner by half a second, may be
// missed, and a sentinel that is cut off never sends it. So the questions are needed anyway, and
// others wait for MaxTTL before they use the new master.
type sentinels struct {
	set       string
	all       []*sentinel
	reportTTL time.Duration // how long an answer lasts
	notify    func()        // called after each answer, by the goroutines of sentinels

	mu      sync.Mutex       // guards all below; a leaf
	changed chan struct{}    // closed when the next sentinel answers, or fails
	round   int              // the number of the last one that the keeper or an inspection asked
	reports []sentinelReport // of each sentinel
	using   string           // the master that the keeper connects to; "" before the first
	leave   context.CancelCauseFunc
}

// word is what one sentinel said last.
type sentinelReport struct {
	round   int       // it was asked after this question
	err     error     // why it did not answer then; nil if it did
	master  string    // host:port; "" if it never named any, or knows of none
	epoch   int64     // of the master's configuration; 0 if it does not tell
	namedAt time.Time // when it named the master
}

// sentinel is one of them.
type sentinel struct {
	index    int
	set      string
	endpoint *endpoint
	wanted   chan struct{} // of capacity 1: an answer is wanted

	// Owned by the goroutine of the sentinel:
	dialer   *dialer
	conn     *resp.Conn // nil while not connected
	answered bool       // once at least
}

// switchedError is why a connection was given up, or not made.
type switchedError struct{ from, to string }

func (e *switchedError) Error() string {
	return fmt.Sprintf("the sentinels name %s as the master now, in place of %s", e.to, e.from)
}

// sentinelParameters are those of a URL that only a master by Sentinel has.
var sentinelParameters = [...]string{
	"addr", "master_set", "sentinel_user", "sentinel_password", "sentinel_tls",
}

// ofSentinels returns the first of them that is there; "" if there is none.
func sentinelParameter(query url.Values) string {
	for _, name := range sentinelParameters {
		if query.Has(name) {
			return name
		}
	}
	return ""
}

// bySentinel reads the parameters of a master by Sentinel.
func (e *endpoint) bySentinel(u *url.URL, tlsConfig *tls.Config) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
	query := u.Query()
	e.masterSet = query.Get("master_set")
	if e.masterSet == "" || strings.Trim(e.masterSet, letters) != "" {
		return badURL("master_set has to be a name of letters, digits and . - _")
	}
	if query.Get("sentinel_user") != "" && query.Get("sentinel_password") == "" {
		return badURL("it has sentinel_user, and sentinel_password is missing")
	}
	if secure := e.option.TLSConfig; secure != nil && tlsConfig == nil {
		secure.ServerName = "" // rueidis takes the sentinel's, and the master is another server
	}
	s := endpoint{network: "tcp"}
	s.option.Username = query.Get("sentinel_user")
	s.option.Password = query.Get("sentinel_password")
	if query.Has("sentinel_tls") {
		wanted, err := strconv.ParseBool(cmp.Or(query.Get("sentinel_tls"), "true"))
		switch {
		case err != nil:
			return badURL("sentinel_tls is neither true nor false")
		case wanted && e.option.TLSConfig == nil:
			return badURL("sentinel_tls needs a master with TLS: use rediss://")
		case wanted:
			s.option.TLSConfig = e.option.TLSConfig
		}
	}
	for _, text := range append([]string{u.Host}, query["addr"]...) {
		address, err := sentinelAddress(text)
		if err != nil {
			return err
		}
		s.address = address
		same := func(other endpoint) bool { return other.address == address }
		if slices.ContainsFunc(e.sentinels, same) {
			return badURL("it names the sentinel " + address + " twice")
		}
		e.sentinels = append(e.sentinels, *s.withAddress(address))
	}
	e.address = e.sentinels[0].address
	e.name = e.masterSet + "@" + e.address
	for i := range e.sentinels {
		e.sentinels[i].name = e.name
	}
	return nil
}

// sentinelAddress reads host, or host:port. The text may be a piece of a password, so the error
// does not show it.
func sentinelAddress(text string) (string, error) {
	u, err := url.Parse("//" + strings.ToLower(text))
	if err != nil || u.Hostname() == "" || u.Host != strings.ToLower(text) ||
		strings.ContainsAny(u.Hostname(), ", ") {
		return "", badURL("addr has to be host:port of one sentinel")
	}
	port := cmp.Or(u.Port(), sentinelPort)
	if !isPort(port) {
		return "", badURL("the port of a sentinel is not a number from 1 to 65535")
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// newSentinels returns those of a node; nil if it has none.
func newSentinels(e *endpoint, m *Mux, notify func()) *sentinels {
	if e.masterSet == "" {
		return nil
	}
	all := &sentinels{
		set: e.masterSet, reportTTL: m.cfg.MaxTTL, notify: notify,
		changed: make(chan struct{}), reports: make([]sentinelReport, len(e.sentinels)),
	}
	for i := range e.sentinels {
		s := &e.sentinels[i]
		all.all = append(all.all, &sentinel{
			index: i, set: e.masterSet, endpoint: s, wanted: make(chan struct{}, 1),
			dialer: newDialer(s, m.cfg.Dial, m.cfg.Logger),
		})
	}
	return all
}

// run starts the goroutines. They end with ctx, and wait returns when they have.
func (all *sentinels) run(ctx context.Context) (wait func()) {
	var running sync.WaitGroup
	for _, s := range all.all {
		running.Go(func() { s.run(ctx, all) })
	}
	return running.Wait
}

// master asks all sentinels, and returns the address of the master when all have answered, or soon
// after the first.
func (all *sentinels) findMaster(ctx context.Context) (string, error) {
	round := all.startRound()
	late := time.NewTimer(sentinelTimeout)
	defer late.Stop()
	for first := true; ; {
		answers, open, changed := all.progress(round)
		if open == 0 {
			return all.decide(round)
		}
		if answers > 0 && first {
			first = false
			late.Reset(sentinelGrace)
		}
		select {
		case <-changed:
		case <-late.C:
			return all.decide(round)
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

// ask wants a new answer of each sentinel.
func (all *sentinels) startRound() (round int) {
	all.mu.Lock()
	all.round++
	round = all.round
	all.mu.Unlock()
	for _, s := range all.all {
		notify(s.wanted)
	}
	return round
}

// count returns how many sentinels have answered a question, how many may do so yet, and what is
// closed when the next one does.
func (all *sentinels) progress(round int) (answers, open int, changed <-chan struct{}) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, w := range all.reports {
		switch {
		case w.round < round:
			open++
		case w.err == nil:
			answers++
		}
	}
	return answers, open, all.changed
}

// decide returns the master by what was heard, if a sentinel has answered the question. The error
// has a reason for each sentinel.
func (all *sentinels) decide(round int) (string, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	answered := false
	var reasons []string
	for i, w := range all.reports {
		answered = answered || w.err == nil && w.round >= round
		err := w.err
		if err == nil {
			err = fmt.Errorf("sentinel %s: no answer in time", all.all[i].endpoint.address)
		}
		reasons = append(reasons, err.Error())
	}
	if master := all.newest(); answered && master != "" {
		return master, nil
	}
	return "", errors.New("no sentinel names the master: " + strings.Join(reasons, "; "))
}

// newest returns the master of the highest epoch; "" if nobody names any. mu is held.
func (all *sentinels) newest() string {
	var best sentinelReport
	for _, w := range all.reports {
		switch {
		case w.master == "" || w.err != nil && time.Since(w.namedAt) > all.reportTTL:
		case best.master == "" || w.epoch > best.epoch:
			best = w
		case w.epoch == best.epoch && w.master == all.using: // it needs a reason to leave
			best = w
		}
	}
	return best.master
}

// hear takes what a sentinel says.
func (all *sentinels) takeReport(place int, w sentinelReport) {
	all.mu.Lock()
	var none *unknownSetError
	if before := all.reports[place]; w.err != nil && !errors.As(w.err, &none) {
		w.master, w.epoch, w.namedAt = before.master, before.epoch, before.namedAt
	}
	all.reports[place] = w
	master := all.newest()
	if all.leave != nil && master != "" && master != all.using {
		all.leave(&switchedError{all.using, master})
	}
	close(all.changed)
	all.changed = make(chan struct{})
	all.mu.Unlock()
	all.notify()
}

// use is called by the keeper before it connects to the master. The context that it returns ends
// with a switchedError when another server becomes the master.
func (all *sentinels) startUsing(
	ctx context.Context, master string,
) (context.Context, context.CancelCauseFunc) {
	ctx, leave := context.WithCancelCause(ctx)
	all.mu.Lock()
	defer all.mu.Unlock()
	all.using, all.leave = master, leave
	if newest := all.newest(); newest != "" && newest != master {
		leave(&switchedError{master, newest})
	}
	return ctx, leave
}

// named is the master by what was heard; "" if nobody names any.
func (all *sentinels) newestMaster() string {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.newest()
}

// inUse is the master that the keeper connects to.
func (all *sentinels) usedMaster() string {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.using
}

// run asks again and again.
func (s *sentinel) run(ctx context.Context, all *sentinels) {
	defer s.hangUp()
	for {
		all.mu.Lock()
		round := all.round
		all.mu.Unlock()
		w := s.ask(ctx)
		w.round = round
		if ctx.Err() != nil {
			return
		}
		all.takeReport(s.index, w)
		pause := time.NewTimer(sentinelEvery/2 + rand.N(sentinelEvery/2))
		select {
		case <-s.wanted:
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
	}
}

// ask asks once, over the connection that is there or a new one.
func (s *sentinel) ask(ctx context.Context) (w sentinelReport) {
	for {
		kept := s.conn != nil
		w = sentinelReport{namedAt: time.Now()}
		if w.err = s.query(ctx, &w); w.err == nil {
			s.answered = true
			return w
		}
		s.hangUp()
		if !kept || ctx.Err() != nil { // the sentinel may have ended the connection long ago
			w.err = s.withRemedy(w.err)
			return w
		}
	}
}

// hangUp closes the connection, if there is one.
func (s *sentinel) hangUp() {
	if s.conn != nil {
		_ = abort(s.conn.Conn)
		s.conn = nil
	}
}

// converse sends the questions. The first one is for the epoch, so a change between the two makes a
// new master look older, and not the other way round.
func (s *sentinel) query(ctx context.Context, w *sentinelReport) error {
	var steps []resp.Step
	if s.conn == nil {
		conn, err := s.dialer.open(ctx)
		if err != nil {
			return err
		}
		s.conn, steps = resp.NewConn(conn), credentials(&s.endpoint.option)
	}
	conn := s.conn.Conn
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = abort(conn) })
	err := s.conn.Do(append(
		steps,
		resp.Step{Command: []string{"SENTINEL", "MASTER", s.set}, OnReply: w.takeEpoch},
		resp.Step{
			Command: []string{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.set}, OnReply: w.takeMaster,
		},
	)...)
	if !stop() && err != nil {
		return errSilent
	}
	return err
}

// takeEpoch takes the fields of the master. A sentinel that does not show them has the epoch 0. But
// if only its user may not see them, a stale sentinel could win, so that is an error.
func (w *sentinelReport) takeEpoch(r resp.Value) error {
	if strings.HasPrefix(r.Text, "NOPERM ") {
		return r.Err()
	}
	for i := 0; i+1 < len(r.Items); i += 2 {
		if r.Items[i].Text == "config-epoch" {
			w.epoch, _ = strconv.ParseInt(r.Items[i+1].Text, 10, 64)
		}
	}
	return nil
}

// unknownSetError is the answer of a sentinel that does not know the master.
type unknownSetError struct{}

func (*unknownSetError) Error() string { return "it knows no such master set" }

// takeMaster takes host and port of the master.
func (w *sentinelReport) takeMaster(r resp.Value) error {
	switch {
	case r.Err() != nil:
		return r.Err()
	case r.Null:
		return new(unknownSetError)
	case len(r.Items) != 2 || !isHost(r.Items[0].Text) || !isPort(r.Items[1].Text):
		return resp.ErrNotRedis
	}
	w.master = net.JoinHostPort(r.Items[0].Text, r.Items[1].Text)
	return nil
}

// isHost reports whether a sentinel's answer can be the name or the address of a host.
func isHost(text string) bool {
	return text != "" && len(text) <= 255 && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r > '~'
	})
}

// explained is the error of a sentinel, with what to do about it and without a password.
func (s *sentinel) withRemedy(err error) error {
	text := withoutPassword(err, s.endpoint.option.Password).Error()
	var none *unknownSetError
	remedy := ""
	switch {
	case errors.As(err, &none):
		return fmt.Errorf("sentinel %s knows no master set %q: correct master_set in the node's "+
			"URL, or let the sentinel monitor it (%w)", s.endpoint.address, s.set, err)
	case strings.HasPrefix(text, "NOAUTH "):
		remedy = ": put sentinel_password into the node's URL"
	case strings.HasPrefix(text, "WRONGPASS "):
		remedy = ": correct sentinel_user and sentinel_password in the node's URL"
	case strings.HasPrefix(text, "NOPERM "):
		remedy = ": give the user at the sentinels " +
			"+sentinel|get-master-addr-by-name and +sentinel|master"
	case strings.Contains(text, "unknown command"):
		remedy = ": it is no sentinel; give the address of one, or leave out master_set"
	case err == resp.ErrUnanswered && !s.answered && s.endpoint.option.TLSConfig == nil:
		remedy = "; if the sentinel wants TLS, give rediss:// and sentinel_tls=true"
	}
	return fmt.Errorf("sentinel %s: %s%s", s.endpoint.address, text, remedy)
}
