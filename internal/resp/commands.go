package resp

// CommandCounter follows a stream of commands, however it is split. Its zero value is at the begin
// of a stream.
type CommandCounter struct {
	missing int  // strings of the unfinished command
	skip    int  // bytes left of the unfinished string and the end of its line
	header  byte // type of the unfinished header; 0 for none
	length  int  // in that header, as far as it came
}

// maxLength is beyond what is ever sent.
const maxLength = 1 << 30

// Count returns how many commands end in p. ok is false if p is not a part of arrays of strings. It
// runs for each string of each flush.
func (c *CommandCounter) Count(p []byte) (ended int64, ok bool) {
	for i := 0; i < len(p); {
		if c.skip > 0 {
			n := min(c.skip, len(p)-i)
			i += n
			if c.skip -= n; c.skip == 0 {
				if c.missing--; c.missing == 0 {
					ended++
				}
			}
			continue
		}
		if c.header == 0 {
			if c.header = '*'; c.missing > 0 {
				c.header = '$'
			}
			if p[i] != c.header {
				return ended, false
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
				return ended, false
			}
			i++
		}
	}
	return ended, true
}

// endHeader takes the header that is complete now. It returns false if the header makes no sense.
func (c *CommandCounter) endHeader() bool {
	if c.header == '*' {
		c.missing = c.length
	} else {
		c.skip = c.length + 2
	}
	c.header = 0
	return c.missing > 0 && c.length <= maxLength
}
