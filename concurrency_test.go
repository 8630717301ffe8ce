package skillbay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/memory"
	"github.com/tmc/langchaingo/tools"
)

// fakeModel is an llms.Model made of a function: unlike a script it serves any
// number of conversations.
type fakeModel func(context.Context, []llms.MessageContent, llms.CallOptions) (*llms.ContentResponse, error)

func (f fakeModel) GenerateContent(
	ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption,
) (*llms.ContentResponse, error) {
	var o llms.CallOptions
	for _, option := range options {
		option(&o)
	}
	return f(ctx, messages, o)
}

func (f fakeModel) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, f, prompt, options...)
}

// fakeTool is a tool made of a function.
type fakeTool struct {
	name string
	call func(ctx context.Context, input string) (string, error)
}

func (f *fakeTool) Name() string        { return f.name }
func (f *fakeTool) Description() string { return "does what the test says" }
func (f *fakeTool) Call(ctx context.Context, input string) (string, error) {
	return f.call(ctx, input)
}

// answersIn counts the tool answers of a request.
func answersIn(messages []llms.MessageContent) (n int) {
	for _, m := range messages {
		if m.Role == llms.ChatMessageTypeTool {
			n++
		}
	}
	return n
}

var customer = regexp.MustCompile(`C\d{5}`)

// Thousands of conversations share one executor, each with a State of its own
// in ctx. The model decides from what it is sent, so that a text of another
// conversation, were it only one, would show.
func TestConversationsDoNotCrossTalk(t *testing.T) {
	var foreign atomic.Int64
	served := fakeModel(func(_ context.Context, messages []llms.MessageContent, _ llms.CallOptions) (*llms.ContentResponse, error) {
		seen := request{messages: messages}.text()
		id := customer.FindString(seen)
		for _, other := range customer.FindAllString(seen, -1) {
			if other != id {
				foreign.Add(1)
			}
		}
		if strings.Contains(seen, "and thanks") {
			return say("welcome " + id + fmt.Sprint(strings.Count(seen, "Refund order "+id+" carefully."))), nil
		}
		switch answersIn(messages) {
		case 0:
			return calls(skillCall("refund", id)), nil
		case 1:
			return calls(toolCall("Read", `{"__arg1":"`+id+`"}`), toolCall("Write", `{"__arg1":"`+id+`"}`)), nil
		}
		return say("done for " + id), nil
	})
	b := newBay(t, Config{}, desk)
	write := &echo{name: "Write"}
	exec, err := b.WrapExecutor(agents.NewExecutor(
		agents.NewOpenAIFunctionsAgent(served, []tools.Tool{&echo{name: "Read"}, write}), agents.WithMaxIterations(8)))
	require.NoError(t, err)

	const conversations, returning = 2_000, 5
	var group sync.WaitGroup
	for n := range conversations {
		group.Add(1)
		go func() {
			defer group.Done()
			id := fmt.Sprintf("C%05d", n)
			st := NewState()
			ctx := WithState(context.Background(), st)
			own := exec.WithMemory(memory.NewSimple())
			out, err := chains.Run(ctx, own, "Refund my order "+id)
			if !assert.NoError(t, err) || !assert.Equal(t, "done for "+id, out) {
				return
			}
			if invoked := st.Invoked(); assert.Len(t, invoked, 1) {
				assert.Equal(t, id, invoked[0].Args)
			}
			if n%returning != 0 {
				return
			}
			// In the next turn the body comes back, with this customer's order.
			out, err = chains.Run(ctx, own, "and thanks, "+id)
			if assert.NoError(t, err) {
				assert.Equal(t, "welcome "+id+"1", out)
			}
			assert.Equal(t, 2, st.Turn())
		}()
	}
	group.Wait()
	assert.Zero(t, foreign.Load(), "texts of other conversations")
	assert.Empty(t, write.ran, "the gate holds in every conversation")
	assert.Equal(t, conversations, b.count(EventInvoked))
	assert.Equal(t, conversations, b.count(EventBlocked))
	assert.Equal(t, conversations/returning, b.count(EventReinjected))
	sessions := map[string]bool{}
	for _, e := range b.events {
		if e.Type == EventInvoked {
			sessions[e.SessionID] = true
		}
	}
	assert.Len(t, sessions, conversations)
}

func TestOneStateManyGoroutines(t *testing.T) {
	// Two Go agents crashed on maps that one goroutine read and another wrote
	// (SamSaffron/term-llm#295, genai-io/gen-code#358).
	t.Run("st-05", func(t *testing.T) {
		files, names := many(8, "", "Do it.")
		b := newBay(t, Config{}, files)
		s := NewState()
		ctx := WithState(context.Background(), s)
		const rounds = 25
		var group sync.WaitGroup
		for _, name := range names {
			group.Add(1)
			go func() {
				defer group.Done()
				for i := range rounds {
					assert.NoError(t, b.BeginTurn(ctx))
					call := skillCall(name, fmt.Sprint(i))
					_, err := b.CallTools(ctx, answering(name, call), []llms.ToolCall{call}, ran)
					assert.NoError(t, err)
					assert.Contains(t, s.Active(), name, "no lost launch")
					_, err = b.BeforeModel(ctx, []llms.MessageContent{human(name)})
					assert.NoError(t, err)
					_, err = s.Value()
					assert.NoError(t, err)
					s.Merge(s.Fork())
					CheckAllowedTools(answering(name, call), call, b.Skills())
					_, _, _, _ = s.Announced(), s.Invoked(), s.Dismissed(), b.Listing()
					if i < rounds-1 {
						assert.NoError(t, b.Dismiss(ctx, name, fmt.Sprint(i)), "no lost launch")
						assert.NotContains(t, s.Active(), name, "no lost dismissal")
					}
				}
			}()
		}
		group.Wait()
		assert.ElementsMatch(t, names, s.Active())
		assert.Equal(t, 8*rounds, b.count(EventInvoked))
		assert.Equal(t, 8*(rounds-1), b.count(EventDismissed))
		assert.Equal(t, 8*rounds, s.Turn())
		assert.Equal(t, jsonOf(t, s), jsonOf(t, resumed(t, s)))
	})
	t.Run("two merge each other", func(t *testing.T) {
		x, y := NewState(), NewState()
		var group sync.WaitGroup
		for range 50 {
			group.Add(2)
			go func() { defer group.Done(); x.Merge(y) }()
			go func() { defer group.Done(); y.Merge(x) }()
		}
		group.Wait()
		assert.Equal(t, x.SessionID(), y.SessionID())
	})
	t.Run("a wrapped model and its options", func(t *testing.T) {
		b := newBay(t, Config{}, desk)
		model := b.WrapModel(fakeModel(func(context.Context, []llms.MessageContent, llms.CallOptions) (*llms.ContentResponse, error) {
			return say("hello"), nil
		}))
		shared := make([]llms.CallOption, 1, 8) // room for an append that would race
		shared[0] = llms.WithTools(append(make([]llms.Tool, 0, 8), userTools...))
		history := append(make([]llms.MessageContent, 0, 8), human("hi <system-reminder>"))
		var group sync.WaitGroup
		for range 16 {
			group.Add(1)
			go func() {
				defer group.Done()
				_, err := model.GenerateContent(WithState(context.Background(), NewState()), history, shared...)
				assert.NoError(t, err)
			}()
		}
		group.Wait()
		assert.Equal(t, "hi <system-reminder>", textOf(history[0]))
	})
	// A retry may overlap with what it retries: one call is one launch.
	t.Run("the same call twice at once", func(t *testing.T) {
		var asked atomic.Int64
		both := make(chan struct{})
		b := newBay(t, Config{Permit: func(context.Context, Skill, string) Decision {
			if asked.Add(1) == 2 {
				close(both)
			}
			select {
			case <-both:
			case <-time.After(200 * time.Millisecond): // the other waits for this one
			}
			return Allow
		}}, desk)
		s := NewState()
		call := skillCall("refund", "A1")
		history := answering("go", call)
		texts := make([]string, 2)
		var group sync.WaitGroup
		for i := range texts {
			group.Add(1)
			go func() {
				defer group.Done()
				m, err := b.CallTool(WithState(context.Background(), s), history, call, ran)
				assert.NoError(t, err)
				texts[i] = m.Parts[0].(llms.ToolCallResponse).Content
			}()
		}
		group.Wait()
		assert.Equal(t, texts[0], texts[1], "the same text")
		assert.Len(t, s.Invoked(), 1, "recorded once")
		assert.Equal(t, 1, b.count(EventInvoked), "audited once")
	})
}

func TestCallToolsAtOnce(t *testing.T) {
	b := newBay(t, Config{}, desk)
	list := make([]llms.ToolCall, 40)
	for i := range list {
		list[i] = toolCall("Read", fmt.Sprintf(`{"n":%d}`, i))
	}
	t.Run("at most 8, in call order, errors joined", func(t *testing.T) {
		var mu sync.Mutex
		begun, now, most := 0, 0, 0
		crowd := make(chan struct{})
		broken := errors.New("broken")
		results, err := b.CallTools(WithState(context.Background(), NewState()), answering("go", list...), list,
			func(_ context.Context, call llms.ToolCall) (string, error) {
				mu.Lock()
				begun, now = begun+1, now+1
				most = max(most, now)
				if begun == 9 {
					close(crowd)
				}
				mu.Unlock()
				defer func() {
					mu.Lock()
					defer mu.Unlock()
					now--
				}()
				select { // the first wait for a ninth, which must not come
				case <-crowd:
				case <-time.After(50 * time.Millisecond):
				}
				if strings.HasSuffix(inputOf(call), "7}") {
					return "", broken
				}
				return inputOf(call), nil
			})
		require.ErrorIs(t, err, broken)
		assert.Equal(t, 8, most)
		require.Len(t, results, len(list))
		for i, m := range results {
			answer := m.Parts[0].(llms.ToolCallResponse)
			assert.Equal(t, list[i].ID, answer.ToolCallID)
			assert.Equal(t, llms.ChatMessageTypeTool, m.Role)
			if i%10 == 7 {
				assert.Contains(t, answer.Content, "failed")
			} else {
				assert.Equal(t, inputOf(list[i]), answer.Content)
			}
		}
	})
	t.Run("a panic comes when the siblings have ended", func(t *testing.T) {
		s := NewState()
		var ended atomic.Int64
		assert.PanicsWithValue(t, "boom", func() {
			_, _ = b.CallTools(WithState(context.Background(), s), answering("go", list...), list,
				func(_ context.Context, call llms.ToolCall) (string, error) {
					if inputOf(call) == `{"n":3}` {
						panic("boom")
					}
					ended.Add(1)
					return "", nil
				})
		})
		assert.EqualValues(t, len(list)-1, ended.Load())
		assert.True(t, runs(t, b.Middleware, s, "Read", "{}"), "the State is usable")
	})
	t.Run("a cancelled ctx begins no more calls", func(t *testing.T) {
		ctx, cancel := context.WithCancel(WithState(context.Background(), NewState()))
		defer cancel()
		var begun sync.WaitGroup
		begun.Add(8)
		var count atomic.Int64
		results, err := b.CallTools(ctx, answering("go", list...), list,
			func(ctx context.Context, _ llms.ToolCall) (string, error) {
				if count.Add(1) <= 8 {
					begun.Done()
					begun.Wait()
				}
				cancel()
				return "", ctx.Err()
			})
		require.ErrorIs(t, err, context.Canceled)
		assert.Len(t, results, len(list))
		assert.EqualValues(t, 8, count.Load(), "calls that waited for their turn do not run")
	})
}

// occupied is an executor whose run stands still inside its model call.
type occupied struct {
	bay    *bay
	exec   *Executor
	tools  []tools.Tool
	state  *State
	within chan struct{} // the run is in its model call
	goOn   chan struct{} // let it end
	ended  chan error
}

func occupy(t *testing.T) *occupied {
	o := &occupied{
		bay: newBay(t, Config{}, desk), state: NewState(),
		within: make(chan struct{}), goOn: make(chan struct{}), ended: make(chan error, 1),
	}
	slow := fakeModel(func(context.Context, []llms.MessageContent, llms.CallOptions) (*llms.ContentResponse, error) {
		close(o.within)
		<-o.goOn
		return say("done"), nil
	})
	var err error
	o.exec, err = o.bay.WrapExecutor(agents.NewExecutor(agents.NewOpenAIFunctionsAgent(slow, []tools.Tool{&echo{name: "Read"}})))
	require.NoError(t, err)
	o.tools, err = o.bay.WrapTools(&echo{name: "Write"})
	require.NoError(t, err)
	launchIn(t, o.bay.Middleware, o.state, "refund", "A1")
	go func() {
		_, err := chains.Run(WithState(context.Background(), o.state), o.exec, "hello")
		o.ended <- err
	}()
	<-o.within
	return o
}

func TestOneOutermostRun(t *testing.T) {
	o := occupy(t)
	ctx := WithState(context.Background(), o.state)
	model := o.bay.WrapModel(&script{})
	call := skillCall("policy", "")
	history := answering("other", call)
	before, revision := jsonOf(t, o.state), o.state.Revision()
	events := len(o.bay.types())
	for _, tt := range []struct {
		name string
		do   func() error
	}{
		{"Executor.Call", func() error { _, err := chains.Run(ctx, o.exec, "hello"); return err }},
		{"Executor.Call with another input", func() error { _, err := o.exec.Call(ctx, map[string]any{"input": "x"}); return err }},
		{"model call", func() error { _, err := model.GenerateContent(ctx, history); return err }},
		{"model call with tools", func() error { _, err := model.GenerateContent(ctx, history, llms.WithTools(userTools)); return err }},
		{"BeforeModel", func() error { _, err := o.bay.BeforeModel(ctx, history); return err }},
		{"BeginTurn", func() error { return o.bay.BeginTurn(ctx) }},
		{"CallTool", func() error { _, err := o.bay.CallTool(ctx, history, call, ran); return err }},
		{"CallTools", func() error {
			results, err := o.bay.CallTools(ctx, history, []llms.ToolCall{call, call}, ran)
			assert.Len(t, results, 2)
			return err
		}},
		{"wrapped tool", func() error { _, err := o.tools[0].Call(ctx, "x"); return err }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.do()
			require.ErrorIs(t, err, ErrBusy)
			var e *Error
			assert.ErrorAs(t, err, &e)
			assert.Equal(t, before, jsonOf(t, o.state))
			assert.Equal(t, revision, o.state.Revision())
			assert.Len(t, o.bay.types(), events, "nothing is audited")
		})
	}
	t.Run("another State is free", func(t *testing.T) {
		_, err := model.GenerateContent(WithState(context.Background(), NewState()), history)
		assert.NoError(t, err)
	})
	t.Run("the mark is not saved", func(t *testing.T) {
		assert.NoError(t, o.bay.BeginTurn(WithState(context.Background(), resumed(t, o.state))))
		assert.NoError(t, o.bay.BeginTurn(WithState(context.Background(), o.state.Fork())))
	})
	close(o.goOn)
	require.NoError(t, <-o.ended)
	assert.NoError(t, o.bay.BeginTurn(ctx), "free again")
}

// A run may end in any way: the mark that it leaves must not shut the
// conversation for good.
func TestBusyMarkIsCleared(t *testing.T) {
	boom := func() { panic("boom") }
	for _, tt := range []struct {
		name  string
		model func() (*llms.ContentResponse, error)
		tool  func() (string, error)
	}{
		{"a model panics", func() (*llms.ContentResponse, error) { boom(); return nil, nil }, nil},
		{"a model fails", func() (*llms.ContentResponse, error) { return nil, errors.New("down") }, nil},
		{"a tool panics", nil, func() (string, error) { boom(); return "", nil }},
		{"a tool fails", nil, func() (string, error) { return "", errors.New("down") }},
		{"the run does not finish", nil, func() (string, error) { return "again", nil }},
		{"an empty answer", func() (*llms.ContentResponse, error) { return &llms.ContentResponse{}, nil }, nil},
		{"a nil answer", func() (*llms.ContentResponse, error) { return nil, nil }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBay(t, Config{}, desk)
			failing := true
			model := fakeModel(func(context.Context, []llms.MessageContent, llms.CallOptions) (*llms.ContentResponse, error) {
				switch {
				case !failing:
					return say("done"), nil
				case tt.model != nil:
					return tt.model()
				}
				return calls(toolCall("Read", "{}")), nil
			})
			read := &fakeTool{"Read", func(context.Context, string) (string, error) { return tt.tool() }}
			exec, err := b.WrapExecutor(agents.NewExecutor(agents.NewOpenAIFunctionsAgent(model, []tools.Tool{read})))
			require.NoError(t, err)
			s := NewState()
			ctx := WithState(context.Background(), s)
			func() {
				defer func() { _ = recover() }()
				_, err := chains.Run(ctx, exec, "hello")
				assert.Error(t, err)
			}()
			assert.Equal(t, 1, s.Turn())
			failing = false
			out, err := chains.Run(ctx, exec, "hello")
			require.NoError(t, err)
			assert.Equal(t, "done", out)
			assert.Equal(t, 1, s.Turn(), "the retry goes on with the turn")
			assert.NoError(t, b.BeginTurn(ctx))
		})
	}
}

// No lock is held while a function of the host's runs: each may look at the
// State, and even save it.
func TestHostFunctionsMayUseTheState(t *testing.T) {
	s := NewState()
	called := map[string]bool{}
	var mu sync.Mutex
	look := func(who string) {
		_, _ = s.Value()
		mu.Lock()
		defer mu.Unlock()
		called[who] = true
	}
	now := time.Now()
	cfg := Config{
		CountTokens: func(text string) int { look("CountTokens"); return len(text) / 4 },
		Permit:      func(context.Context, Skill, string) Decision { look("Permit"); return Allow },
		Visible:     func(context.Context, Skill) bool { look("Visible"); return true },
		OnChange:    func(context.Context, *State) error { look("OnChange"); return nil },
		Logger:      slog.New(lookingHandler{look: look}),
		Now:         func() time.Time { look("Now"); return now },
		Skills:      []Source{skillFS(desk)},
		Audit:       func(context.Context, Event) { look("Audit") },
	}
	mw, err := New(cfg)
	require.NoError(t, err)
	cfg.Skills = []Source{skillFS(map[string]string{"policy": desk["policy"]})}
	release, err := New(cfg)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx := WithState(context.Background(), s)
		model := mw.WrapModel(fakeModel(func(context.Context, []llms.MessageContent, llms.CallOptions) (*llms.ContentResponse, error) {
			look("model")
			return say("hello"), nil
		}))
		_, err := model.GenerateContent(ctx, []llms.MessageContent{human("one")}, llms.WithTools(userTools))
		assert.NoError(t, err)
		call := skillCall("shipping", "A1")
		_, err = mw.CallTool(ctx, answering("go", call), call, ran)
		assert.NoError(t, err)
		call = toolCall("Read", "{}")
		_, err = mw.CallTool(ctx, answering("one", call), call, func(context.Context, llms.ToolCall) (string, error) {
			look("next")
			return "", nil
		})
		assert.NoError(t, err)
		assert.NoError(t, mw.Invoke(ctx, "policy", ""))
		assert.NoError(t, mw.Dismiss(ctx, "policy", ""))
		_, err = mw.BeforeModel(ctx, []llms.MessageContent{human("two")})
		assert.NoError(t, err)
		mu.Lock()
		delete(called, "Logger")
		mu.Unlock()
		assert.NoError(t, release.BeginTurn(ctx)) // logs that shipping is gone
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("a host function that looks at the State waits for ever")
	}
	for _, who := range []string{"CountTokens", "Permit", "Visible", "OnChange", "Logger", "Now", "Audit", "model", "next"} {
		assert.True(t, called[who], "%s was called", who)
	}
}

// lookingHandler is a slog.Handler that looks at a State.
type lookingHandler struct{ look func(string) }

func (h lookingHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h lookingHandler) Handle(context.Context, slog.Record) error {
	h.look("Logger")
	return nil
}
func (h lookingHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h lookingHandler) WithGroup(string) slog.Handler      { return h }
