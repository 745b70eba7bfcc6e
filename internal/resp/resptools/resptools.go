// Package resptools has what tests and tools do with a server's replies, and no lock needs.
package resptools

import (
	"fmt"
	"strconv"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// Scan walks all keys of the selected database with SCAN and these options, and calls found with
// each. It may find a key twice.
func Scan(c *resp.Conn, found func(key string), options ...string) error {
	for cursor := "0"; ; {
		page, err := c.Ask(append([]string{"SCAN", cursor}, options...)...)
		if err != nil {
			return fmt.Errorf("SCAN: %w", err)
		}
		next, isString := append(page.Items, resp.Value{})[0].AsString()
		if len(page.Items) != 2 || !isString || next == "" || page.Items[1].Kind != '*' ||
			page.Items[1].Null {
			return fmt.Errorf("SCAN: not a cursor and keys: %v", Any(page))
		}
		for _, key := range page.Items[1].Items {
			found(key.Text)
		}
		if cursor = next; cursor == "0" {
			return nil
		}
	}
}

// Any returns the value in Go's types: a string, an int64, nil, an error (for an error that the
// server replied with), or a []any of these.
func Any(v resp.Value) any {
	switch {
	case v.Null:
		return nil
	case v.Kind == '-':
		return v.Err()
	case v.Kind == ':':
		n, _ := strconv.ParseInt(v.Text, 10, 64) // the Scanner has checked it
		return n
	case v.Kind == '*':
		items := make([]any, len(v.Items))
		for i, item := range v.Items {
			items[i] = Any(item)
		}
		return items
	}
	return v.Text
}
