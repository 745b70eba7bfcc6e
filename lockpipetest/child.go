package lockpipetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/lockpipe/lockpipe/internal/resp"
)

const (
	// From the start of a child to its first answer; about 30 ms on an idle machine.
	readyTimeout  = 20 * time.Second
	probeTimeout  = time.Second          // for asking once whether it is ready
	probeInterval = 2 * time.Millisecond // between two probes
	// How long to wait for a dead child's output, in case a process of its own still holds the
	// pipe.
	outputWait = 500 * time.Millisecond
)

// child is a redis-server process.
type child struct {
	// Set once.
	cmd    *exec.Cmd
	output *cappedBuffer // of both streams
	exited chan struct{} // closed when the process is gone and has been waited for
}

// redisLauncher returns the launchFunc of real servers; path is the program.
func redisLauncher(s *spawner, path string, debugSettings bool) launchFunc {
	return func(addr string) (server, error) {
		args, err := redisArgs(addr, debugSettings)
		if err != nil {
			return nil, err
		}
		return launchChild(s, addr, exec.Command(path, args...))
	}
}

// launchChild starts cmd and returns when that process answers at addr.
func launchChild(s *spawner, addr string, cmd *exec.Cmd) (server, error) {
	c := &child{cmd: cmd, output: &cappedBuffer{}, exited: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.output
	c.cmd.WaitDelay = outputWait
	c.cmd.SysProcAttr = childAttr()
	if err := s.start(c.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	go c.reap()
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	if err := c.awaitReady(ctx, addr); err != nil {
		return nil, errors.Join(err, c.kill())
	}
	return c, nil
}

// reap waits for the process to end; cmd.ProcessState says how it ended. Wait also reports a bad
// exit status and an abandoned output pipe, but neither matters here.
func (c *child) reap() {
	_ = c.cmd.Wait()
	close(c.exited)
}

// awaitReady returns when this child, and no stray server on the same port, answers at addr. It
// returns an error if the child exits or ctx ends.
func (c *child) awaitReady(ctx context.Context, addr string) error {
	pause := time.NewTicker(probeInterval)
	defer pause.Stop()
	for {
		err := c.probe(addr)
		if err == nil {
			return nil
		}
		select {
		case <-c.exited:
			return fmt.Errorf("%s at %s ended before it was ready (%v): %s", c.cmd.Path, addr,
				c.cmd.ProcessState, c.output)
		case <-ctx.Done():
			return fmt.Errorf("%s at %s is not ready (%w): %w", c.cmd.Path, addr, err, ctx.Err())
		case <-pause.C:
		}
	}
}

// probe asks the server at addr for its process id. A PING would not be enough: a server that was
// there before would answer it in place of the child, which could not bind the port and is about to
// exit.
func (c *child) probe(addr string) error {
	reply, err := ask(addr, probeTimeout, "INFO", "server")
	if err != nil {
		return err
	}
	pid, found := resp.ParseInfo(reply.Text)["process_id"]
	if !found {
		return errors.New("the server there does not show its process id")
	}
	if pid != strconv.Itoa(c.cmd.Process.Pid) {
		return fmt.Errorf("process %s answers there instead of %d", pid, c.cmd.Process.Pid)
	}
	return nil
}

func (c *child) freeze() error {
	if c.hasExited() {
		return errNotRunning
	}
	err := stopProcess(c.cmd.Process)
	if errors.Is(err, errNotRunning) {
		<-c.exited // it was ending: from now on hasExited is true
	}
	return err
}

func (c *child) thaw() error {
	if c.hasExited() {
		return errNotRunning
	}
	return continueProcess(c.cmd.Process)
}

// kill needs no thaw first: SIGKILL ends a stopped process too.
func (c *child) kill() error {
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-c.exited
	return nil
}

func (c *child) hasExited() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// redisArgs returns the flags of a server that keeps nothing, starts empty, and permits tests every
// command.
func redisArgs(addr string, debugSettings bool) ([]string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	args := []string{
		"--port", port,
		"--bind", host,
		"--daemonize", "no",
		"--loglevel", "warning",
		// Nothing is written, so no directory is needed, which would outlive a killed parent. But a
		// server LOADS a dump file that it finds at its start, hence a name that is new.
		"--save", "",
		"--appendonly", "no",
		"--dir", scratchDir(),
		"--dbfilename", "lockpipetest-" + rand.Text() + ".rdb",
		// A test may make one node the replica of another. That needs no files either.
		"--repl-diskless-sync", "yes",
		"--repl-diskless-sync-delay", "0",
		"--repl-diskless-load", "swapdb",
	}
	if debugSettings {
		// For DEBUG SLEEP, and for CONFIG SET dir in a test that wants persistence in a directory
		// of its own.
		args = append(args, "--enable-debug-command", "local", "--enable-protected-configs",
			"local")
	}
	return args, nil
}

var versionPattern = regexp.MustCompile(`\bv=(\d+)\.`)

// debugSettings has what askDebugSettings returned, by path. To ask costs as much as a start.
var debugSettings sync.Map

// hasDebugSettings is askDebugSettings, which it calls once for each program.
func hasDebugSettings(path string) bool {
	if has, known := debugSettings.Load(path); known {
		return has.(bool)
	}
	has := askDebugSettings(path)
	debugSettings.Store(path, has)
	return has
}

// askDebugSettings reports whether this server has the enable-... settings: since 7.0. An older
// server refuses to start with a setting that it does not know, and has the commands enabled
// anyway.
func askDebugSettings(path string) bool {
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return true
	}
	match := versionPattern.FindSubmatch(out)
	if match == nil {
		return true
	}
	major, err := strconv.Atoi(string(match[1]))
	return err != nil || major >= 7
}
