package endpoint

import "strconv"

// slots is how many slots a Redis Cluster has.
const slots = 16384

// slotOf returns the slot of node i of n. The slots of all nodes are spread evenly. They are fixed
// for ever: clients that disagree would not exclude each other.
func slotOf(i, n int) int { return slots * (2*i + 1) / (2 * n) }

// tagOf returns what the keys of a slot begin with: a cluster places a key by the part in braces
// alone. It is the first number of four digits, to the base 36, that belongs there. It is as fixed
// as the slots.
func tagOf(slot int) string {
	for n := int64(36 * 36 * 36); ; n++ {
		if text := strconv.FormatInt(n, 36); int(crc16(text))%slots == slot {
			return "{" + text + "}"
		}
	}
}

// crc16 is the checksum by which a cluster places keys: CRC-16/XMODEM.
func crc16(text string) (sum uint16) {
	for _, c := range []byte(text) {
		sum ^= uint16(c) << 8
		for range 8 {
			carry := sum >> 15
			sum = sum<<1 ^ carry*0x1021
		}
	}
	return sum
}
