// Package database starts a PostgreSQL and a MariaDB for tests and comparisons, in a temporary
// directory and without a network, and stops them.
package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

const readyTimeout = 30 * time.Second

// ErrMissing means that a program is not on the PATH; the text says what to install.
var ErrMissing = errors.New("is missing")

// Kind is a kind of database that Start can start.
type Kind struct {
	Name           string
	driver, source string // of database/sql; %s is the directory of the socket
	hint           string // what to install
	stop           os.Signal
	elsewhere      string // directories with the programs, a pattern; Debian's are not on the PATH
	// The program that makes the data directory, and its arguments; %s is the directory.
	initialize []string
	serve      []string
}

// Postgres and MariaDB do not wait for the disk, because their data is thrown away: see Durable.
var (
	Postgres = &Kind{
		Name: "postgres", driver: "pgx", source: "host=%s user=postgres database=postgres " +
			"sslmode=disable",
		hint: "apt-get install --no-install-recommends postgresql, or put initdb and postgres " +
			"on the PATH", stop: syscall.SIGINT, elsewhere: "/usr/lib/postgresql/*/bin",
		initialize: []string{
			"initdb", "-D", "%s/data", "-A", "trust", "-U", "postgres",
			"--no-sync", "--no-locale", "-E", "UTF8",
		},
		serve: []string{
			"postgres", "-D", "%s/data", "-k", "%s", "-c", "listen_addresses=",
			"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off",
		},
	}
	MariaDB = &Kind{
		Name: "mariadb", driver: "mysql",
		source: "root@unix(%s/socket)/test?interpolateParams=true",
		hint:   "apt-get install --no-install-recommends mariadb-server", stop: syscall.SIGTERM,
		initialize: []string{
			"mariadb-install-db", "--no-defaults", "--datadir=%s/data",
			"--auth-root-authentication-method=normal", "--skip-name-resolve",
		},
		serve: []string{
			"mariadbd", "--no-defaults", "--datadir=%s/data", "--socket=%s/socket",
			"--pid-file=%s/pid", "--skip-networking",
			"--skip-log-bin", "--innodb-flush-log-at-trx-commit=0",
			"--innodb-buffer-pool-size=128M",
		},
	}
)

// Durable returns the same kind, whose commits wait for the disk.
func (k *Kind) Durable() *Kind {
	durable := *k
	durable.serve = nil
	for _, word := range k.serve {
		for _, setting := range [][2]string{
			{"fsync=off", "fsync=on"},
			{"synchronous_commit=off", "synchronous_commit=on"},
			{"full_page_writes=off", "full_page_writes=on"},
			{"--innodb-flush-log-at-trx-commit=0", "--innodb-flush-log-at-trx-commit=1"},
		} {
			if word == setting[0] {
				word = setting[1]
			}
		}
		durable.serve = append(durable.serve, word)
	}
	return &durable
}

// Server is a running database.
type Server struct {
	DB *sql.DB
	// Driver and Source open the same database in another process, with sql.Open.
	Driver, Source string

	dir    string
	stop   os.Signal
	serve  *exec.Cmd     // nil: it was not started
	exited chan struct{} // closed when the process has ended
}

// Start starts a database and returns when it answers. The caller ends it with Close. The error is
// ErrMissing if its programs are not installed.
func (k *Kind) Start() (*Server, error) {
	found := *k
	for _, words := range []*[]string{&found.initialize, &found.serve} {
		program, err := k.find((*words)[0])
		if err != nil {
			return nil, err
		}
		*words = append([]string{program}, (*words)[1:]...)
	}
	dir, err := os.MkdirTemp("", "orders-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, stop: k.stop, exited: make(chan struct{})}
	if err := s.start(&found); err != nil {
		output, _ := os.ReadFile(filepath.Join(dir, "output"))
		return nil, errors.Join(fmt.Errorf("%s: %w: %.4000s", k.Name, err, output), s.Close())
	}
	return s, nil
}

// find returns the path of a program: on the PATH, or the last one elsewhere.
func (k *Kind) find(program string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	paths, err := filepath.Glob(filepath.Join(k.elsewhere, program))
	if k.elsewhere == "" || err != nil || len(paths) == 0 {
		return "", fmt.Errorf("%s %w: %s", program, ErrMissing, k.hint)
	}
	return paths[len(paths)-1], nil
}

func (s *Server) start(k *Kind) error {
	attributes, err := give(s.dir)
	if err != nil {
		return err
	}
	output, err := os.Create(filepath.Join(s.dir, "output"))
	if err != nil {
		return err
	}
	defer output.Close() //nolint:errcheck // nothing is written here
	command := func(words []string) *exec.Cmd {
		cmd := exec.Command(words[0], s.in(words[1:])...)
		cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = s.dir, output, output, attributes
		return cmd
	}
	s.Driver, s.Source = k.driver, s.in([]string{k.source})[0]
	if s.DB, err = sql.Open(s.Driver, s.Source); err != nil {
		return err
	}
	if err := command(k.initialize).Run(); err != nil {
		return err
	}
	serve := command(k.serve)
	started := make(chan error)
	go func() { // the thread that starts a child must live as long as the child: see attributes
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(s.exited)
		err := serve.Start()
		started <- err
		if err == nil {
			_ = serve.Wait() // how it ended does not matter
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.serve = serve
	return s.awaitReady()
}

// in replaces %s in words by the directory.
func (s *Server) in(words []string) []string {
	var filled []string
	for _, w := range words {
		filled = append(filled, strings.ReplaceAll(w, "%s", s.dir))
	}
	return filled
}

func (s *Server) awaitReady() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	for {
		err := s.DB.PingContext(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return errors.New("it ended before it was ready")
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Close stops the database and removes its directory.
func (s *Server) Close() error {
	var err error
	if s.DB != nil {
		err = s.DB.Close()
	}
	if s.serve != nil {
		_ = s.serve.Process.Signal(s.stop) // it may have ended already
		<-s.exited
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
