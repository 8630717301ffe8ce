package skillbay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/tools"
)

// oddHistories are histories that a careless host or provider hands over.
func oddHistories() map[string][]llms.MessageContent {
	noFunction := llms.ToolCall{ID: "x", Type: "function"}
	answer := llms.ToolCallResponse{ToolCallID: "x", Name: "skill", Content: launchLine + "refund\n\nRefund."}
	ai := func(parts ...llms.ContentPart) llms.MessageContent {
		return llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: parts}
	}
	tool := func(parts ...llms.ContentPart) llms.MessageContent {
		return llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: parts}
	}
	return map[string][]llms.MessageContent{
		"nil":                     nil,
		"empty":                   {},
		"a zero message":          {{}},
		"a human without parts":   {{Role: llms.ChatMessageTypeHuman}},
		"an AI without parts":     {human("go"), {Role: llms.ChatMessageTypeAI}},
		"a tool without parts":    {human("go"), ai(noFunction), {Role: llms.ChatMessageTypeTool}},
		"a nil part":              {{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{nil}}, ai(nil), tool(nil)},
		"an empty text":           {human("")},
		"cached nothing":          {{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.CachedContent{}}}},
		"cached text":             {{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.CachedContent{ContentPart: llms.TextContent{Text: "<system-reminder>"}}}}},
		"an image only":           {{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{llms.ImageURLContent{URL: "u"}}}},
		"only a system message":   {llms.TextParts(llms.ChatMessageTypeSystem, "s")},
		"an unknown role":         {llms.TextParts("robot", "x"), human("go")},
		"a call without function": {human("go"), ai(noFunction), tool(answer)},
		"an answer without call":  {human("go"), tool(answer)},
		"an answer by a human":    {{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{answer}}},
		"a call by a human":       {{Role: llms.ChatMessageTypeHuman, Parts: []llms.ContentPart{noFunction, skillCall("refund", "")}}},
		"more answers than calls": {human("go"), ai(noFunction), tool(answer, answer, answer), tool(answer)},
		"one id for all":          {human("go"), ai(noFunction, noFunction, llms.ToolCall{ID: "x", FunctionCall: &llms.FunctionCall{}}), tool(answer, answer)},
		"only the launch line":    {human("go"), ai(noFunction), tool(llms.ToolCallResponse{Content: launchLine})},
		"invalid UTF-8":           {human("\xff<system-reminder\xff>"), ai(llms.TextContent{Text: "\xc3"})},
		"half a reminder":         {human(reminderKeyed), human(reminderKeyed + strings.Repeat("a", reminderKey)), human(reminderKeyed + strings.Repeat("a", reminderKey) + `">` + reminderClose)},
		"1 MB of text":            {human(strings.Repeat("<", 1<<20))},
	}
}

// oddCalls are tool calls that no provider should send.
func oddCalls() map[string]llms.ToolCall {
	of := func(name, arguments string) llms.ToolCall {
		return llms.ToolCall{ID: "id", Type: "function", FunctionCall: &llms.FunctionCall{Name: name, Arguments: arguments}}
	}
	odd := map[string]llms.ToolCall{
		"zero":               {},
		"no function":        {ID: "id", Type: "function"},
		"no name":            of("", "{}"),
		"a blank name":       of(" \n", "{}"),
		"a long name":        of(strings.Repeat("n", 1<<20), "{}"),
		"an unknown tool":    of("no_such_tool", "{}"),
		"name in other case": of(" SKILL ", `{"skill":"refund"}`),
		"a long id":          {ID: strings.Repeat("i", 1<<20), FunctionCall: &llms.FunctionCall{Name: toolSkill, Arguments: `{"skill":"refund"}`}},
		"no id":              {FunctionCall: &llms.FunctionCall{Name: toolSkill, Arguments: `{"skill":"refund"}`}},
	}
	for name, arguments := range map[string]string{
		"nothing": "", "blanks": " \n\t ", "no JSON": "refund A1", "an open brace": "{", "half an object": `{"skill":"refund`,
		"null": "null", "a number": "7", "a list": `["refund"]`, "a string": `"refund A1"`, "a name that is a number": `{"skill":7}`,
		"a name that is null": `{"skill":null}`, "a name that is a list": `{"skill":["refund"]}`, "args as an object": `{"skill":"refund","args":{"a":[1,2]}}`,
		"a repeated key": `{"skill":"policy","skill":"refund"}`, "two values": `{"skill":"refund"}{"skill":"policy"}`,
		"wrapped twice": `{"__arg1":"{\"__arg1\":\"{\\\"skill\\\":\\\"refund\\\"}\"}"}`, "wrapped for ever": deep(50),
		"1 MB of args": jsonText(map[string]any{"skill": "refund", "args": strings.Repeat("<&>", 1<<20/3)}), "1 MB of name": jsonText(map[string]any{"skill": strings.Repeat("r", 1<<20)}),
		"1 MB of no JSON": strings.Repeat("{", 1<<20), "1 MB of nesting": strings.Repeat("[", 1<<20), "1 MB of blanks": strings.Repeat(" ", 1<<20),
		"NUL": "\x00", "invalid UTF-8": "{\"skill\":\"\xff\xfe\"}", "a fence": "```json\n{\"skill\":\"refund\"}\n```", "an open fence": "```",
		"a path": `{"skill":"policy","path":"../../etc/passwd","offset":-1,"limit":-1}`, "a large offset": `{"skill":"policy","path":"references/rules.md","offset":1e30,"limit":9223372036854775807}`,
	} {
		for _, tool := range []string{toolSkill, toolDismiss, toolFile, "Read"} {
			odd[tool+": "+name] = of(tool, arguments)
		}
	}
	return odd
}

// deep is a call wrapped n times in langchaingo's one-string form.
func deep(n int) string {
	text := `{"skill":"refund"}`
	for range n {
		if len(text) > 1<<16 {
			break
		}
		text = jsonText(map[string]any{"__arg1": text})
	}
	return text
}

func TestOddHistories(t *testing.T) {
	for name, history := range oddHistories() {
		t.Run(name, func(t *testing.T) {
			b := newBay(t, Config{}, desk)
			s := NewState()
			ctx := WithState(context.Background(), s)
			frozen, _ := json.Marshal(history)
			for range 2 { // the second time with an active skill
				m := &script{}
				_, err := b.WrapModel(m).GenerateContent(ctx, history, llms.WithTools(userTools))
				require.NoError(t, err)
				assert.Contains(t, m.last().text(), "- refund: Refund an order", "the listing finds a place")
				for _, sent := range m.last().messages {
					assert.NotEmpty(t, sent.Parts, "no driver can send a message without parts")
				}
				_, err = b.WrapModel(m).GenerateContent(ctx, history)
				require.NoError(t, err)
				_, err = b.BeforeModel(ctx, history)
				require.NoError(t, err)
				call := skillCall("policy", "")
				_, err = b.CallTool(ctx, history, call, ran)
				require.NoError(t, err)
				require.Contains(t, s.Active(), "policy")
				results, err := b.CallTools(ctx, history, []llms.ToolCall{call, {}, call}, ran)
				require.NoError(t, err)
				assert.Len(t, results, 3)
				CheckAllowedTools(history, call, b.Skills())
				CheckAllowedTools(history, llms.ToolCall{}, nil)
			}
			after, _ := json.Marshal(history)
			assert.Equal(t, frozen, after, "the caller's history is never changed")
		})
	}
}

func TestOddCalls(t *testing.T) {
	b := newBay(t, Config{}, desk)
	for name, call := range oddCalls() {
		t.Run(name, func(t *testing.T) {
			s := NewState()
			ctx := WithState(context.Background(), s)
			launchIn(t, b.Middleware, s, "policy", "")
			ai := llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{call}}
			start := time.Now()
			for _, history := range [][]llms.MessageContent{nil, {human("go"), ai}} {
				m, err := b.CallTool(ctx, history, call, ran)
				require.NoError(t, err)
				assert.Equal(t, llms.ChatMessageTypeTool, m.Role)
				require.Len(t, m.Parts, 1)
				answer := m.Parts[0].(llms.ToolCallResponse)
				assert.Equal(t, call.ID, answer.ToolCallID)
				assert.NotEmpty(t, answer.Content, "the model is told")
				if isOwnTool(strings.TrimSpace(nameOf(call))) {
					assert.Less(t, len(answer.Content), 2_000, "the input is not echoed")
				}
			}
			results, err := b.CallTools(ctx, []llms.MessageContent{human("go"), ai}, []llms.ToolCall{call, call}, ran)
			require.NoError(t, err)
			assert.Len(t, results, 2)
			_, err = b.BeforeModel(ctx, []llms.MessageContent{human("go"), ai, results[0]})
			require.NoError(t, err)
			CheckAllowedTools([]llms.MessageContent{human("go"), ai}, call, b.Skills())
			assert.Less(t, len(jsonOf(t, s)), 64<<10)
			assert.Equal(t, jsonOf(t, s), jsonOf(t, resumed(t, s)))
			assert.Less(t, time.Since(start), 5*time.Second)
			for _, e := range b.events {
				assert.LessOrEqual(t, len(e.Args), 64<<10)
			}
		})
	}
}

// Whatever form a call of a limited window takes, it is blocked.
func TestOddCallsStayBlocked(t *testing.T) {
	b := newBay(t, Config{}, desk)
	for name, call := range oddCalls() {
		if call.FunctionCall == nil || isOwnTool(strings.TrimSpace(nameOf(call))) || nameOf(call) == "Read" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := NewState()
			launchIn(t, b.Middleware, s, "refund", "")
			assert.False(t, runs(t, b.Middleware, s, nameOf(call), inputOf(call)))
		})
	}
}

// Gemini gives calls no ids, and some gateways give all the same.
func TestCallsWithoutUsefulIDs(t *testing.T) {
	for name, id := range map[string]string{"no id": "", "the same id twice": "call_0"} {
		t.Run(name, func(t *testing.T) {
			b := newBay(t, Config{}, desk)
			s := NewState()
			ctx := WithState(context.Background(), s)
			list := []llms.ToolCall{skillCall("refund", "A1"), skillCall("policy", ""), toolCall("Write", "{}"), toolCall("Read", "{}")}
			for i := range list {
				list[i].ID = id
			}
			history := answering("go", list...)
			results, err := b.CallTools(ctx, history, list, ran)
			require.NoError(t, err)
			var texts []string
			for _, m := range results {
				texts = append(texts, m.Parts[0].(llms.ToolCallResponse).Content)
			}
			assert.True(t, strings.HasPrefix(texts[0], launchLine+"refund\n"))
			assert.Contains(t, texts[1], "was not run", "refund stands before it in the batch")
			assert.Contains(t, texts[2], "was not run")
			assert.Equal(t, "Read ran", texts[3])
			assert.Equal(t, []string{"refund"}, s.Active())

			again, err := b.CallTools(ctx, history, list, ran)
			require.NoError(t, err)
			assert.Equal(t, results[:2], again[:2], "the same batch again")
			assert.Equal(t, 1, b.count(EventInvoked))

			// The history alone shows as much.
			history = append(history, results...)
			next, _ := Answer(calls(toolCall("Write", "{}")))
			history = append(history, next)
			block := CheckAllowedTools(history, callsOf(next)[0], b.Skills())
			require.NotNil(t, block)
			assert.Equal(t, []string{"refund"}, block.Skills)
			m := &script{}
			_, err = b.WrapModel(m).GenerateContent(ctx, history, llms.WithTools(userTools))
			require.NoError(t, err)
			assert.Equal(t, 1, strings.Count(m.last().text(), "Refund order A1 carefully."), "visible, so not injected")
		})
	}
	t.Run("two equal calls are two launches", func(t *testing.T) {
		b := newBay(t, Config{}, desk)
		s := NewState()
		call := skillCall("shipping", "P1")
		_, err := b.CallTools(WithState(context.Background(), s), answering("go", call, call), []llms.ToolCall{call, call}, ran)
		require.NoError(t, err)
		assert.Len(t, s.Invoked(), 2)
		assert.Equal(t, 2, b.count(EventInvoked))
	})
}

// entries are all ways into a Middleware that take a ctx.
func entries(t *testing.T, b *bay) map[string]func(context.Context) error {
	exec, err := b.WrapExecutor(agents.NewExecutor(agents.NewOpenAIFunctionsAgent(&script{}, []tools.Tool{&echo{name: "Read"}})))
	require.NoError(t, err)
	wrapped, err := b.WrapTools(&echo{name: "Write"})
	require.NoError(t, err)
	model := b.WrapModel(&script{})
	call := skillCall("shipping", "")
	history := answering("go", call)
	return map[string]func(context.Context) error{
		"Executor.Call":   func(ctx context.Context) error { _, err := exec.Call(ctx, map[string]any{"input": "x"}); return err },
		"Plan":            func(ctx context.Context) error { _, _, err := exec.Agent.Plan(ctx, nil, nil); return err },
		"GenerateContent": func(ctx context.Context) error { _, err := model.GenerateContent(ctx, history); return err },
		"with tools": func(ctx context.Context) error {
			_, err := model.GenerateContent(ctx, history, llms.WithTools(userTools))
			return err
		},
		"single prompt": func(ctx context.Context) error {
			_, err := llms.GenerateFromSinglePrompt(ctx, model, "x")
			return err
		},
		"BeforeModel": func(ctx context.Context) error { _, err := b.BeforeModel(ctx, history); return err },
		"CallTool":    func(ctx context.Context) error { _, err := b.CallTool(ctx, history, call, ran); return err },
		"CallTools": func(ctx context.Context) error {
			results, err := b.CallTools(ctx, history, []llms.ToolCall{call, call}, ran)
			if assert.Len(t, results, 2) && err != nil {
				assert.Contains(t, results[1].Parts[0].(llms.ToolCallResponse).Content, "failed")
			}
			return err
		},
		"BeginTurn": b.BeginTurn,
		"Invoke":    func(ctx context.Context) error { return b.Invoke(ctx, "shipping", "") },
		"Dismiss":   func(ctx context.Context) error { return b.Dismiss(ctx, "refund", "") },
		"Reminder":  func(ctx context.Context) error { _, err := b.Reminder(ctx, "x"); return err },
		"own tool":  func(ctx context.Context) error { _, err := wrapped[1].Call(ctx, `{"skill":"shipping"}`); return err },
		"tool":      func(ctx context.Context) error { _, err := wrapped[0].Call(ctx, "x"); return err },
	}
}

func TestCancelledContext(t *testing.T) {
	b := newBay(t, Config{}, desk)
	s := NewState()
	launchIn(t, b.Middleware, s, "refund", "A1")
	before, events := jsonOf(t, s), len(b.types())
	ctx, cancel := context.WithCancelCause(WithState(context.Background(), s))
	cancel(errors.New("the customer left"))
	for name, enter := range entries(t, b) {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, enter(ctx), context.Canceled)
			assert.Equal(t, before, jsonOf(t, s), "before doing anything")
			assert.Len(t, b.types(), events)
		})
	}
}

func TestNoState(t *testing.T) {
	b := newBay(t, Config{}, desk)
	for kind, ctx := range map[string]context.Context{
		"none":       context.Background(),
		"nil":        WithState(context.Background(), nil),
		"taken away": WithState(WithState(context.Background(), NewState()), nil),
	} {
		_, ok := StateFrom(ctx)
		assert.False(t, ok, kind)
		for name, enter := range entries(t, b) {
			t.Run(kind+"/"+name, func(t *testing.T) {
				err := enter(ctx)
				switch name {
				case "tool", "own tool":
					assert.NoError(t, err, "an observation")
				case "Plan":
					assert.ErrorIs(t, err, ErrNoRun)
				default:
					assert.ErrorIs(t, err, ErrNoState)
				}
			})
		}
	}
	assert.Empty(t, b.types())
}

func TestHostFunctionsThatPanic(t *testing.T) {
	var log strings.Builder
	boom := func() { panic("boom") }
	cfg := func(change func(*Config)) Config {
		log.Reset()
		c := Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}
		change(&c)
		return c
	}
	t.Run("Permit denies", func(t *testing.T) {
		b := newBay(t, cfg(func(c *Config) {
			c.Permit = func(context.Context, Skill, string) Decision { boom(); return Allow }
		}), desk)
		s := NewState()
		assert.Contains(t, launchIn(t, b.Middleware, s, "refund", ""), "Skill refund execution blocked by permission policy.")
		assert.ErrorIs(t, b.Invoke(WithState(context.Background(), s), "refund", ""), ErrDenied)
		assert.Empty(t, s.Active())
		assert.Equal(t, []string{EventDenied, EventDenied}, b.types())
		assert.Contains(t, log.String(), "boom")
	})
	t.Run("Permit denies a body's return", func(t *testing.T) {
		panics := false
		b := newBay(t, cfg(func(c *Config) {
			c.Permit = func(context.Context, Skill, string) Decision {
				if panics {
					boom()
				}
				return Allow
			}
		}), desk)
		l := newLoop(t, b)
		l.ask("Refund A1", calls(skillCall("refund", "A1")))
		panics = true
		l.history = nil
		l.ask("And now?")
		assert.NotContains(t, l.script.last().text(), "Refund order A1 carefully.")
	})
	t.Run("Visible hides", func(t *testing.T) {
		b := newBay(t, cfg(func(c *Config) { c.Visible = func(context.Context, Skill) bool { boom(); return true } }), desk)
		l := newLoop(t, b)
		l.ask("hello", calls(skillCall("refund", "")))
		assert.NotContains(t, l.script.last().text(), "Refund an order")
		assert.Contains(t, l.observations(1)[0], `Unknown skill: "refund"`)
		assert.ErrorIs(t, b.Invoke(l.ctx(), "refund", ""), ErrUnknownSkill)
		assert.Empty(t, l.state.Active())
		assert.Contains(t, log.String(), "boom")
	})
	t.Run("CountTokens falls back", func(t *testing.T) {
		for name, count := range map[string]func(string) int{
			"a panic":  func(string) int { boom(); return 0 },
			"negative": func(string) int { return -1 },
		} {
			s, plain := NewState(), NewState()
			launchIn(t, newBay(t, cfg(func(c *Config) { c.CountTokens = count }), desk).Middleware, s, "refund", "A1")
			launchIn(t, newBay(t, Config{}, desk).Middleware, plain, "refund", "A1")
			assert.Equal(t, plain.Invoked()[0].Tokens, s.Invoked()[0].Tokens, name)
		}
	})
	t.Run("Audit is logged", func(t *testing.T) {
		c := cfg(func(c *Config) {
			c.Skills = []Source{skillFS(desk)}
			c.Audit = func(context.Context, Event) { boom() }
		})
		mw, err := New(c)
		require.NoError(t, err)
		s := NewState()
		assert.Contains(t, launchIn(t, mw, s, "refund", "A1"), launchLine)
		assert.False(t, runs(t, mw, s, "Write", "{}"), "blocked, though nobody could be told")
		assert.Equal(t, []string{"refund"}, s.Active())
		assert.Contains(t, log.String(), "boom")
		assert.Contains(t, log.String(), EventBlocked)
	})
	t.Run("a tool", func(t *testing.T) {
		b := newBay(t, Config{}, desk)
		wrapped, err := b.WrapTools(&fakeTool{"Read", func(context.Context, string) (string, error) { boom(); return "", nil }})
		require.NoError(t, err)
		s := NewState()
		ctx := WithState(context.Background(), s)
		assert.PanicsWithValue(t, "boom", func() { _, _ = wrapped[0].Call(ctx, "x") })
		call := toolCall("Read", "{}")
		panicking := func(context.Context, llms.ToolCall) (string, error) { boom(); return "", nil }
		assert.PanicsWithValue(t, "boom", func() { _, _ = b.CallTool(ctx, answering("go", call), call, panicking) })
		assert.PanicsWithValue(t, "boom", func() {
			_, _ = b.CallTools(ctx, answering("go", call, call), []llms.ToolCall{call, call}, panicking)
		})
		assert.Contains(t, launchIn(t, b.Middleware, s, "refund", ""), launchLine, "the State is usable")
		assert.NoError(t, b.BeginTurn(ctx))
	})
	t.Run("OnChange leaves the State usable", func(t *testing.T) {
		b := newBay(t, cfg(func(c *Config) { c.OnChange = func(context.Context, *State) error { boom(); return nil } }), desk)
		s := NewState()
		call := skillCall("refund", "")
		func() {
			defer func() { _ = recover() }()
			_, _ = b.CallTool(WithState(context.Background(), s), answering("go", call), call, ran)
		}()
		assert.Equal(t, []string{"refund"}, s.Active(), "the launch stays recorded")
		assert.NoError(t, b.BeginTurn(WithState(context.Background(), s)))
	})
}

// An error of OnChange ends the call with that error; what happened stays
// recorded, and so do its limits.
func TestOnChangeError(t *testing.T) {
	down := errors.New("the database is down")
	setup := func(t *testing.T) (*bay, *State, context.Context) {
		b := newBay(t, Config{OnChange: func(ctx context.Context, s *State) error {
			own, _ := StateFrom(ctx)
			assert.Same(t, own, s)
			return down
		}}, desk)
		s := NewState()
		return b, s, WithState(context.Background(), s)
	}
	recorded := func(t *testing.T, b *bay, s *State) {
		assert.Equal(t, []string{"refund"}, s.Active())
		assert.Equal(t, 1, b.count(EventInvoked), "the event states a fact")
		assert.False(t, runs(t, b.Middleware, s, "Write", "{}"))
	}
	call := skillCall("refund", "")
	t.Run("CallTool", func(t *testing.T) {
		b, s, ctx := setup(t)
		m, err := b.CallTool(ctx, answering("go", call), call, ran)
		require.ErrorIs(t, err, down)
		assert.Contains(t, m.Parts[0].(llms.ToolCallResponse).Content, "failed")
		recorded(t, b, s)
	})
	t.Run("CallTools", func(t *testing.T) {
		b, s, ctx := setup(t)
		read := toolCall("Read", "{}")
		results, err := b.CallTools(ctx, answering("go", call, read), []llms.ToolCall{call, read}, ran)
		require.ErrorIs(t, err, down)
		assert.Contains(t, results[0].Parts[0].(llms.ToolCallResponse).Content, "failed")
		assert.Equal(t, "Read ran", results[1].Parts[0].(llms.ToolCallResponse).Content)
		recorded(t, b, s)
	})
	t.Run("executor", func(t *testing.T) {
		b, s, ctx := setup(t)
		m, exec := agent(t, b, &echo{name: "Read"}, &echo{name: "Write"})
		m.then(calls(call))
		_, err := chains.Run(ctx, exec, "go")
		require.ErrorIs(t, err, down)
		recorded(t, b, s)
		_, err = chains.Run(ctx, exec, "go")
		require.NoError(t, err)
		assert.Equal(t, 1, s.Turn(), "a retry")
		recorded(t, b, s)
	})
	t.Run("Invoke", func(t *testing.T) {
		b, s, ctx := setup(t)
		require.ErrorIs(t, b.Invoke(ctx, "refund", ""), down)
		assert.Equal(t, []string{"refund"}, s.Active())
		assert.Equal(t, 1, b.count(EventInvoked))
	})
	t.Run("Dismiss", func(t *testing.T) {
		b, s, ctx := setup(t)
		_, _ = b.CallTool(ctx, answering("go", call), call, ran)
		require.ErrorIs(t, b.Dismiss(ctx, "refund", "done"), down)
		assert.Empty(t, s.Active())
		assert.Equal(t, 1, b.count(EventDismissed))
	})
	t.Run("skill_dismiss", func(t *testing.T) {
		b, s, ctx := setup(t)
		_, _ = b.CallTool(ctx, answering("go", call), call, ran)
		dismiss := toolCall(toolDismiss, `{"skill":"refund"}`)
		_, err := b.CallTool(ctx, answering("go", dismiss), dismiss, ran)
		require.ErrorIs(t, err, down)
		assert.Empty(t, s.Active())
	})
	t.Run("not for what did not happen", func(t *testing.T) {
		b, _, ctx := setup(t)
		for _, call := range []llms.ToolCall{skillCall("unknown", ""), toolCall("Read", "{}"), toolCall(toolDismiss, `{"skill":"refund"}`)} {
			_, err := b.CallTool(ctx, answering("go", call), call, ran)
			assert.NoError(t, err, fmt.Sprint(inputOf(call)))
		}
	})
}

// An error of next is passed on as it is.
func TestErrorOfNext(t *testing.T) {
	b := newBay(t, Config{}, desk)
	down := errors.New("the order system is down")
	failing := func(context.Context, llms.ToolCall) (string, error) { return "half", down }
	ctx := WithState(context.Background(), NewState())
	call := toolCall("Read", "{}")
	m, err := b.CallTool(ctx, answering("go", call), call, failing)
	assert.Same(t, down, err)
	assert.Contains(t, m.Parts[0].(llms.ToolCallResponse).Content, "failed")
	assert.NotContains(t, m.Parts[0].(llms.ToolCallResponse).Content, "half")
	wrapped, err := b.WrapTools(&fakeTool{"Read", func(context.Context, string) (string, error) { return "half", down }})
	require.NoError(t, err)
	out, err := wrapped[0].Call(ctx, "x")
	assert.Same(t, down, err)
	assert.Equal(t, "half", out)
}
