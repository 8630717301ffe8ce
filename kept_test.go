package skillbay

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/tools"
)

// shelf is a Store that tells what it is asked, and fails when it is told to.
type shelf struct {
	MemoryStore
	mu     sync.Mutex
	saves  int
	onLoad func(context.Context, Record) (Record, error)
	onSave func(ctx context.Context, id string, r Record, save func() error) error
}

func (s *shelf) Load(ctx context.Context, id string) (Record, error) {
	r, err := s.MemoryStore.Load(ctx, id)
	if s.onLoad != nil && err == nil {
		return s.onLoad(ctx, r)
	}
	return r, err
}

func (s *shelf) Save(ctx context.Context, id string, r Record) error {
	save := func() error { return s.MemoryStore.Save(ctx, id, r) }
	s.mu.Lock()
	s.saves++
	on := s.onSave
	s.mu.Unlock()
	if on != nil {
		return on(ctx, id, r, save)
	}
	return save()
}

// state is the State that the shelf keeps.
func (s *shelf) state(t testing.TB, id string) *State {
	t.Helper()
	r, err := s.MemoryStore.Load(context.Background(), id)
	require.NoError(t, err)
	require.NotZero(t, r.Revision, "nothing is kept of %q", id)
	st := new(State)
	require.NoError(t, st.UnmarshalJSON(r.State))
	return st
}

// pod is a machine of the service: an executor over a scripted model.
type pod struct {
	*bay
	exec   *Executor
	script *script
	tool   *echo
}

func newPod(t testing.TB, cfg Config, files map[string]string) *pod {
	t.Helper()
	p := &pod{bay: newBay(t, cfg, files), script: &script{}, tool: &echo{name: "Write"}}
	exec, err := p.WrapExecutor(agents.NewExecutor(
		agents.NewOpenAIFunctionsAgent(p.script, []tools.Tool{p.tool, &echo{name: "Read"}}), agents.WithMaxIterations(20)))
	require.NoError(t, err)
	p.exec = exec
	return p
}

func (p *pod) run(ctx context.Context, input string, answers ...*llms.ContentResponse) (string, error) {
	p.script.then(answers...)
	return chains.Run(ctx, p.exec, input)
}

func conversation(id string) context.Context { return WithConversation(context.Background(), id) }

func TestStoreSavesBeforeTheModelLearns(t *testing.T) {
	store := &shelf{}
	p := newPod(t, Config{Store: store}, desk)
	p.script.steps = []func(request) *llms.ContentResponse{
		func(request) *llms.ContentResponse {
			assert.Equal(t, []string{"policy", "refund", "shipping"}, store.state(t, "4711").Announced(), "announced before the model is asked")
			return calls(skillCall("refund", "A1"))
		},
		func(r request) *llms.ContentResponse {
			require.Contains(t, r.text(), "Refund order A1 carefully")
			st := store.state(t, "4711")
			assert.Equal(t, []string{"refund"}, st.Active(), "kept before the model reads the body")
			assert.Equal(t, 1, st.Turn())
			return calls(toolCall("Write", "x"), toolCall(toolDismiss, `{"skill":"refund","reason":"done"}`))
		},
		func(request) *llms.ContentResponse {
			st := store.state(t, "4711")
			assert.Empty(t, st.Active())
			require.Len(t, st.Dismissed(), 1)
			return say("Done.")
		},
	}
	out, err := p.run(conversation("4711"), "Refund A1")
	require.NoError(t, err)
	assert.Equal(t, "Done.", out)
	assert.Empty(t, p.tool.ran)
	assert.True(t, store.state(t, "4711").book.Turn.Answered, "the end is kept")
	assert.Equal(t, 4, store.saves, "announcement, launch, dismissal, end")

	// Another pod goes on with what was kept.
	other := newPod(t, Config{Store: store}, desk)
	_, err = other.run(conversation("4711"), "And B2?")
	require.NoError(t, err)
	assert.Equal(t, 2, store.state(t, "4711").Turn())
	assert.Empty(t, other.types(), "nothing is announced twice")
}

func TestStoreKeepsFailedRuns(t *testing.T) {
	fails := errors.New("the model is down")
	for name, end := range map[string]func(cancel func()) (context.Context, error){
		"the model fails":      func(func()) (context.Context, error) { return nil, fails },
		"the ctx is cancelled": func(cancel func()) (context.Context, error) { cancel(); return nil, context.Canceled },
		"the model panics":     func(func()) (context.Context, error) { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			store := &shelf{}
			b := newBay(t, Config{Store: store}, desk)
			ctx, cancel := context.WithCancel(conversation("4711"))
			n := 0
			exec, err := b.WrapExecutor(agents.NewExecutor(agents.NewOpenAIFunctionsAgent(modelFunc(
				func(context.Context, []llms.MessageContent, llms.CallOptions) (*llms.ContentResponse, error) {
					switch n++; n {
					case 1:
						return calls(skillCall("refund", "A1")), nil
					case 2:
						return calls(toolCall("Write", "x")), nil
					}
					_, err := end(cancel)
					return nil, err
				}), []tools.Tool{&echo{name: "Write"}})))
			require.NoError(t, err)
			func() {
				defer func() { _ = recover() }()
				_, err = exec.Call(ctx, map[string]any{"input": "Refund A1"})
				require.Error(t, err)
			}()
			st := store.state(t, "4711")
			assert.False(t, st.book.Turn.Answered)
			assert.Equal(t, []string{"refund"}, st.Active())
			assert.Equal(t, "Write", st.batch.calls[0].tool, "all up to the end is kept")

			// The same input goes on with the turn, limits included.
			p := newPod(t, Config{Store: store}, desk)
			_, err = p.run(conversation("4711"), "Refund A1", calls(toolCall("Write", "x")))
			require.NoError(t, err)
			assert.Empty(t, p.tool.ran, "the gate is armed as before")
			assert.Equal(t, 1, store.state(t, "4711").Turn())
			assert.True(t, store.state(t, "4711").book.Turn.Answered)
		})
	}
}

// While one pod runs, another saves: the run stays held to its own launches, and
// what is kept holds both.
func TestStoreJoinsRuns(t *testing.T) {
	store := &shelf{}
	one, two := newPod(t, Config{Store: store}, desk), newPod(t, Config{Store: store}, desk)
	one.script.steps = []func(request) *llms.ContentResponse{
		func(request) *llms.ContentResponse { return calls(skillCall("refund", "A1")) },
		func(request) *llms.ContentResponse {
			for _, input := range []string{"Where is B2?", "And C3?"} { // the other is ahead by a turn
				_, err := two.run(conversation("4711"), input, calls(skillCall("shipping", "")), calls(toolCall("Write", input)))
				require.NoError(t, err)
			}
			return calls(toolCall("Write", "one"))
		},
		func(request) *llms.ContentResponse { return calls(skillCall("policy", ""), skillCall("refund", "A2")) },
		func(request) *llms.ContentResponse { return calls(toolCall("Write", "one again")) },
	}
	_, err := one.run(conversation("4711"), "Refund A1")
	require.NoError(t, err)
	assert.Empty(t, one.tool.ran, "the other pod's newer turn lifts no limit of a run")
	assert.Equal(t, []string{"Where is B2?", "And C3?"}, two.tool.ran)
	st := store.state(t, "4711")
	assert.Equal(t, 3, st.Turn())
	assert.ElementsMatch(t, []string{"refund", "shipping"}, st.Active())
	args := map[string]string{}
	for _, l := range st.Invoked() {
		args[l.Skill] = l.Args
	}
	assert.Equal(t, "A2", args["refund"], "what was launched after the conflict is kept as well")
}

// A save that happened although it seemed to fail is no other machine's.
func TestStoreUnknownOutcome(t *testing.T) {
	store := &shelf{}
	lost := errors.New("connection lost")
	p := newPod(t, Config{Store: store, GuardedTools: []string{"Write"}}, map[string]string{
		"pay": "---\ndescription: Pay\nallowed-tools: Write\n---\nPay.\n",
	})
	store.onSave = func(_ context.Context, _ string, r Record, save func() error) error {
		if err := save(); err != nil || r.Revision != 2 {
			return err
		}
		return lost
	}
	_, err := p.run(conversation("4711"), "Pay", calls(skillCall("pay", "")))
	require.ErrorIs(t, err, lost, "the launch's save failed, and so does the call")
	st := store.state(t, "4711")
	assert.False(t, st.book.Turn.Contested)
	_, err = p.run(conversation("4711"), "Pay", calls(toolCall("Write", "1 Euro")))
	require.NoError(t, err)
	assert.Equal(t, []string{"1 Euro"}, p.tool.ran, "granted by the launch that was kept")
}

// In a loop that goes on after such a save, nothing is contested either.
func TestStoreUnknownOutcomeInALoop(t *testing.T) {
	store := &shelf{}
	b := newBay(t, Config{Store: store}, desk)
	ctx, err := b.LoadState(conversation("4711"))
	require.NoError(t, err)
	_, err = b.BeforeModel(ctx, []llms.MessageContent{human("Hello")})
	require.NoError(t, err)
	lost := errors.New("connection lost")
	launch := func(name string) error {
		call := skillCall(name, "")
		ai := llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{call}}
		_, err := b.CallTool(ctx, []llms.MessageContent{human("Hello"), ai}, call, nil)
		return err
	}
	store.onSave = func(_ context.Context, _ string, _ Record, save func() error) error {
		return errors.Join(save(), lost)
	}
	require.ErrorIs(t, launch("shipping"), lost)
	store.onSave = nil
	require.NoError(t, launch("policy"))
	st := store.state(t, "4711")
	assert.Equal(t, []string{"shipping", "policy"}, st.Active())
	assert.False(t, st.book.Turn.Contested)
}

// A client that sends a save twice is told of a conflict with itself.
func TestStoreConflictWithItself(t *testing.T) {
	store := &shelf{}
	b := newBay(t, Config{Store: store}, desk)
	ctx, err := b.LoadState(conversation("4711"))
	require.NoError(t, err)
	require.NoError(t, b.BeginTurn(ctx))
	store.onSave = func(_ context.Context, _ string, r Record, save func() error) error {
		if err := save(); err != nil || r.Revision > 2 {
			return err
		}
		return ErrConflict
	}
	require.NoError(t, b.SaveState(ctx))
	call := skillCall("shipping", "")
	ai := llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{call}}
	_, err = b.CallTool(ctx, []llms.MessageContent{human("Hello"), ai}, call, nil)
	require.NoError(t, err)
	require.NoError(t, b.SaveState(ctx))
	st := store.state(t, "4711")
	assert.Equal(t, []string{"shipping"}, st.Active())
	assert.False(t, st.book.Turn.Contested)
}

// A Store whose replica answers with an old record loses nothing of a newer one.
func TestStoreThatIsStale(t *testing.T) {
	store := &shelf{}
	one, two := newBay(t, Config{Store: store}, desk), newBay(t, Config{Store: &store.MemoryStore}, desk)
	ctx, err := one.LoadState(conversation("4711"))
	require.NoError(t, err)
	require.NoError(t, one.SaveState(ctx))
	old, err := store.MemoryStore.Load(ctx, "4711")
	require.NoError(t, err)
	require.NoError(t, two.Invoke(conversation("4711"), "shipping", ""))
	reads := 0
	store.onLoad = func(_ context.Context, r Record) (Record, error) {
		if reads++; reads == 1 {
			require.NoError(t, two.Invoke(conversation("4711"), "policy", "")) // one more conflict
			return r, nil
		}
		old.Revision = r.Revision
		return old, nil
	}
	require.NoError(t, one.Invoke(ctx, "refund", ""))
	assert.Equal(t, 2, reads)
	assert.Subset(t, store.state(t, "4711").Active(), []string{"refund", "shipping"})
}

// A conversation that expired while a run was on is kept anew.
func TestStorePurgedMeanwhile(t *testing.T) {
	store := &shelf{}
	p := newPod(t, Config{Store: store}, desk)
	_, err := p.run(conversation("4711"), "Hello", calls(skillCall("shipping", "")))
	require.NoError(t, err)
	p.script.steps = []func(request) *llms.ContentResponse{func(request) *llms.ContentResponse {
		n, err := store.Purge(context.Background(), time.Now().Add(time.Hour))
		require.NoError(t, err)
		require.EqualValues(t, 1, n)
		return calls(skillCall("refund", "A1"))
	}}
	_, err = p.run(conversation("4711"), "Refund")
	require.NoError(t, err)
	st := store.state(t, "4711")
	assert.Equal(t, []string{"shipping", "refund"}, st.Active())
	assert.Equal(t, 2, st.Turn())
}

func TestStoreConflictForEver(t *testing.T) {
	store := &shelf{}
	p := newPod(t, Config{Store: store}, desk)
	_, err := p.run(conversation("4711"), "Hello")
	require.NoError(t, err)
	store.onSave = func(context.Context, string, Record, func() error) error { return ErrConflict }
	before := store.saves
	_, err = p.run(conversation("4711"), "Refund A1", calls(skillCall("refund", "A1")), calls(toolCall("Write", "x")))
	require.ErrorIs(t, err, ErrConflict)
	assert.Equal(t, 2*maxSaves, store.saves-before, "bounded: for the launch, and at the end")
	var unsaved *SaveError
	require.ErrorAs(t, err, &unsaved)
	assert.Equal(t, "4711", unsaved.Conversation)
	assert.Equal(t, []string{"refund"}, unsaved.State.Active(), "nothing is lost")
	assert.Contains(t, err.Error(), `skillbay: launch "refund": skillbay: save state: conversation "4711": `)
	assert.Empty(t, p.tool.ran)
	require.ErrorIs(t, unsaved.Retry(context.Background()), ErrConflict)

	store.onSave = nil
	require.NoError(t, unsaved.Retry(context.Background()))
	assert.Equal(t, []string{"refund"}, store.state(t, "4711").Active())
	assert.Equal(t, 2, store.state(t, "4711").Turn())
	require.NoError(t, unsaved.Retry(context.Background()), "saving again is no harm")
}

func TestStoreAnnouncesWhatIsKept(t *testing.T) {
	store := &shelf{}
	down := errors.New("down")
	p := newPod(t, Config{Store: store}, desk)
	store.onSave = func(context.Context, string, Record, func() error) error { return down }
	_, err := p.run(conversation("4711"), "Hello")
	require.ErrorIs(t, err, down)
	assert.Empty(t, p.script.requests, "the model is not asked")
	assert.Empty(t, p.types(), "and nothing was announced")
	store.onSave = nil
	for range 2 {
		_, err = p.run(conversation("4711"), "Hello")
		require.NoError(t, err)
	}
	assert.Equal(t, []string{EventAnnounced}, p.types())
}

func TestStoreThatFails(t *testing.T) {
	down := errors.New("down")
	for _, tc := range []struct {
		name   string
		onLoad func(context.Context, Record) (Record, error)
		err    error
	}{
		{"fails", func(context.Context, Record) (Record, error) { return Record{}, down }, down},
		{"panics", func(context.Context, Record) (Record, error) { panic("boom") }, errStorePanic},
		{"hangs", func(ctx context.Context, _ Record) (Record, error) { <-ctx.Done(); return Record{}, ctx.Err() }, context.DeadlineExceeded},
		{"cuts the State", func(_ context.Context, r Record) (Record, error) {
			r.State = r.State[:len(r.State)/2]
			return r, nil
		}, ErrState},
		{"loses the State", func(_ context.Context, r Record) (Record, error) { r.State = nil; return r, nil }, ErrState},
		{"loses the revision", func(_ context.Context, r Record) (Record, error) { r.Revision = 0; return r, nil }, ErrState},
		{"makes a revision up", func(_ context.Context, r Record) (Record, error) { r.Revision = -1; return r, nil }, ErrState},
		{"is newer", func(_ context.Context, r Record) (Record, error) {
			r.State = []byte(strings.Replace(string(r.State), `"format":1`, `"format":2`, 1))
			return r, nil
		}, ErrState},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store := &shelf{}
			p := newPod(t, Config{Store: store, StoreTimeout: time.Millisecond}, desk)
			store.onSave = func(_ context.Context, _ string, _ Record, save func() error) error { return save() }
			b := newBay(t, Config{Store: &store.MemoryStore}, desk)
			ctx, err := b.LoadState(conversation("4711"))
			require.NoError(t, err)
			require.NoError(t, b.SaveState(ctx))
			store.onLoad = tc.onLoad
			_, err = p.run(conversation("4711"), "Hello")
			require.ErrorIs(t, err, tc.err)
			assert.Empty(t, p.script.requests, "no run begins on a State that is not known")
			require.ErrorIs(t, p.Invoke(conversation("4711"), "refund", ""), tc.err)
			require.ErrorIs(t, p.Dismiss(conversation("4711"), "refund", ""), tc.err)
			_, err = p.Reminder(conversation("4711"), "x")
			require.ErrorIs(t, err, tc.err)
			_, err = p.LoadState(conversation("4711"))
			require.ErrorIs(t, err, tc.err)
		})
	}
}

func TestStoreSavesThatHangOrPanic(t *testing.T) {
	for name, tc := range map[string]struct {
		save func(ctx context.Context) error
		err  error
	}{
		"hangs":  {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, context.DeadlineExceeded},
		"panics": {func(context.Context) error { panic("boom") }, errStorePanic},
	} {
		t.Run(name, func(t *testing.T) {
			store := &shelf{}
			p := newPod(t, Config{Store: store, StoreTimeout: time.Millisecond}, map[string]string{"hidden": "---\ndescription: x\ndisable-model-invocation: true\n---\nx\n"})
			store.onSave = func(ctx context.Context, _ string, _ Record, _ func() error) error { return tc.save(ctx) }
			out, err := p.exec.Call(conversation("4711"), map[string]any{"input": "Hello"})
			require.ErrorIs(t, err, tc.err)
			assert.Equal(t, "done", out["output"], "the answer comes beside the error")
		})
	}
}

func TestConversationOrState(t *testing.T) {
	store := &shelf{}
	p := newPod(t, Config{Store: store}, desk)
	st := NewState()
	_, err := p.run(WithState(conversation("4711"), st), "Hello")
	require.NoError(t, err)
	assert.Equal(t, 1, st.Turn())
	assert.Zero(t, store.saves, "a State of the host's own is no Store's")

	_, err = p.run(WithConversation(WithState(context.Background(), st), "4711"), "Hello")
	require.NoError(t, err)
	assert.Equal(t, 1, st.Turn())
	assert.Equal(t, 1, store.state(t, "4711").Turn())
	_, err = p.run(WithState(conversation("4711"), nil), "Hello")
	require.ErrorIs(t, err, ErrNoState)

	_, err = newPod(t, Config{}, desk).run(conversation("4711"), "Hello")
	require.ErrorIs(t, err, ErrNoStore)
	for _, id := range []string{strings.Repeat("x", 256), "a\x00b", "a\nb", "a\xff"} {
		_, err = p.run(conversation(id), "Hello")
		require.ErrorIs(t, err, ErrNoConversation, "%q", id)
	}
	_, err = p.run(conversation(""), "Hello")
	require.ErrorIs(t, err, ErrNoState)
	_, err = p.LoadState(context.Background())
	require.ErrorIs(t, err, ErrNoConversation)
	require.ErrorIs(t, p.SaveState(conversation("4711")), ErrNoConversation)
	require.ErrorIs(t, p.BeginTurn(conversation("4711")), ErrNoState)
}

// A loop of one's own loads and saves by itself; launches are saved all the same.
func TestStoreOfALoop(t *testing.T) {
	store := &shelf{}
	b := newBay(t, Config{Store: store}, desk)
	l := newLoop(t, b)
	request := func(text string, answers ...*llms.ContentResponse) {
		t.Helper()
		ctx, err := b.LoadState(conversation("4711"))
		require.NoError(t, err)
		l.state, _ = StateFrom(ctx)
		l.base = ctx
		l.ask(text, answers...)
		require.NoError(t, b.SaveState(ctx))
	}
	request("Refund A1", calls(skillCall("refund", "A1")), calls(toolCall("Write", "x")))
	assert.Empty(t, l.ran)
	request("Thanks", calls(toolCall("Write", "x")))
	assert.Equal(t, []string{"Write"}, l.ran)
	st := store.state(t, "4711")
	assert.Equal(t, 2, st.Turn())
	assert.True(t, st.book.Turn.Answered)
	assert.Equal(t, []string{EventAnnounced, EventInvoked, EventBlocked}, b.types())
	saves := store.saves
	ctx, err := b.LoadState(conversation("4711"))
	require.NoError(t, err)
	require.NoError(t, b.SaveState(ctx))
	assert.Equal(t, saves, store.saves, "nothing changed, nothing is saved")

	require.NoError(t, b.BeginTurn(ctx))
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	require.NoError(t, b.SaveState(cancelled), "a customer who hangs up loses nothing")
	assert.Equal(t, 3, store.state(t, "4711").Turn())
}

func TestStoreOfTheHostsCalls(t *testing.T) {
	store := &shelf{}
	p := newPod(t, Config{Store: store}, desk)
	ctx := conversation("4711")
	require.NoError(t, p.Invoke(ctx, "refund", "A1"))
	require.Len(t, store.state(t, "4711").Invoked(), 1)
	assert.Zero(t, store.state(t, "4711").Invoked()[0].Turn, "it waits for the next turn")
	require.NoError(t, p.Dismiss(ctx, "refund", "mistake"))
	assert.Empty(t, store.state(t, "4711").Invoked())
	require.ErrorIs(t, p.Dismiss(ctx, "refund", ""), ErrNotActive)

	note, err := p.Reminder(conversation("4712"), "Summary: hello.")
	require.NoError(t, err)
	assert.True(t, store.state(t, "4712").isReminder(note), "the secret of a new conversation is kept")
}

// Two agents of one conversation have a State each, by a suffix of the id. What
// one runs inside a tool of the other's is held to that one's limits.
func TestSubConversations(t *testing.T) {
	store := &shelf{}
	b := newBay(t, Config{Store: store}, desk)
	inner := newPod(t, Config{Store: store}, desk)
	delegate := &toolFunc{name: "Read", call: func(ctx context.Context, input string) (string, error) {
		return inner.run(WithConversation(ctx, "4711/desk"), input, calls(skillCall("shipping", "")), calls(toolCall("Write", input)))
	}}
	s := &script{}
	exec, err := b.WrapExecutor(agents.NewExecutor(agents.NewOpenAIFunctionsAgent(s, []tools.Tool{delegate})))
	require.NoError(t, err)
	s.then(calls(toolCall("Read", "one")), calls(skillCall("refund", "A1")), calls(toolCall("Read", "two")))
	_, err = chains.Run(conversation("4711"), exec, "Refund A1")
	require.NoError(t, err)
	assert.Equal(t, []string{"one"}, inner.tool.ran, "the second Write was inside a limit of the outer agent's")
	assert.Equal(t, []string{"refund"}, store.state(t, "4711").Active())
	assert.Equal(t, []string{"shipping"}, store.state(t, "4711/desk").Active())
	assert.Equal(t, 2, store.state(t, "4711/desk").Turn())
}

// toolFunc is a tool that is a function.
type toolFunc struct {
	name string
	call func(context.Context, string) (string, error)
}

func (f *toolFunc) Name() string        { return f.name }
func (f *toolFunc) Description() string { return f.name }
func (f *toolFunc) Call(ctx context.Context, input string) (string, error) {
	return f.call(ctx, input)
}

// rot13 seals so that a reader of the test sees that it did.
type rot13 struct{ redacts bool }

func (r rot13) Seal(_ context.Context, id, text string) (string, error) {
	if r.redacts {
		return "", nil
	}
	return id + ":" + turned(text), nil
}

func (r rot13) Open(_ context.Context, id, sealed string) (string, error) {
	text, ok := strings.CutPrefix(sealed, id+":")
	if !ok {
		return "", errors.New("sealed for another conversation")
	}
	return turned(text), nil
}

func turned(text string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z':
			return 'a' + (c-'a'+13)%26
		case c >= 'A' && c <= 'Z':
			return 'A' + (c-'A'+13)%26
		}
		return c
	}, text)
}

func TestSealed(t *testing.T) {
	store := &shelf{}
	p := newPod(t, Config{Store: Sealed(store, rot13{})}, desk)
	_, err := p.run(conversation("4711"), "Refund", calls(skillCall("refund", "for Alice")),
		calls(toolCall(toolDismiss, `{"skill":"refund","reason":"Alice left"}`)))
	require.NoError(t, err)
	_, err = p.run(conversation("4711"), "Refund again", calls(skillCall("refund", "for Bob")))
	require.NoError(t, err)
	require.NoError(t, p.Invoke(conversation("4711"), "policy", "for Carol"))
	r, err := store.MemoryStore.Load(context.Background(), "4711")
	require.NoError(t, err)
	for _, name := range []string{"Alice", "Bob", "Carol"} {
		assert.NotContains(t, string(r.State), name)
	}
	assert.Contains(t, string(r.State), "4711:sbe Obo")
	ctx, err := p.LoadState(conversation("4711"))
	require.NoError(t, err)
	st, _ := StateFrom(ctx)
	var args []string
	for _, l := range st.Invoked() {
		args = append(args, l.Args)
	}
	assert.Equal(t, []string{"for Bob", "for Carol"}, args)
	assert.Equal(t, "Alice left", st.Dismissed()[0].Reason)
	assert.False(t, st.book.Turn.Contested)

	require.NoError(t, store.MemoryStore.Save(context.Background(), "4712", Record{Revision: 1, State: r.State}))
	_, err = p.LoadState(conversation("4712"))
	require.ErrorContains(t, err, "sealed for another conversation")
}

func TestSealedRedacts(t *testing.T) {
	store := &shelf{}
	p := newPod(t, Config{Store: Sealed(store, rot13{redacts: true})}, desk)
	call := skillCall("refund", "for Alice")
	p.script.steps = []func(request) *llms.ContentResponse{
		func(request) *llms.ContentResponse { return calls(call) },
		func(r request) *llms.ContentResponse {
			assert.Contains(t, r.text(), "Refund order for carefully.", "what the model reads is whole")
			return say("Done.")
		},
	}
	_, err := p.run(conversation("4711"), "Refund")
	require.NoError(t, err)
	kept := store.state(t, "4711").Invoked()
	require.Len(t, kept, 1)
	assert.Empty(t, kept[0].Args)
	p.script.requests = nil
	_, err = p.run(conversation("4711"), "And now?")
	require.NoError(t, err)
	assert.NotContains(t, p.script.last().text(), "carefully", "a body without its arguments is not put back")
	assert.Contains(t, p.script.last().text(), "refund")
}

type brokenSealer struct{ rot13 }

func (brokenSealer) Seal(context.Context, string, string) (string, error) { return "\xff", nil }

func TestSealedFailsClosed(t *testing.T) {
	store := &shelf{}
	p := newPod(t, Config{Store: Sealed(store, brokenSealer{})}, desk)
	_, err := p.run(conversation("4711"), "Refund", calls(skillCall("refund", "for Alice")))
	require.ErrorIs(t, err, ErrState)
	assert.Empty(t, store.state(t, "4711").Active())
}

func TestMemoryStorePurge(t *testing.T) {
	var m MemoryStore
	ctx := context.Background()
	n, err := m.Purge(ctx, time.Now())
	require.NoError(t, err)
	assert.Zero(t, n)
	for _, id := range []string{"a", "b", "c"} {
		require.NoError(t, m.Save(ctx, id, Record{Revision: 1, State: []byte("{}")}))
	}
	require.NoError(t, m.Delete(ctx, "a"))
	require.NoError(t, m.Delete(ctx, "a"), "once more is no error")
	n, err = m.Purge(ctx, time.Now().Add(-time.Hour))
	require.NoError(t, err)
	assert.Zero(t, n)
	n, err = m.Purge(ctx, time.Now().Add(time.Hour))
	require.NoError(t, err)
	assert.EqualValues(t, 2, n)
	require.NoError(t, m.Save(ctx, "b", Record{Revision: 1, State: []byte("{}")}), "it is a new conversation")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = m.Purge(ended, time.Now())
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, m.Delete(ended, "b"), context.Canceled)
}

func TestNewSQLStoreRefuses(t *testing.T) {
	for _, tc := range []struct {
		name    string
		dialect Dialect
		table   string
	}{
		{"no database", SQLite, ""},
		{"no dialect", 0, ""},
		{"unknown dialect", 4, ""},
		{"injection", SQLite, "x; DROP TABLE y"},
		{"quote", MySQL, "a`b"},
		{"two dots", PostgreSQL, "a.b.c"},
	} {
		_, err := NewSQLStore(nil, tc.dialect, tc.table)
		require.ErrorIs(t, err, ErrConfig, tc.name)
	}
}

func TestIdleTurns(t *testing.T) {
	b := newBay(t, Config{IdleTurns: 2}, desk)
	l := newLoop(t, b)
	l.ask("one", calls(skillCall("shipping", ""))) // turn 1
	l.ask("two", calls(skillCall("policy", "")))   // turn 2
	l.ask("three")                                 // turn 3: shipping was not launched in 2 only
	assert.Equal(t, []string{"shipping", "policy"}, l.state.Active())
	l.ask("four") // turn 4: not in 2 and 3
	assert.Equal(t, []string{"policy"}, l.state.Active())
	require.Len(t, l.state.Dismissed(), 1)
	assert.Equal(t, Dismissal{Skill: "shipping", Reason: "idle", Turn: 4, Time: l.state.Dismissed()[0].Time}, l.state.Dismissed()[0])
	assert.Contains(t, l.script.last().text(), strings.ReplaceAll(English.Released, "{skill}", "shipping"))
	e := b.events[len(b.events)-1]
	assert.Equal(t, []string{EventDismissed, "shipping", "idle"}, []string{e.Type, e.Skill, e.Detail})
	l.ask("five", calls(skillCall("policy", ""))) // turn 5: policy is released, then launched again
	assert.Equal(t, []string{"policy"}, l.state.Active())
	assert.Equal(t, 2, strings.Count(strings.Join(b.types(), " "), EventDismissed))
	l.ask("six")
	l.ask("seven")
	assert.Equal(t, []string{"policy"}, l.state.Active(), "launched in 5, it stays for 6 and 7")
	l.ask("eight")
	assert.Empty(t, l.state.Active())
}

// Time lifts no limit: what KeepWindow keeps as one is not idle.
func TestIdleTurnsLiftNoLimit(t *testing.T) {
	l := newLoop(t, newBay(t, Config{IdleTurns: 1, KeepWindow: true}, desk))
	l.ask("one", calls(skillCall("refund", "A1"), skillCall("shipping", "")))
	l.ask("two")
	l.ask("three")
	l.ask("four", calls(toolCall("Write", "x")))
	assert.Empty(t, l.ran)
	assert.True(t, slices.Contains(l.state.Active(), "refund"))
}

// A release of idle skills is a change: it is saved, and an error ends the call.
func TestIdleTurnsAreSaved(t *testing.T) {
	full := errors.New("disk full")
	var saved []*State
	var fails error
	b := newBay(t, Config{IdleTurns: 1, OnChange: func(_ context.Context, st *State) error {
		saved = append(saved, st)
		return fails
	}}, desk)
	l := newLoop(t, b)
	l.ask("one", calls(skillCall("shipping", "")))
	l.ask("two")
	require.Len(t, saved, 1)
	fails = full
	_, err := b.BeforeModel(l.ctx(), append(slices.Clone(l.history), human("three")))
	require.ErrorIs(t, err, full)
	require.Len(t, saved, 2)
	_, err = b.BeforeModel(l.ctx(), append(slices.Clone(l.history), human("three")))
	require.NoError(t, err, "it was released, once")
}

func TestSaveErrorWords(t *testing.T) {
	err := &SaveError{Conversation: "a\nb", Err: ErrConflict}
	assert.Equal(t, `conversation "a\nb": the conversation was saved elsewhere meanwhile`, err.Error())
	_, jsonErr := json.Marshal(err.State)
	require.NoError(t, jsonErr)
}
