package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/memory"
	"github.com/tmc/langchaingo/prompts"
	"github.com/tmc/langchaingo/tools"

	"github.com/skillbay/skillbay"
)

const (
	soakAtOnce = 200
	soakTurns  = 10
	soakBlocks = 20 // of conversations, with skillbay and without in turn
	soakWarm   = 2  // blocks before the heap is first measured
	// Heap that may be more after all conversations than after those, for each
	// finished one: less than any State or memory takes.
	soakKept  = 256
	soakNoise = 1 << 20 // … and once
)

// soakConversations is how many there are: fewer under the race detector, which
// makes all of it some ten times slower, and with -short.
func soakConversations() int {
	if testing.Short() {
		return 1000
	}
	return sized(10_000, 400)
}

// soakActive are the numbers of active skills that conversations end with.
var soakActive = []int{0, 1, 3, 8}

// soakSkill is the name of the n-th of eight skills.
func soakSkill(n int) string { return fmt.Sprintf("procedure-%d", n) }

// soakSkills are eight skills of a usual size; every other one limits its turn.
func soakSkills() skillbay.Source {
	files := fstest.MapFS{}
	for n := range slices.Max(soakActive) {
		list := ""
		if n%2 == 0 {
			list = "allowed-tools: lookup, note\n"
		}
		files[soakSkill(n)+"/SKILL.md"] = &fstest.MapFile{Data: []byte(fmt.Sprintf(
			"---\ndescription: What to do in case %d\n%sarguments: case\n---\nHandle case $case.\n%s", n, list,
			strings.Repeat("Look the order up, then write a note of what was agreed.\n", 30)))}
	}
	return skillbay.FS(files, ".")
}

// marker is the one word that only one conversation's texts have.
func marker(n int) string { return fmt.Sprintf("marker-%07d-", n) }

var anyMarker = regexp.MustCompile(`marker-\d{7}-`)

type markerKey struct{}

// soakWatch looks for other conversations' markers.
type soakWatch struct {
	requests, mixed atomic.Int64
	first           atomic.Pointer[string] // the first mix-up
}

// look checks a text of ctx's conversation.
func (w *soakWatch) look(ctx context.Context, text string) {
	own, _ := ctx.Value(markerKey{}).(string)
	for _, found := range anyMarker.FindAllString(text, -1) {
		if found != own {
			w.mixed.Add(1)
			text := fmt.Sprintf("%s in a text of %s: %s", found, own, text)
			w.first.CompareAndSwap(nil, &text)
		}
	}
}

// soakScript is what the model does in a turn of a conversation that ends with
// that many active skills, call by call; then it answers.
func soakScript(active, turn int) []string {
	tool := []string{"lookup", "note"}[turn%2]
	if turn < active {
		return []string{"skill", tool}
	}
	return []string{tool}
}

// soakModel is the model of all conversations: it knows its messages alone.
type soakModel struct{ watch *soakWatch }

var soakQuestion = regexp.MustCompile(`(marker-\d{7}-) turn (\d+) of (\d+)$`)

// Call implements llms.Model.
func (m *soakModel) Call(context.Context, string, ...llms.CallOption) (string, error) {
	return "", errors.New("the functions agent calls GenerateContent")
}

// GenerateContent implements llms.Model.
func (m *soakModel) GenerateContent(ctx context.Context, messages []llms.MessageContent, _ ...llms.CallOption) (*llms.ContentResponse, error) {
	m.watch.requests.Add(1)
	question, done := "", 0
	for _, message := range messages {
		for _, part := range message.Parts {
			switch part := part.(type) {
			case llms.TextContent:
				m.watch.look(ctx, part.Text)
				if message.Role == llms.ChatMessageTypeHuman {
					question = part.Text
				}
			case llms.ToolCall:
				m.watch.look(ctx, part.FunctionCall.Arguments)
			case llms.ToolCallResponse:
				m.watch.look(ctx, part.Content)
				done++
			}
		}
	}
	asked := soakQuestion.FindStringSubmatch(question)
	if asked == nil {
		return nil, fmt.Errorf("no question: %q", question)
	}
	if mixed := m.watch.first.Load(); mixed != nil { // no need to go on
		return nil, errors.New("conversations are mixed up")
	}
	var turn, active int
	if _, err := fmt.Sscan(asked[2]+" "+asked[3], &turn, &active); err != nil {
		return nil, err
	}
	script := soakScript(active, turn)
	if done == len(script) {
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: "Done for " + asked[1] + "."}}}, nil
	}
	arguments := map[string]string{"__arg1": asked[1]}
	if script[done] == "skill" {
		arguments = map[string]string{"skill": soakSkill(turn), "args": asked[1]}
	}
	data, err := json.Marshal(arguments)
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{ToolCalls: []llms.ToolCall{{
		ID: fmt.Sprintf("call-%d-%d", turn, done), Type: "function",
		FunctionCall: &llms.FunctionCall{Name: script[done], Arguments: string(data)},
	}}}}}, err
}

// soakHistory puts the memory into the prompt, as one message.
type soakHistory struct{}

func (soakHistory) GetInputVariables() []string { return []string{"history"} }

func (soakHistory) FormatMessages(values map[string]any) ([]llms.ChatMessage, error) {
	past, _ := values["history"].(string)
	return []llms.ChatMessage{llms.HumanChatMessage{Content: "Earlier:\n" + past}}, nil
}

// soakTool answers with what it was given.
type soakTool struct {
	name  string
	watch *soakWatch
	calls atomic.Int64
}

func (t *soakTool) Name() string        { return t.name }
func (t *soakTool) Description() string { return "Does a " + t.name + "." }
func (t *soakTool) Call(ctx context.Context, input string) (string, error) {
	t.calls.Add(1)
	t.watch.look(ctx, input)
	return t.name + " done: " + input, nil
}

// timedStore sums up how long callers wait for a Store.
type timedStore struct {
	skillbay.Store
	loads, saves, waited atomic.Int64 // the last in nanoseconds
}

// Load implements skillbay.Store.
func (s *timedStore) Load(ctx context.Context, id string) (skillbay.Record, error) {
	defer s.time(time.Now(), &s.loads)
	return s.Store.Load(ctx, id)
}

// Save implements skillbay.Store.
func (s *timedStore) Save(ctx context.Context, id string, r skillbay.Record) error {
	defer s.time(time.Now(), &s.saves)
	return s.Store.Save(ctx, id, r)
}

func (s *timedStore) time(since time.Time, calls *atomic.Int64) {
	calls.Add(1)
	s.waited.Add(int64(time.Since(since)))
}

// soak is one service that all conversations share.
type soak struct {
	t     *testing.T
	watch *soakWatch
	store *timedStore
	bare  *agents.Executor
	exec  *skillbay.Executor
}

// TestSoak holds ten thousand conversations, two hundred at once, with one
// executor: no conversation sees another's words, and nothing is left of those
// that are over but what the Store keeps. The same turns run without skillbay
// in the same time, for the figures.
func TestSoak(t *testing.T) {
	conversations := soakConversations()
	if conversations < 10_000 {
		t.Logf("%d conversations in place of 10000: under the race detector, or with -short", conversations)
	}
	// The database need not outlive the machine, and has one connection: what
	// waits for it waits in order, and does not poll.
	db, sqlStore, err := openSQLite(t.Context(), filepath.Join(t.TempDir(), "states.db"), "&_pragma=synchronous(OFF)")
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)

	s := &soak{t: t, watch: new(soakWatch), store: &timedStore{Store: sqlStore}}
	lookup, note := &soakTool{name: "lookup", watch: s.watch}, &soakTool{name: "note", watch: s.watch}
	s.bare = agents.NewExecutor(agents.NewOpenAIFunctionsAgent(&soakModel{s.watch}, []tools.Tool{lookup, note},
		agents.NewOpenAIOption().WithExtraMessages([]prompts.MessageFormatter{soakHistory{}})))
	var events atomic.Int64
	mw, err := skillbay.New(skillbay.Config{
		Skills: []skillbay.Source{soakSkills()}, Store: s.store,
		Audit: func(ctx context.Context, e skillbay.Event) {
			events.Add(1)
			s.watch.look(ctx, e.Args)
		},
	})
	require.NoError(t, err)
	s.exec, err = mw.WrapExecutor(s.bare)
	require.NoError(t, err)

	goroutines := runtime.NumGoroutine()
	var with, without time.Duration
	var early uint64
	begin, warm := 0, 0
	for block := range soakBlocks {
		end := conversations * (block + 1) / soakBlocks
		if block%2 == 0 {
			without += s.hold(begin, end, s.turnBare)
			with += s.hold(begin, end, s.turn)
		} else {
			with += s.hold(begin, end, s.turn)
			without += s.hold(begin, end, s.turnBare)
		}
		if begin = end; block == soakWarm-1 {
			early, warm = heap(), end
		}
		if mixed := s.watch.first.Load(); mixed != nil {
			t.Errorf("%d texts in the wrong conversation; the first: %s", s.watch.mixed.Load(), *mixed)
		}
		if t.Failed() {
			return
		}
	}
	late := heap()
	settled := s.settle(goroutines)

	turns := conversations * soakTurns
	calls, launches := 0, 0
	for n := range conversations {
		for turn := range soakTurns {
			script := soakScript(soakActive[n%len(soakActive)], turn)
			calls += len(script) + 1
			launches += len(script) - 1
		}
	}
	assert.EqualValues(t, 2*calls, s.watch.requests.Load(), "requests to the model")
	assert.EqualValues(t, turns, lookup.calls.Load(), "lookups")
	assert.EqualValues(t, turns, note.calls.Load(), "notes")
	s.sizes(conversations)

	finished := conversations - warm
	kept := int64(late) - int64(early)
	assert.Less(t, kept, int64(soakNoise+soakKept*finished), "bytes of heap that %d finished conversations left", finished)

	second := func(d time.Duration) float64 { return float64(turns) / d.Seconds() }
	t.Logf("figure: soak: %d conversations, %d at once, %d turns each; %d launches, %d events, %d loads, %d saves",
		conversations, soakAtOnce, soakTurns, launches, events.Load(), s.store.loads.Load(), s.store.saves.Load())
	t.Logf("figure: soak: turns a second: %.0f with skillbay on SQLite, %.0f without; ratio %.3f", second(with), second(without), without.Seconds()/with.Seconds())
	t.Logf("figure: soak: of a turn's %.2f ms with skillbay, %.2f ms waiting for the Store (%d at once)",
		float64(soakAtOnce)/second(with)*1e3, float64(s.store.waited.Load())/float64(turns)/1e6, soakAtOnce)
	t.Logf("figure: soak: heap of an idle conversation: %.1f bytes (%d in all after %d, %d after %d)",
		float64(kept)/float64(finished), early, warm, late, conversations)
	t.Logf("figure: soak: goroutines: %d before, %d after", goroutines, settled)
}

// hold holds conversations begin to end and returns how long that took.
func (s *soak) hold(begin, end int, turn func(context.Context, *memory.ConversationBuffer, int, string) (string, error)) time.Duration {
	slots := make(chan struct{}, soakAtOnce)
	var group sync.WaitGroup
	began := time.Now()
	for n := begin; n < end; n++ {
		slots <- struct{}{}
		group.Add(1)
		go func() {
			defer func() {
				<-slots
				group.Done()
			}()
			ctx := context.WithValue(context.Background(), markerKey{}, marker(n))
			m := memory.NewConversationBuffer()
			for i := range soakTurns {
				question := fmt.Sprintf("%s turn %d of %d", marker(n), i, soakActive[n%len(soakActive)])
				answer, err := turn(ctx, m, n, question)
				if !assert.NoError(s.t, err, question) || !assert.Equal(s.t, "Done for "+marker(n)+".", answer) {
					return
				}
			}
		}()
	}
	group.Wait()
	return time.Since(began)
}

// turn is a turn of conversation n with skillbay.
func (s *soak) turn(ctx context.Context, m *memory.ConversationBuffer, n int, question string) (string, error) {
	return chains.Run(skillbay.WithConversation(ctx, fmt.Sprintf("soak-%d", n)), s.exec.WithMemory(m), question)
}

// turnBare is the same turn without it.
func (s *soak) turnBare(ctx context.Context, m *memory.ConversationBuffer, _ int, question string) (string, error) {
	own := *s.bare
	own.Memory = m
	return chains.Run(ctx, &own, question)
}

// heap is what is in use once all garbage is gone.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // the first one empties pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// settle waits until there are as many goroutines as before, and returns how
// many: those that watch a query's context end a little after it.
func (s *soak) settle(goroutines int) int {
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); runtime.Gosched() {
		if n := runtime.NumGoroutine(); n <= goroutines {
			return n
		}
	}
	stacks := make([]byte, 64<<10)
	s.t.Errorf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), goroutines, stacks[:runtime.Stack(stacks, true)])
	return runtime.NumGoroutine()
}

// sizes looks at every State that is kept.
func (s *soak) sizes(conversations int) {
	type size struct{ n, sum, most int }
	sizes := map[int]size{}
	for n := range conversations {
		r, err := s.store.Store.Load(s.t.Context(), fmt.Sprintf("soak-%d", n))
		require.NoError(s.t, err)
		st := new(skillbay.State)
		require.NoError(s.t, st.UnmarshalJSON(r.State))
		active := soakActive[n%len(soakActive)]
		require.Len(s.t, st.Active(), active)
		require.Equal(s.t, soakTurns, st.Turn())
		s.watch.look(context.WithValue(s.t.Context(), markerKey{}, marker(n)), string(r.State))
		z := sizes[active]
		sizes[active] = size{z.n + 1, z.sum + len(r.State), max(z.most, len(r.State))}
	}
	for _, active := range soakActive {
		z := sizes[active]
		s.t.Logf("figure: soak: bytes of State with %d active skills: %d, at most %d", active, z.sum/z.n, z.most)
	}
	require.Zero(s.t, s.watch.mixed.Load(), "a State holds another conversation's words")
}
