package multiplex

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockpipe/lockpipe/batch"
	"github.com/lockpipe/lockpipe/internal/node"
	"github.com/lockpipe/lockpipe/internal/quorum"
	"github.com/stretchr/testify/require"
)

// answer is what a node says to an extension, and when.
type answer struct {
	node   int
	after  time.Duration
	answer node.Answer
}

// The goal: in a round with claims of some of the quorum systems, each caller learns its outcome at
// the moment at which the votes decide it, however and whenever the nodes answer. That is so too if
// nothing is recorded: all nodes are asked, and all grant.
func TestJoint_NobodySleepsPastTheDecision(t *testing.T) {
	t.Parallel()
	granted := node.Answer{Vote: node.Granted, Replied: true}
	all := []node.Answer{
		granted, granted,
		{Vote: node.Refused, Replied: true, KeyIndex: -1},
		{LeftNothing: true, Replied: true, Err: errBroken},
		{Broken: true, Err: errBroken},
	}
	// Those in use; the others need every node, so they never decide first.
	systems := slices.Repeat([]quorum.System{quorum.NewSystem(1, 2, 4, 8, 16, 32)}, 201)
	inUse := []uint8{0, 1, 70, 200} // the last one does not have all nodes
	systems[0] = quorum.NewSystem(0b000111, 0b111000)
	systems[1] = quorum.NewSystem(0b111111)
	systems[70] = quorum.NewSystem(0b000011, 0b111110)
	systems[200] = quorum.NewSystem(0b111000)
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		synctest.Test(t, func(t *testing.T) {
			m, stores, stop := simulated(6, 1, 0)
			defer stop()
			m.systems = systems
			of, all := slices.Clone(inUse), all
			if seed%2 == 1 {
				of, all = of[:3], all[:1]
			}
			random.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
			of = of[:1+random.IntN(len(of))]
			claims := make([]*Claim, len(of))
			for i := range claims {
				claims[i] = claim(fmt.Sprint("k", i), fmt.Sprint("t", i))
				claims[i].UseSystem(of[i])
				require.NoError(t, wait(m.Acquire(claims[i], time.Minute, 1), t.Context()))
			}
			time.Sleep(time.Second)
			synctest.Wait()
			answers := make([]answer, len(m.nodes))
			for i, n := range m.nodes {
				after := time.Duration(1+random.IntN(8)) * time.Millisecond
				answers[i] = answer{i, after, all[random.IntN(len(all))]}
				n.SendFlush = answeredBy(func(_ []*Attempt, out []node.Answer) {
					time.Sleep(answers[i].after)
					for k := range out {
						out[k] = answers[i].answer
					}
				})
			}
			for i := range m.nodes {
				m.log.SetReader(i, batch.Paused) // so that all are in one round
			}
			began := time.Now()
			var callers sync.WaitGroup
			for i, c := range claims {
				e := m.Extend(c, time.Minute, began.Add(time.Minute), 0, 1)
				callers.Go(func() {
					o := e.Wait(t.Context())
					want, at := decided(&systems[of[i]], answers)
					require.Equal(t, want, o.Result, "seed %d, system %d", seed, of[i])
					require.Equal(t, at, time.Since(began), "seed %d, system %d", seed, of[i])
				})
			}
			for i := range m.nodes {
				m.log.SetReader(i, batch.Reading)
			}
			callers.Wait()
			time.Sleep(time.Second)
			synctest.Wait()
			for i, s := range stores {
				m.nodes[i].SendFlush = answeredBy(s.flush)
			}
			for _, c := range claims {
				m.Release(c, 1)
			}
			nothingLeft(t, m, stores)
		})
	}
}

// decided returns how an extension ends by these answers, and when.
func decided(q *quorum.System, answers []answer) (Result, time.Duration) {
	answers = slices.Clone(answers)
	slices.SortFunc(answers, func(a, b answer) int { return int(a.after - b.after) })
	var granted, refused, unknown quorum.Nodes
	for _, a := range answers {
		switch bit := quorum.Node(a.node) & q.Nodes(); a.answer.Vote {
		case node.Granted:
			granted |= bit
		case node.Refused:
			refused |= bit
		default:
			unknown |= bit
		}
		switch q.Extension(granted, refused, 0, unknown) {
		case quorum.Won:
			return Won, a.after
		case quorum.Held:
			return Held, a.after
		case quorum.NoQuorum:
			return NoQuorum, a.after
		}
	}
	return 0, 0
}

// The goal: the counts are those of the set that can't have a quorum, although another one that
// still could has fewer grants.
func TestJoint_TheErrorIsAboutTheSetThatFailed(t *testing.T) {
	moving(t, func(t *testing.T, m *Mux, _ []*memoryNode) {
		a := m.newAttempt(claimOf(joint, "t"), node.Acquire, time.Minute, time.Second, time.Second)
		failed := node.Answer{LeftNothing: true, Err: errBroken}
		a.addVote(0, node.Answer{Vote: node.Granted, Replied: true})
		for _, i := range []int{1, 3, 5} {
			a.addVote(i, failed)
		}
		o := a.outcome(nil)
		require.Equal(t, NoQuorum, o.Result)
		require.Equal(t, []int{2, 0, 0, 3}, []int{o.Need, o.Granted, o.Refused, o.Unknown})
		require.Len(t, o.NoVotes, 3)
	})
}
