// Command demo shows a page where row locks, lockpipe and combined orders serve one flash sale,
// side by side and live, while you change the load and break things. It starts a PostgreSQL in a
// temporary directory and five nodes, listens on 127.0.0.1 only, and leaves nothing when it ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/lockpipe/lockpipe/examples/orders/holder"
)

func main() {
	holder.Main()
	port := flag.Int("port", 8095, "the port of the page on 127.0.0.1; 0 takes a free one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *port, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run serves the page until ctx ends.
func run(ctx context.Context, port int, out io.Writer) (err error) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("%w: choose another port with -port", err)
	}
	defer listener.Close() //nolint:errcheck // the server has closed it, or it was never used
	fmt.Fprintln(out, "starting PostgreSQL and the nodes")
	b, err := startLab(load{Callers: 64, OutsideMs: 5, Products: flash})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close(out)) }()
	h := newHub()
	b.publish(h)
	page, err := handler(h, b)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d nodes (%s); the page is http://%v; Ctrl-C stops everything\n", nodeCount,
		b.nodes.Backend(), listener.Addr())
	return serve(ctx, listener, page)
}

// serve answers requests until ctx ends, and returns when the last of them has ended.
func serve(ctx context.Context, listener net.Listener, page http.Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := &http.Server{
		Handler: page, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	closing, end := context.WithTimeout(context.Background(), closeTimeout)
	defer end()
	return errors.Join(server.Shutdown(closing), ignoreClosed(<-failed))
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
