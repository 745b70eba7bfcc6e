package node

import (
	"github.com/lockpipe/lockpipe/internal/ids"
	"github.com/lockpipe/lockpipe/internal/resp"
)

// The value of a key is the token and the character of the node. Commands are encoded once for all
// nodes, with a place for that character. Each flush copies them, and sets the character of its
// node there. So a server that two names lead to gives only one of them its vote: the value that it
// has is not that of the other.

// header begins a command of n texts and values.
func (e *Encoding) header(n int) { e.bytes = resp.AppendHeader(e.bytes, '*', n) }

// texts adds texts to a command.
func (e *Encoding) texts(texts ...string) {
	for _, text := range texts {
		e.bytes = resp.AppendBulk(e.bytes, text)
	}
}

// value adds the value that a node has for a token, with a place for the node's character.
func (e *Encoding) value(token string) {
	e.bytes = append(resp.AppendHeader(e.bytes, '$', len(token)+1), token...)
	e.places = append(e.places, len(e.bytes))
	e.bytes = append(e.bytes, "=\r\n"...) // no node's character, should it ever be sent
}

// appendTo appends the commands as the node with this index is sent them.
func (e *Encoding) appendTo(dst []byte, node int) []byte {
	begin, char := len(dst), ids.NodeChar(node)
	dst = append(dst, e.bytes...)
	for _, at := range e.places {
		dst[begin+at] = char
	}
	return dst
}
