package memorynode

import (
	"maps"
	"slices"
	"strings"
)

// subscribed are the commands that a client may send in RESP2 while it listens to channels.
var subscribed = []string{"SUBSCRIBE", "UNSUBSCRIBE", "PING", "QUIT", "RESET"}

// message makes what a session hears of a channel: a push in RESP3.
func (s *Session) message(kind, channel string) {
	s.messageHead(kind)
	s.text(channel)
}

func (s *Session) messageHead(kind string) {
	if s.resp3 {
		s.head('>', 3)
	} else {
		s.array(3)
	}
	s.text(kind)
}

func (s *Session) subscribe(args []string) {
	for _, channel := range args[1:] {
		channel = strings.Clone(channel)
		if s.channels == nil {
			s.channels = map[string]bool{}
		}
		if s.node.channels[channel] == nil {
			s.node.channels[channel] = map[*Session]bool{}
		}
		s.channels[channel], s.node.channels[channel][s] = true, true
		s.message("subscribe", channel)
		s.number(int64(len(s.channels)))
	}
}

func (s *Session) unsubscribe(args []string) {
	channels := args[1:]
	if len(channels) == 0 {
		channels = slices.Sorted(maps.Keys(s.channels))
	}
	for _, channel := range channels {
		delete(s.channels, channel)
		s.node.leave(channel, s)
		s.message("unsubscribe", channel)
		s.number(int64(len(s.channels)))
	}
	if len(channels) == 0 { // the client waits for a reply
		s.messageHead("unsubscribe")
		s.null()
		s.number(0)
	}
}

func (s *Session) publish(args []string) {
	listeners := s.node.inOrder(s.node.channels[args[1]])
	s.number(int64(len(listeners)))
	for _, l := range listeners {
		reply := l.out
		l.out = l.push
		l.message("message", args[1])
		l.text(args[2])
		l.push, l.out = l.out, reply
		s.node.notified = append(s.node.notified, l)
	}
}
