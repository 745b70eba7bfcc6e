package resp

// number is a decimal that comes digit by digit.
type number struct {
	value    uint64
	digits   int
	negative bool
}

// add takes the next byte. It returns false if no int64 has it there.
func (n *number) add(b byte) bool {
	switch {
	case b >= '0' && b <= '9' && n.digits < 19: // a uint64 has room for 19 digits
		n.value = n.value*10 + uint64(b-'0')
		n.digits++
		return true
	case b == '-' && n.digits == 0 && !n.negative:
		n.negative = true
		return true
	}
	return false
}

// int64 returns the number. ok is false if there is none, or if it is beyond an int64.
func (n *number) int64() (value int64, ok bool) {
	switch {
	case n.digits == 0:
		return 0, false
	case n.negative:
		return -int64(n.value), n.value <= 1<<63 // the least one is its own negative
	}
	return int64(n.value), n.value < 1<<63
}
