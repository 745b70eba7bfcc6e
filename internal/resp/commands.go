package resp

// CommandScanner follows a stream of commands, however it is split. Its zero value is at the begin
// of a stream.
type CommandScanner struct {
	missing int  // strings of the unfinished command
	skip    int  // bytes left of the unfinished string and the end of its line
	header  byte // type of the unfinished header; 0 for none
	length  int  // in that header, as far as it came
}

// maxLength is beyond what is ever sent.
const maxLength = 1 << 30

// Begun reports whether a command has begun and is not complete.
func (c *CommandScanner) Begun() bool { return c.missing > 0 || c.header != 0 }

// Next follows p up to the end of one command. n is how many bytes of p that is, and complete
// reports whether the command ends there. ok is false if p is not a part of arrays of strings. Next
// runs for each string of each flush.
func (c *CommandScanner) Next(p []byte) (n int, complete, ok bool) {
	for i := 0; i < len(p); {
		if c.skip > 0 {
			n := min(c.skip, len(p)-i)
			i += n
			if c.skip -= n; c.skip == 0 {
				if c.missing--; c.missing == 0 {
					return i, true, true
				}
			}
			continue
		}
		if c.header == 0 {
			if c.header = '*'; c.missing > 0 {
				c.header = '$'
			}
			if p[i] != c.header {
				return i, false, false
			}
			c.length = 0
			i++
		}
		length := c.length
		for i < len(p) && p[i]-'0' <= 9 && length <= maxLength {
			length = length*10 + int(p[i]-'0')
			i++
		}
		c.length = length
		if i < len(p) && p[i] == '\r' {
			i++
		}
		if i < len(p) {
			if p[i] != '\n' || !c.endHeader() {
				return i, false, false
			}
			i++
		}
	}
	return len(p), false, true
}

// endHeader takes the header that is complete now. It returns false if the header makes no sense.
func (c *CommandScanner) endHeader() bool {
	if c.header == '*' {
		c.missing = c.length
	} else {
		c.skip = c.length + 2
	}
	c.header = 0
	return c.missing > 0 && c.length <= maxLength
}
