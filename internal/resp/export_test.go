package resp

// The limits of a checked reply, for tests.
const (
	MaxReply    = maxReply
	MaxLine     = maxLine
	MaxItems    = maxItems
	MaxNested   = maxNested
	LongestName = longestName
)
