package holder

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/lockpipe/lockpipe/examples/orders"
)

// variable says that this process is a holder. Its value is a Job.
const variable = "ORDERS_HOLDER"

// The lines that a holder and the process that started it say.
const (
	saysPaying = "paying"
	saysPaid   = "paid"
)

// Main does a holder's job and ends the process, if Start has started it as one. Otherwise Main
// returns at once. A program that calls Start calls Main first.
func Main() {
	text, isHolder := os.LookupEnv(variable)
	if !isHolder {
		return
	}
	if err := hold(context.Background(), text, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "holder:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// hold does a job, which is JSON. It says when it pays, and pays until a line comes in. It says how
// the order ended.
func hold(ctx context.Context, text string, in io.Reader, out io.Writer) error {
	var j Job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	db, err := sql.Open(j.Driver, j.Source)
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // the process ends
	lines := bufio.NewScanner(in)
	pay := func(context.Context, orders.Order) error {
		fmt.Fprintln(out, saysPaying)
		if !lines.Scan() {
			return errors.New("nobody waits for the holder any more")
		}
		return nil
	}
	store := orders.NewMariaDB(db)
	if j.Driver == "pgx" {
		store = orders.NewPostgres(db)
	}
	free := func(context.Context, orders.Order) error { return nil }
	b, err := orders.Connect(store, j.Nodes, j.Prefix, pay, free)
	if err != nil {
		return err
	}
	for _, way := range orders.Ways() {
		if way.Name != j.Way {
			continue
		}
		answer := Placed
		if err := way.Open(b).Place(ctx, orders.NewOrder(j.Order, 0)); err != nil {
			answer = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		fmt.Fprintln(out, answer)
		return nil
	}
	return fmt.Errorf("there is no way %q", j.Way)
}
