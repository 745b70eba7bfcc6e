package ids

import (
	"encoding/asn1"
	"strings"
)

// Handle is what a program needs to take over keys that another one has kept.
type Handle struct {
	Keys  []string // without the prefix
	Token string
	Fence int64 // the last number that the lease reserved; 0 without one
	// Sets stand for the sets of nodes in each of which the lease had a quorum.
	Sets []int64
}

// handleVersion begins the text of a handle. Behind it are the fields in ASN.1, as base64.
const handleVersion = "lp1."

// encodedHandle has bytes in place of strings, which ASN.1 wants in UTF-8.
type encodedHandle struct {
	Keys  [][]byte
	Token []byte
	Fence int64
	Sets  []int64
	Check int64 // of the text with a zero here, and of the prefix
}

// Text returns the handle of a client with this prefix, as text.
func (h *Handle) Text(prefix string) string {
	e := encodedHandle{Token: []byte(h.Token), Fence: h.Fence, Sets: h.Sets}
	for _, key := range h.Keys {
		e.Keys = append(e.Keys, []byte(key))
	}
	b, _ := asn1.Marshal(e) // which fails for other types alone
	e.Check = int64(Weight(string(b), prefix))
	b, _ = asn1.Marshal(e)
	return handleVersion + encoding.EncodeToString(b)
}

// ParseHandle reads what Text has returned. It returns false if the text is anything else, or that
// of a client with another prefix.
func ParseHandle(text, prefix string) (h Handle, ok bool) {
	var e encodedHandle
	encoded, _ := strings.CutPrefix(text, handleVersion)
	b, _ := encoding.DecodeString(encoded)
	if _, err := asn1.Unmarshal(b, &e); err != nil {
		return h, false
	}
	h = Handle{Token: string(e.Token), Fence: e.Fence, Sets: e.Sets}
	for _, key := range e.Keys {
		h.Keys = append(h.Keys, string(key))
	}
	return h, len(h.Keys) > 0 && isToken(h.Token) && h.Fence >= 0 && h.Fence <= MaxFence &&
		h.Text(prefix) == text
}
