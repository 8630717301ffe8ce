package integration_test

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/chains"

	"github.com/skillbay/skillbay"
)

// kills are fewer under the race detector; `make stores` runs them all without.
var kills = sized(200, 80)

const (
	crashMessages = 8 // of a conversation
	crashDeadline = time.Minute
	furthestEntry = 70 // the last entry of a journal after which a pod is killed
	latestKill    = time.Millisecond
)

// crashConversation is the n-th conversation's id.
func crashConversation(n int) string { return fmt.Sprintf("crash-%d", n) }

// converseUntilKilled is a pod that holds one conversation after the other.
func converseUntilKilled(order task, j *journal) error {
	db, store, err := openSQLite(context.Background(), order.Database, "")
	if err != nil {
		return err
	}
	defer db.Close()
	model := &podModel{journal: j, pod: order.Pod, dice: rand.New(rand.NewPCG(uint64(order.Seed), uint64(order.Pod)))}
	exec, err := deskExecutor(skillbay.Config{
		Store: &journalStore{Store: store, journal: j},
		// With every message of the user's one skill more, so that there is
		// something to announce throughout.
		Visible: func(ctx context.Context, s skillbay.Skill) bool {
			return slices.Index(skillNames, s.Name) <= errandOf(ctx).message+1
		},
	}, model, j)
	if err != nil {
		return err
	}
	message := order.Message
	for n := order.Conversation; order.Until == 0 || n < order.Until; n++ {
		for ; message < crashMessages; message++ {
			run := errand{conversation: crashConversation(n), message: message}
			ctx := context.WithValue(context.Background(), errandKey{}, run)
			_, err := chains.Run(skillbay.WithConversation(ctx, run.conversation), exec, fmt.Sprintf("Message %d", message))
			if err != nil {
				return err
			}
			j.write(ctx, entry{At: atEnd})
		}
		message = 0
	}
	return nil
}

// TestCrash kills a service 200 times, in model calls, tools and saves, and
// wherever it happens to be. What the next process finds and does must be as if
// nothing had happened: SPEC 8.3, 10.1 and 10.7.
func TestCrash(t *testing.T) {
	seed := time.Now().UnixNano()
	dice := rand.New(rand.NewPCG(uint64(seed), 0))
	c := &crashes{
		t: t, database: filepath.Join(t.TempDir(), "states.db"), at: map[string]int{},
		announced: map[string]map[string]bool{}, numbers: map[string]int64{}, must: map[string][]promise{},
	}
	defer func() {
		if t.Failed() {
			t.Logf("seed %d; the last pod's journal ends so:\n%s", seed, strings.Join(c.last(30), "\n"))
		}
	}()
	places := []string{atModel, atAnswer, atTool, atSaving, atSaved, atEvent, atLoad}
	for kill := range kills {
		order := task{Kind: "crash", Database: c.database, Seed: seed, Pod: kill, Conversation: c.conversation, Message: c.message}
		// One half stop where they are to be killed, the other half run on.
		if kill%2 == 0 {
			order.ParkAt, order.ParkAfter = places[kill/2%len(places)], 1+dice.IntN(6)
		}
		p := start(t, order, crashDeadline)
		entries, wait := 1+dice.IntN(furthestEntry), time.Duration(dice.Int64N(int64(latestKill)))
		found := 0
		for {
			e, ok := p.next()
			if !ok {
				break
			}
			c.read(e)
			if e.At == order.ParkAt {
				found++
			}
			if order.ParkAt == "" && len(c.journal) == entries {
				time.AfterFunc(wait, p.kill)
			}
			if order.ParkAt != "" && found == order.ParkAfter {
				p.kill()
			}
		}
		require.NoError(t, p.wait())
		require.NotEmpty(t, c.journal, "the pod did nothing")
		c.at[c.journal[len(c.journal)-1].At]++
		c.check()
	}

	order := task{
		Kind: "crash", Database: c.database, Seed: seed, Pod: kills, Conversation: c.conversation, Message: c.message, Until: c.conversation + 1,
	}
	p := start(t, order, crashDeadline)
	for e, ok := p.next(); ok; e, ok = p.next() {
		c.read(e)
	}
	require.NoError(t, p.wait())
	c.check()

	for _, at := range places {
		require.NotZero(t, c.at[at], "no pod was killed at %q", at)
	}
	require.Greater(t, c.resumed, kills/10, "turns resumed under a limit")
	require.Greater(t, c.refused, kills/10, "calls refused that a launch before the kill forbids")
	require.NotZero(t, c.ran)
	t.Logf("figure: crash: %d kills by the last entry of the journal: %v", kills, c.at)
	t.Logf("figure: crash: %d conversations, %d promises kept, %d turns resumed under a limit, %d forbidden first calls of theirs refused, %d tools ran",
		c.conversation+1, c.promises, c.resumed, c.refused, c.ran)
}

// promise is what a model was told: a launch or a dismissal.
type promise struct {
	told
	turn   int
	number int64
}

// key is what a launch or dismissal goes by: a second dismissal in one answer is
// told as the first one was, and is no event.
func (t told) key() string {
	if t.Dismissed {
		return "dismissed " + t.Skill
	}
	return "launched by " + t.CallID
}

// crashes follows pod after pod.
type crashes struct {
	t        *testing.T
	database string

	conversation, message int              // the run that the next pod begins with
	stored                map[string]entry // what the Store held when the last pod was dead, as an atLoad
	journal               []entry          // of the pod at hand
	reference             reference
	limited               bool // the pod's first run goes on under a limit
	first                 bool // … and the pod has not called a tool yet

	announced map[string]map[string]bool // by conversation
	numbers   map[string]int64           // of launches and dismissals, by conversation and told.key
	must      map[string][]promise       // by conversation

	at                              map[string]int // kills
	promises, resumed, refused, ran int
}

// read follows the journal of the pod at hand.
func (c *crashes) read(e entry) {
	c.journal = append(c.journal, e)
	require.NotEqual(c.t, "unreadable", e.At, e.Failure)
	switch e.At {
	case atLoad:
		if before, ok := c.stored[e.Conversation]; ok && c.runs() == 1 {
			require.Equal(c.t, before.Revision, e.Revision, "%s: what a pod reads is not what was kept", e.Conversation)
		}
		c.reference.begin(e.Loaded)
		if c.runs() == 1 {
			l := e.Loaded
			c.limited = l != nil && !l.Turn.Answered && !c.allowsAll(c.reference.held)
			c.first = true
			if c.limited {
				c.resumed++
			}
		}
	case atModel:
		c.readRequest(e)
	case atAnswer:
		c.reference.note(e)
	case atTool:
		c.ran++
		require.Empty(c.t, c.reference.forbids(e.Tool), "%s, turn %d: %s ran", e.Conversation, e.Turn, e.Tool)
		c.first = false
	case atEvent:
		c.readEvent(e)
		c.reference.note(e)
	case atEnd:
		c.message = e.Message + 1
		if c.message == crashMessages {
			c.conversation, c.message = c.conversation+1, 0
		}
	}
}

// runs counts the runs of the pod at hand.
func (c *crashes) runs() (n int) {
	for _, e := range c.journal {
		if e.At == atLoad {
			n++
		}
	}
	return n
}

// allowsAll reports whether the launched skills forbid nothing.
func (c *crashes) allowsAll(held []string) bool {
	return !slices.ContainsFunc(held, func(name string) bool { return len(rules[name].forbids()) > 0 })
}

// readRequest checks the turn that a request belongs to, and notes what the
// model was told.
func (c *crashes) readRequest(e entry) {
	var l *ledgers
	for _, x := range c.journal {
		if x.At == atLoad {
			l = x.Loaded
		}
	}
	want := 1
	if l != nil {
		want = l.Turn.N
		if l.Turn.Answered {
			want++
		}
	}
	require.Equal(c.t, want, e.Turn, "%s, message %d: the turn did not go on", e.Conversation, e.Message)
	for _, told := range e.Told {
		p := promise{told, e.Turn, c.numbers[e.Conversation+" "+told.key()]}
		require.NotZero(c.t, p.number, "%s: no event for what the model was told: %+v", e.Conversation, told)
		if !slices.Contains(c.must[e.Conversation], p) {
			c.must[e.Conversation] = append(c.must[e.Conversation], p)
			c.promises++
		}
	}
}

func (c *crashes) readEvent(e entry) {
	switch e.Event.Type {
	case skillbay.EventAnnounced:
		names := c.announced[e.Conversation]
		if names == nil {
			names = map[string]bool{}
			c.announced[e.Conversation] = names
		}
		for _, name := range e.Event.Skills {
			require.False(c.t, names[name], "%s: %s is announced twice", e.Conversation, name)
			names[name] = true
		}
	case skillbay.EventInvoked, skillbay.EventDismissed:
		require.NotZero(c.t, e.Number, "%+v", e)
		about := told{e.Event.ToolCallID, e.Event.Skill, e.Event.Type == skillbay.EventDismissed}
		c.numbers[e.Conversation+" "+about.key()] = e.Number
	case skillbay.EventBlocked:
		if c.limited && c.first && c.runs() == 1 {
			c.refused++
		}
		c.first = false
	}
}

// check looks into the Store while no pod lives.
func (c *crashes) check() {
	c.journal = nil
	c.stored = c.kept()
	for _, id := range slices.Sorted(maps.Keys(c.must)) {
		for _, p := range c.must[id] {
			l := c.stored[id].Loaded
			switch {
			case l == nil:
				require.Failf(c.t, "lost", "%s: nothing is kept, and the model had been told of %+v", id, p)
			case p.Dismissed:
				require.True(c.t, l.released(p.Skill, p.turn, p.number), "%s: the model had been told of %+v; kept: %+v", id, p, *l)
			default:
				require.True(c.t, l.keeps(p.Skill, p.turn, p.number), "%s: the model had been told of %+v; kept: %+v", id, p, *l)
			}
		}
	}
	for id, names := range c.announced {
		l := c.stored[id].Loaded
		require.NotNil(c.t, l, "%s: announced, and nothing is kept", id)
		for name := range names {
			require.Contains(c.t, l.Announced, name, "%s: announced, and not kept", id)
		}
	}
}

// kept reads every State, whole.
func (c *crashes) kept() map[string]entry {
	db, _, err := openSQLite(c.t.Context(), c.database, "")
	require.NoError(c.t, err)
	defer db.Close()
	var sound string
	require.NoError(c.t, db.QueryRowContext(c.t.Context(), "PRAGMA quick_check").Scan(&sound))
	require.Equal(c.t, "ok", sound)
	kept := map[string]entry{}
	for id, r := range records(c.t, db) {
		l, err := ledgersOf(r.State, nil)
		require.NoError(c.t, err)
		kept[id] = entry{Revision: r.Revision, Loaded: l}
	}
	return kept
}

// records reads all that a database keeps, and decodes it as skillbay does.
func records(t *testing.T, db *sql.DB) map[string]skillbay.Record {
	rows, err := db.QueryContext(t.Context(), "SELECT conversation, revision, state FROM "+skillbay.DefaultTable)
	require.NoError(t, err)
	defer rows.Close()
	all := map[string]skillbay.Record{}
	for rows.Next() {
		var id string
		var r skillbay.Record
		require.NoError(t, rows.Scan(&id, &r.Revision, &r.State))
		require.NoError(t, new(skillbay.State).UnmarshalJSON(r.State), "%s: %s", id, r.State)
		all[id] = r
	}
	require.NoError(t, rows.Err())
	return all
}

// last is the end of the journal.
func (c *crashes) last(n int) (lines []string) {
	for _, e := range c.journal[max(0, len(c.journal)-n):] {
		lines = append(lines, fmt.Sprintf("%+v", e))
	}
	return lines
}
