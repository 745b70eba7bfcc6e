package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/examples/orders"
	"github.com/lockpipe/lockpipe/examples/orders/database"
)

// settings are what the flags say.
type settings struct {
	command   string // as it was given
	databases []string
	ways      string // parts of names; all ways if empty
	pools     []int
	pays      []time.Duration
	durable   bool
	faults    bool
	page      string
	load      load
}

// parse reads the flags.
func parse(arguments []string) (*settings, error) {
	s := &settings{
		command:   strings.Join(arguments, " "),
		databases: []string{"postgres", "mariadb"},
		pools:     []int{32}, pays: []time.Duration{5 * time.Millisecond},
	}
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	list(flags, "db", "the databases to start: postgres,mariadb", &s.databases,
		func(text string) (string, error) {
			if kinds[text] == nil {
				return "", errors.New("want postgres, mariadb or both")
			}
			return text, nil
		})
	list(flags, "pool", "connections to the database; several are several cases: 10,32", &s.pools,
		func(text string) (int, error) {
			n, err := strconv.Atoi(text)
			if err == nil && n < 1 {
				err = errors.New("want a connection")
			}
			return n, err
		})
	list(flags, "pay", "how long the payment takes, outside of the database; several are several "+
		"cases: 0s,5ms,50ms", &s.pays, time.ParseDuration)
	flags.StringVar(&s.ways, "ways", "", "the ways that have one of these words in their name, "+
		"such as row,lockpipe; all if empty")
	flags.BoolVar(&s.durable, "fsync", false, "commits wait for the disk")
	flags.BoolVar(&s.faults, "faults", false, "break things while an order is paid, and show what "+
		"becomes of the last piece")
	flags.StringVar(&s.page, "page", "", "also write the tables as a page to this file")
	s.load.flags(flags)
	err := flags.Parse(arguments)
	if errors.Is(err, flag.ErrHelp) {
		flags.SetOutput(os.Stdout)
		flags.PrintDefaults()
		os.Exit(0)
	}
	if err == nil {
		err = s.load.check()
	}
	if err == nil && len(s.waysOn(database.Postgres)) == 0 {
		err = fmt.Errorf("-ways %s: no way has such a name", s.ways)
	}
	return s, err
}

// list makes a flag with values that commas separate.
func list[T any](flags *flag.FlagSet, name, usage string, values *[]T,
	parse func(string) (T, error),
) {
	flags.Func(name, usage, func(text string) error {
		*values = nil
		for word := range strings.SplitSeq(text, ",") {
			v, err := parse(word)
			if err != nil {
				return err
			}
			*values = append(*values, v)
		}
		return nil
	})
}

// waysOn returns the ways that a database can do and that are wanted.
func (s *settings) waysOn(kind *database.Kind) []orders.Way {
	return slices.DeleteFunc(orders.Ways(), func(w orders.Way) bool {
		return w.Postgres && kind.Name != database.Postgres.Name ||
			!slices.ContainsFunc(strings.Split(s.ways, ","), func(word string) bool {
				return strings.Contains(w.Name, word)
			})
	})
}
