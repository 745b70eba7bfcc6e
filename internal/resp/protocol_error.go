package resp

import "fmt"

// ProtocolError is the error of bytes that no Redis server sends in reply to what it was asked.
type ProtocolError string

// Error returns what is wrong with the bytes.
func (e ProtocolError) Error() string { return string(e) }

func protocolErr(format string, args ...any) error {
	return ProtocolError(fmt.Sprintf("protocol error: "+format, args...))
}

// Unasked returns the error of a reply that begins with b, and that no command asked for.
func Unasked(b byte) error {
	return protocolErr("a reply of type %q that no command asked for", b)
}

// errHalfEnd is the error of a line that ends with a carriage return or a line feed alone.
var errHalfEnd = protocolErr("a line without its whole end")
