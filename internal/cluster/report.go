package cluster

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockpipe/lockpipe/internal/endpoint"
	"github.com/lockpipe/lockpipe/internal/resp"
)

// report is what one server said last.
type report struct {
	at        time.Duration // before it was asked, by Cluster.now
	id        string        // its own
	ids       []string      // of all servers that it knows
	addresses []string      // of those that have one
	owners    []owner       // of each of Cluster.slots
}

// owner is the server that has a slot; the zero value if none does.
type owner struct {
	id, address string
	epoch       int64 // of its configuration
}

// parse reads the reply of a server to CLUSTER NODES. Servers that are just being met have no ID of
// their own yet.
func (c *Cluster) parse(text string, from *endpoint.Endpoint) (r report, err error) {
	r.owners = make([]owner, len(c.slots))
	for line := range strings.Lines(text) {
		// ID, address, flags, master, ping, pong, epoch, link, and then the slots.
		words := strings.Fields(line)
		if len(words) < 8 {
			return r, resp.ErrNotRedis
		}
		flags := strings.Split(words[2], ",")
		if slices.Contains(flags, "handshake") {
			continue
		}
		self := slices.Contains(flags, "myself")
		o := owner{id: words[0], address: addressOf(words[1], self, from)}
		if o.epoch, err = strconv.ParseInt(words[6], 10, 64); err != nil {
			return r, resp.ErrNotRedis
		}
		if self {
			r.id = o.id
		}
		r.ids = append(r.ids, o.id)
		if o.address != "" {
			r.addresses = append(r.addresses, o.address)
		}
		for i, s := range c.slots {
			if slices.Contains(flags, "master") && hasSlot(words[8:], s.number) {
				r.owners[i] = o
			}
		}
	}
	if r.id == "" {
		return r, resp.ErrNotRedis
	}
	return r, nil
}

// addressOf reads ip:port@bus,hostname. It returns "" if that has no address. With TLS the name
// counts, which the certificate has. A server that has not learned its own address is where it was
// asked.
func addressOf(text string, self bool, from *endpoint.Endpoint) string {
	text, names, _ := strings.Cut(text, ",")
	name, _, _ := strings.Cut(names, ",")
	text, _, _ = strings.Cut(text, "@")
	colon := strings.LastIndex(text, ":")
	if colon < 0 || !endpoint.IsPort(text[colon+1:]) {
		return ""
	}
	host := text[:colon]
	switch {
	case name != "" && !strings.Contains(name, "=") && (from.TLS != nil || host == ""):
		host = name
	case host == "" && self:
		host, _, _ = net.SplitHostPort(from.Address)
	}
	if host == "" || strings.ContainsAny(host, " /") {
		return ""
	}
	return net.JoinHostPort(strings.ToLower(host), text[colon+1:])
}

// hasSlot reports whether a slot is in one of these ranges, such as 0-5460 and 7000. Those in
// brackets are about moves under way.
func hasSlot(ranges []string, slot int) bool {
	return slices.ContainsFunc(ranges, func(text string) bool {
		begin, end, isRange := strings.Cut(text, "-")
		first, err := strconv.Atoi(begin)
		last := first
		if isRange && err == nil {
			last, err = strconv.Atoi(end)
		}
		return err == nil && first <= slot && slot <= last
	})
}
