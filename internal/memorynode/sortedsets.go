package memorynode

import (
	"math"
	"strconv"
	"strings"
)

// scoresOf returns the sorted set of a key, nil if there is none. If the key is of another
// type, ok is false and the reply is made.
func (s *Session) scoresOf(key string) (scores map[string]float64, ok bool) {
	e, there := s.node.entry(key)
	if there && e.scores == nil {
		s.fail(wrongType)
		return nil, false
	}
	return e.scores, true
}

// addScores makes the reply to ZADD.
func (s *Session) addScores(args []string) {
	key, rest := args[1], args[2:]
	options := map[string]bool{}
	for len(rest) > 0 {
		option := strings.ToUpper(rest[0])
		if option != "GT" && option != "LT" && option != "NX" && option != "XX" && option != "CH" {
			break
		}
		options[option], rest = true, rest[1:]
	}
	if len(rest) == 0 || len(rest)%2 != 0 {
		s.fail(noSyntax)
		return
	}
	scores, ok := s.scoresOf(key)
	if !ok {
		return
	}
	if scores == nil {
		scores = map[string]float64{}
	}
	numbers := make([]float64, len(rest))
	for i := 0; i < len(rest); i += 2 {
		var err error
		if numbers[i], err = strconv.ParseFloat(rest[i], 64); err != nil || math.IsNaN(numbers[i]) {
			s.fail("ERR value is not a valid float")
			return
		}
	}
	added, changed := int64(0), int64(0)
	for i := 0; i < len(rest); i += 2 {
		score := numbers[i]
		old, had := scores[rest[i+1]]
		switch {
		case !had && !options["XX"]:
			added++
		case !had, options["NX"], score == old, options["GT"] && score < old,
			options["LT"] && score > old:
			continue
		default:
			changed++
		}
		scores[strings.Clone(rest[i+1])] = score
	}
	if added+changed > 0 {
		s.node.put(key, entry{scores: scores, end: s.node.keys[key].end})
	}
	if options["CH"] {
		added += changed
	}
	s.number(added)
}

// scores makes the reply to ZMSCORE.
func (s *Session) scores(args []string) {
	scores, ok := s.scoresOf(args[1])
	if !ok {
		return
	}
	s.array(len(args) - 2)
	for _, member := range args[2:] {
		s.oneScore(scores, member)
	}
}

// score makes the reply to ZSCORE.
func (s *Session) score(args []string) {
	if scores, ok := s.scoresOf(args[1]); ok {
		s.oneScore(scores, args[2])
	}
}

func (s *Session) oneScore(scores map[string]float64, member string) {
	if score, ok := scores[member]; ok {
		s.double(score)
	} else {
		s.null()
	}
}

// countScores makes the reply to ZCARD.
func (s *Session) countScores(args []string) {
	if scores, ok := s.scoresOf(args[1]); ok {
		s.number(int64(len(scores)))
	}
}

// Score returns the score of a member of a sorted set; 0: it is not there.
func (n *Node) Score(key, member string) float64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	e, _ := n.entry(key)
	return e.scores[member]
}

// SetScore gives a member of a sorted set a score; 0: it takes the member out.
func (n *Node) SetScore(key, member string, score float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e, _ := n.entry(key)
	if e.scores == nil {
		e.scores = map[string]float64{}
	}
	if e.scores[member] = score; score == 0 {
		delete(e.scores, member)
	}
	n.put(key, e)
	n.sendPushes(nil)
}
