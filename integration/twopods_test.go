package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/chains"

	"github.com/skillbay/skillbay"
)

// podTurns are those of each of the two pods; fewer under the race detector.
var podTurns = sized(1000, 300)

const (
	podConversations = 50
	podsDeadline     = 4 * time.Minute
	podRetries       = 20   // of a save that failed in a run
	podFails         = 0.08 // of model calls
)

// shift is one turn of a pod.
type shift struct {
	conversation, message int
	meets                 bool // the other pod has the same conversation loaded then
}

// roster is what each of the two pods does, in order; the same for a seed.
// Every message comes again now and then, on either pod: then its turn goes on
// if nobody answered it.
func roster(seed int64) (pods [2][]shift) {
	dice := rand.New(rand.NewPCG(uint64(seed), 1))
	var next [podConversations]int
	one := func(conversation int) shift {
		if next[conversation] == 0 || dice.IntN(3) > 0 {
			next[conversation]++
		}
		return shift{conversation: conversation, message: next[conversation]}
	}
	for range podTurns {
		if dice.IntN(2) > 0 {
			for p := range pods {
				pods[p] = append(pods[p], one(dice.IntN(podConversations)))
			}
			continue
		}
		s := one(dice.IntN(podConversations))
		other := s
		if dice.IntN(2) > 0 {
			other = one(s.conversation)
		}
		s.meets, other.meets = true, true
		pods[0], pods[1] = append(pods[0], s), append(pods[1], other)
	}
	return pods
}

// converseBesideAnother is one of two pods that share their conversations.
func converseBesideAnother(order task, j *journal, words <-chan string) error {
	db, store, err := openSQLite(context.Background(), order.Database, "")
	if err != nil {
		return err
	}
	defer db.Close()
	model := &podModel{journal: j, pod: order.Pod, fails: podFails, dice: rand.New(rand.NewPCG(uint64(order.Seed), uint64(order.Pod)))}
	exec, err := deskExecutor(skillbay.Config{Store: &journalStore{Store: store, journal: j, words: words}}, model, j)
	if err != nil {
		return err
	}
	for _, s := range roster(order.Seed)[order.Pod] {
		run := errand{conversation: fmt.Sprintf("shared-%d", s.conversation), message: s.message, meets: new(atomic.Bool)}
		run.meets.Store(s.meets)
		ctx := context.WithValue(context.Background(), errandKey{}, run)
		_, err := chains.Run(skillbay.WithConversation(ctx, run.conversation), exec, fmt.Sprintf("Message %d", s.message))
		end := entry{At: atEnd}
		if err != nil {
			end.Failure = err.Error()
		}
		var unsaved *skillbay.SaveError
		if errors.As(err, &unsaved) {
			for range podRetries {
				if err = unsaved.Retry(ctx); err == nil {
					break
				}
			}
			if err != nil {
				return err
			}
		} else if err != nil && !errors.Is(err, errProviderDown) {
			return err
		}
		j.write(ctx, end)
	}
	return nil
}

// TestTwoPods lets two processes work on the same conversations at once, on the
// same turn of them more often than not. Nothing that either recorded is lost,
// and neither runs a tool that its own launches forbid: SPEC 9, Merge.
func TestTwoPods(t *testing.T) {
	seed := time.Now().UnixNano()
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	database := filepath.Join(t.TempDir(), "states.db")
	db, _, err := openSQLite(t.Context(), database, "")
	require.NoError(t, err)
	defer db.Close()

	var pods [2]*pod
	for i := range pods {
		pods[i] = start(t, task{Kind: "two pods", Database: database, Seed: seed, Pod: i}, podsDeadline)
	}
	var journals [2][]entry
	var ends [2]error
	var readers sync.WaitGroup
	var waiting [2]chan struct{}
	for i := range waiting {
		waiting[i] = make(chan struct{}, podTurns)
	}
	for i, p := range pods {
		readers.Add(1)
		go func() {
			defer readers.Done()
			defer close(waiting[i])
			for e, ok := p.next(); ok; e, ok = p.next() {
				journals[i] = append(journals[i], e)
				if e.At == atMeeting {
					waiting[i] <- struct{}{}
				}
			}
			if ends[i] = p.wait(); ends[i] != nil {
				pods[1-i].kill() // it would wait for this one
			}
		}()
	}
	meetings := 0
	for {
		_, one := <-waiting[0]
		_, two := <-waiting[1]
		if !one || !two {
			break
		}
		meetings++
		for _, p := range pods { // one that has died meanwhile is seen below
			_, _ = io.WriteString(p.in, "go on\n")
		}
	}
	readers.Wait()
	for i, err := range ends {
		require.NoError(t, err, "pod %d", i)
	}

	var sums tally
	for i := range journals {
		sums.checkPod(t, journals[i])
	}
	kept := records(t, db)
	sums.checkLedgers(t, journals[:], kept)

	require.Equal(t, 2*podTurns, sums.turns)
	require.Len(t, kept, podConversations)
	require.Greater(t, sums.conflicts, podTurns/10)
	require.NotZero(t, sums.resumed, "turns that went on under a limit, on either pod")
	require.NotZero(t, sums.ran)
	require.NotZero(t, sums.refused)
	t.Logf("figure: two pods: %d turns, %d of them failed, over %d conversations; %d meetings; %d saves, %d conflicts merged, %d saves retried by the host",
		sums.turns, sums.failed, podConversations, meetings, sums.saves, sums.conflicts, sums.retried)
	t.Logf("figure: two pods: %d launches and %d dismissals, none lost; %d turns went on under a limit; %d tools ran, %d calls refused",
		sums.launches, sums.dismissals, sums.resumed, sums.ran, sums.refused)
}

// tally counts what the journals tell.
type tally struct {
	turns, failed, saves, conflicts, retried    int
	launches, dismissals, resumed, ran, refused int
}

// checkPod holds one pod's runs to the reference.
func (s *tally) checkPod(t *testing.T, journal []entry) {
	var r reference
	running := false
	for n, e := range journal {
		require.NotEqual(t, "unreadable", e.At, e.Failure)
		r.note(e)
		switch e.At {
		case atLoad:
			if !running { // later ones are to merge, and the run goes on with what it has
				running = true
				r.begin(e.Loaded)
				if e.Loaded != nil && !e.Loaded.Turn.Answered && goesOn(journal[n+1:], r.turn) && !within(r.held, "wipe") {
					s.resumed++
				}
			}
		case atTool:
			s.ran++
			require.Empty(t, r.forbids(e.Tool), "%s, turn %d: %s ran", e.Conversation, e.Turn, e.Tool)
		case atSaved:
			s.saves++
		case atConflict:
			s.conflicts++
		case atEvent:
			switch e.Event.Type {
			case skillbay.EventInvoked:
				s.launches++
			case skillbay.EventDismissed:
				s.dismissals++
			case skillbay.EventBlocked:
				s.refused++
			}
		case atEnd:
			running = false
			s.turns++
			if e.Failure != "" {
				s.failed++
			}
		}
	}
}

// goesOn reports whether the run that begins with these entries is of the turn.
func goesOn(journal []entry, turn int) bool {
	for _, e := range journal {
		if e.At == atModel {
			return e.Turn == turn
		}
	}
	return false
}

// checkLedgers looks for every launch, dismissal and save of the journals in
// what is kept.
func (s *tally) checkLedgers(t *testing.T, journals [][]entry, kept map[string]skillbay.Record) {
	ends := map[string]*ledgers{}
	for id, r := range kept {
		l, err := ledgersOf(r.State, nil)
		require.NoError(t, err)
		ends[id] = l
	}
	saves := map[string]int64{}
	for _, journal := range journals {
		for _, e := range journal {
			l := ends[e.Conversation]
			require.NotNil(t, l, "%s is not kept", e.Conversation)
			switch {
			case e.At == atSaved:
				saves[e.Conversation]++
			case e.At == atEvent && e.Event.Type == skillbay.EventInvoked:
				require.NotZero(t, e.Number, "%+v", e)
				require.True(t, l.keeps(e.Event.Skill, e.Event.Turn, e.Number), "%s: launch %d is lost: %+v\nkept: %+v", e.Conversation, e.Number, *e.Event, *l)
			case e.At == atEvent && e.Event.Type == skillbay.EventDismissed:
				require.NotZero(t, e.Number, "%+v", e)
				require.True(t, l.released(e.Event.Skill, e.Event.Turn, e.Number), "%s: dismissal %d is lost: %+v\nkept: %+v", e.Conversation, e.Number, *e.Event, *l)
			case e.At == atEvent && e.Event.Type == skillbay.EventAnnounced:
				for _, name := range e.Event.Skills {
					require.Contains(t, l.Announced, name, e.Conversation)
				}
			}
		}
	}
	for id, r := range kept {
		assert.Equal(t, saves[id], r.Revision, "%s: a save took another's place", id)
	}
}
