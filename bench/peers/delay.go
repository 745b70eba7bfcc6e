package main

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// delayed is a connection to a place that is far away: what the server says arrives later by delay.
// Nothing is slower for it, any amount may be on its way. It is no proxy, because a proxy's CPU
// time would be taken from who is measured.
type delayed struct {
	net.Conn
	delay   time.Duration
	arrives chan packet
	over    chan struct{}
	close   sync.Once
	timer   *preciseTimer
	// owned by Read
	rest []byte // of the last packet
	err  error  // how reading ended; a deadline that passed is an end, too
}

// packet is what one Read returned, or how reading ended.
type packet struct {
	due  time.Duration // since epoch
	text []byte
	err  error
}

// onItsWay is how many packets may be under way before the server is made to wait.
const onItsWay = 1024

func newDelayed(conn net.Conn, delay time.Duration) (net.Conn, error) {
	a, err := newPreciseTimer()
	if err != nil {
		return nil, err
	}
	d := &delayed{
		Conn: conn, delay: delay, arrives: make(chan packet, onItsWay),
		over: make(chan struct{}), timer: a,
	}
	go d.carry()
	return d, nil
}

// carry takes what the server says when it says it. It ends with the connection.
func (d *delayed) carry() {
	buffer := make([]byte, 64<<10)
	for {
		n, err := d.Conn.Read(buffer)
		select {
		case d.arrives <- packet{time.Since(epoch) + d.delay, bytes.Clone(buffer[:n]), err}:
		case <-d.over:
			return
		}
		if err != nil {
			return
		}
	}
}

// Read is for one goroutine at a time.
func (d *delayed) Read(p []byte) (int, error) {
	for len(d.rest) == 0 {
		if d.err != nil {
			return 0, d.err
		}
		select {
		case next := <-d.arrives:
			d.timer.sleep(next.due - time.Since(epoch))
			d.rest, d.err = next.text, next.err
		case <-d.over:
			return 0, net.ErrClosed
		}
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// Close ends carry and Read.
func (d *delayed) Close() error {
	d.close.Do(func() {
		close(d.over)
		d.timer.close()
	})
	return d.Conn.Close()
}
