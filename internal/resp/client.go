package resp

import (
	"fmt"
	"net"
)

// Client sends commands on a connection and reads their replies, one after the other. It is for one
// goroutine.
type Client struct {
	net.Conn
	in *Reader
}

// NewClient returns a Client on conn that takes replies within the limits.
func NewClient(conn net.Conn, limits Limits) *Client {
	return &Client{Conn: conn, in: NewReader(conn, limits)}
}

// Send sends one command.
func (c *Client) Send(args ...string) error {
	_, err := c.Write(AppendCommand(nil, args...))
	return err
}

// Receive reads the next reply, as Reader.Read does.
func (c *Client) Receive() (Value, error) { return c.in.Read() }

// Do sends one command and returns its reply. An error that the server replies with is an error.
func (c *Client) Do(args ...string) (Value, error) {
	if err := c.Send(args...); err != nil {
		return Value{}, err
	}
	v, err := c.Receive()
	if err != nil {
		return Value{}, err
	}
	return v, v.Err()
}

// Scan walks all keys of the selected database with SCAN and these options, and calls found with
// each. It may find a key twice.
func (c *Client) Scan(found func(key string), options ...string) error {
	for cursor := "0"; ; {
		page, err := c.Do(append([]string{"SCAN", cursor}, options...)...)
		if err != nil {
			return fmt.Errorf("SCAN: %w", err)
		}
		var keys []Value
		if cursor, keys, err = scanPage(page); err != nil {
			return err
		}
		for _, key := range keys {
			found(key.Text)
		}
		if cursor == "0" {
			return nil
		}
	}
}

// scanPage takes a reply to SCAN apart: the next cursor, "0" after the last page, and the keys.
func scanPage(page Value) (cursor string, keys []Value, err error) {
	if len(page.Items) == 2 {
		cursor, isString := page.Items[0].AsString()
		keys := page.Items[1]
		if isString && cursor != "" && keys.Kind == '*' && !keys.Null {
			return cursor, keys.Items, nil
		}
	}
	return "", nil, fmt.Errorf("SCAN: not a cursor and keys: %v", page.Any())
}
