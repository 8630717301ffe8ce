package skillbay

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/tools"
)

// jsonOf is what a database would keep of a State.
func jsonOf(t testing.TB, s *State) string {
	t.Helper()
	value, err := s.Value()
	require.NoError(t, err)
	return value.(string)
}

// resumed is the State as another process scans it.
func resumed(t testing.TB, s *State) *State {
	t.Helper()
	return scanned(t, jsonOf(t, s))
}

func scanned(t testing.TB, text string) *State {
	t.Helper()
	s := new(State)
	require.NoError(t, s.Scan(text))
	return s
}

// answering is a history whose last message makes these calls.
func answering(text string, list ...llms.ToolCall) []llms.MessageContent {
	ai, _ := Answer(calls(list...))
	return []llms.MessageContent{human(text), ai}
}

// launchIn launches a skill by a model's call, in a batch of its own.
func launchIn(t testing.TB, mw *Middleware, s *State, skill, args string) string {
	t.Helper()
	call := skillCall(skill, args)
	m, err := mw.CallTool(WithState(context.Background(), s), answering("go", call), call, ran)
	require.NoError(t, err)
	return m.Parts[0].(llms.ToolCallResponse).Content
}

// runs reports whether the gate lets a tool call of a batch of its own run.
func runs(t testing.TB, mw *Middleware, s *State, tool, input string) bool {
	t.Helper()
	did := false
	call := toolCall(tool, input)
	_, err := mw.CallTool(WithState(context.Background(), s), answering("go", call), call,
		func(context.Context, llms.ToolCall) (string, error) { did = true; return "ran", nil })
	require.NoError(t, err)
	return did
}

// ran is a Next that has nothing to do.
func ran(_ context.Context, call llms.ToolCall) (string, error) { return nameOf(call) + " ran", nil }

func beginTurn(t testing.TB, mw *Middleware, s *State) {
	t.Helper()
	require.NoError(t, mw.BeginTurn(WithState(context.Background(), s)))
}

// clock tells a later second at every look.
func clock() func() time.Time {
	var looks atomic.Int64
	start := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	return func() time.Time { return start.Add(time.Duration(looks.Add(1)) * time.Second) }
}

func TestNewState(t *testing.T) {
	s := NewState()
	assert.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, s.SessionID())
	assert.NotEqual(t, s.SessionID(), NewState().SessionID())
	assert.Zero(t, s.Turn(), "before any turn")
	assert.Zero(t, s.Revision())
	assert.Empty(t, s.Active())
	assert.Empty(t, s.Announced())
	assert.Empty(t, s.Invoked())
	assert.Empty(t, s.Dismissed())
	assert.Equal(t, jsonOf(t, s), jsonOf(t, resumed(t, s)))
}

func TestZeroState(t *testing.T) {
	b := newBay(t, Config{}, desk)
	for name, use := range map[string]func(s *State){
		"session id": func(s *State) { assert.NotEmpty(t, s.SessionID()) },
		"ledgers":    func(s *State) { assert.Empty(t, append(s.Active(), s.Announced()...)) },
		"value":      func(s *State) { assert.Equal(t, jsonOf(t, s), jsonOf(t, resumed(t, s))) },
		"fork":       func(s *State) { assert.NotEqual(t, s.SessionID(), s.Fork().SessionID()) },
		"merge into": func(s *State) { s.Merge(NewState()); assert.NotEmpty(t, s.SessionID()) },
		"merge from": func(s *State) { NewState().Merge(s); assert.NotEmpty(t, s.SessionID()) },
		"scan null":  func(s *State) { require.NoError(t, s.Scan(nil)); assert.NotEmpty(t, s.SessionID()) },
		"launch": func(s *State) {
			launchIn(t, b.Middleware, s, "refund", "A1")
			assert.Equal(t, []string{"refund"}, s.Active())
		},
		"model call": func(s *State) {
			_, err := b.BeforeModel(WithState(context.Background(), s), []llms.MessageContent{human("hello")})
			require.NoError(t, err)
			assert.Equal(t, 1, s.Turn())
		},
	} {
		t.Run(name, func(*testing.T) { use(new(State)) })
	}
}

func TestStateValue(t *testing.T) {
	t.Run("nil is NULL", func(t *testing.T) {
		value, err := (*State)(nil).Value()
		require.NoError(t, err)
		assert.Nil(t, value)
		data, err := json.Marshal((*State)(nil))
		require.NoError(t, err)
		assert.Equal(t, "null", string(data))
	})
	t.Run("a text column", func(t *testing.T) {
		s := NewState()
		value, err := s.Value()
		require.NoError(t, err)
		assert.True(t, driver.IsValue(value))
		assert.Equal(t, s.SessionID(), scanned(t, value.(string)).SessionID())
		fromBytes := new(State)
		require.NoError(t, fromBytes.Scan([]byte(value.(string))))
		assert.Equal(t, s.SessionID(), fromBytes.SessionID())
	})
	t.Run("no HTML escapes", func(t *testing.T) {
		b := newBay(t, Config{}, desk)
		s := NewState()
		launchIn(t, b.Middleware, s, "refund", "<A&B>")
		assert.Contains(t, jsonOf(t, s), `"args":"<A&B>"`)
		assert.Equal(t, "<A&B>", resumed(t, s).Invoked()[0].Args)
	})
	t.Run("scanning NULL begins a conversation", func(t *testing.T) {
		b := newBay(t, Config{}, desk)
		s := NewState()
		launchIn(t, b.Middleware, s, "refund", "A1")
		was := s.SessionID()
		require.NoError(t, s.Scan(nil))
		assert.NotEqual(t, was, s.SessionID())
		assert.Empty(t, s.Active())
		assert.True(t, runs(t, b.Middleware, s, "Write", "{}"))
	})
}

// A host's slices and strings must not reach into a State, nor a State's out.
func TestLedgersAreCopies(t *testing.T) {
	b := newBay(t, Config{}, desk)
	l := newLoop(t, b)
	l.ask("Refund A1", calls(skillCall("refund", "A1")), calls(skillCall("policy", "")))
	require.NoError(t, b.Dismiss(l.ctx(), "refund", "done"))
	l.ask("Refund A2", calls(skillCall("refund", "A2")))
	before := jsonOf(t, l.state)
	for _, names := range [][]string{l.state.Active(), l.state.Announced()} {
		require.NotEmpty(t, names)
		for i := range names {
			names[i] = "forged"
		}
	}
	invoked, dismissed := l.state.Invoked(), l.state.Dismissed()
	require.NotEmpty(t, invoked)
	require.NotEmpty(t, dismissed)
	invoked[0] = Launch{Skill: "forged"}
	dismissed[0] = Dismissal{Skill: "forged"}
	assert.Equal(t, before, jsonOf(t, l.state))
	assert.NotContains(t, jsonOf(t, l.state), "forged")
}

func TestLedgers(t *testing.T) {
	b := newBay(t, Config{Now: clock()}, desk)
	s := NewState()
	ctx := WithState(context.Background(), s)
	beginTurn(t, b.Middleware, s)
	call := skillCall("refund", "A1")
	_, err := b.CallTool(ctx, answering("go", call), call, ran)
	require.NoError(t, err)
	require.NoError(t, b.Invoke(ctx, "policy", ""))

	skill, _ := b.Skill("refund")
	invoked := s.Invoked()
	require.Len(t, invoked, 2)
	first := invoked[0]
	assert.False(t, first.Time.IsZero())
	assert.Positive(t, first.Tokens)
	first.Time, first.Tokens = time.Time{}, 0
	assert.Equal(t, Launch{Skill: "refund", Args: "A1", ToolCallID: call.ID, Turn: 1, Digest: skill.Digest}, first)
	assert.True(t, invoked[1].Host)
	assert.Zero(t, invoked[1].Turn, "waits for the next turn")
	assert.Equal(t, []string{"refund", "policy"}, s.Active())

	require.NoError(t, b.Dismiss(ctx, "refund", strings.Repeat("ü", 600)))
	dismissed := s.Dismissed()
	require.Len(t, dismissed, 1)
	assert.Equal(t, strings.Repeat("ü", 500), dismissed[0].Reason, "500 characters")
	assert.Equal(t, 1, dismissed[0].Turn)
	assert.Equal(t, []string{"policy"}, s.Active())
	assert.ErrorIs(t, b.Dismiss(ctx, "refund", "again"), ErrNotActive)

	// The launch record stays while its window is open: its limit does.
	assert.False(t, runs(t, b.Middleware, s, "Write", "{}"))
	beginTurn(t, b.Middleware, s)
	assert.True(t, runs(t, b.Middleware, s, "Write", "{}"))
	assert.Equal(t, []string{"policy"}, s.Active())
	for _, launch := range s.Invoked() {
		assert.NotEqual(t, "refund", launch.Skill, "dismissed, and its window is over")
	}
}

// What enters a State is valid UTF-8 without control characters.
func TestStateTextIsClean(t *testing.T) {
	b := newBay(t, Config{}, desk)
	s := NewState()
	ctx := WithState(context.Background(), s)
	for name, tt := range map[string]struct{ args, want string }{
		"control characters": {"a\x00b\x1bc\x7fd\u0085e", "a\uFFFDb\uFFFDc\uFFFDd\uFFFDe"},
		"tab and line break": {"a\tb\nc", "a\tb\nc"},
		"invalid UTF-8":      {"a\xffb\xc3", "a\uFFFDb\uFFFD"},
		"a surrogate":        {"a\xed\xa0\x80b", "a\uFFFDb"},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, b.Invoke(ctx, "refund", tt.args))
			invoked := s.Invoked()
			assert.Equal(t, tt.want, invoked[len(invoked)-1].Args)
			assert.Equal(t, jsonOf(t, s), jsonOf(t, resumed(t, s)))
		})
	}
}

// wrongStates are values that no State has written: st-07 and its relatives.
func wrongStates(t testing.TB) map[string]any {
	whole := jsonOf(t, NewState())
	return map[string]any{
		"empty":               "",
		"empty bytes":         []byte{},
		"nil bytes":           []byte(nil),
		"blanks":              " \n\t",
		"an open brace":       "{",
		"4 KiB of NUL":        make([]byte, 4096),
		"null":                "null",
		"a number":            "7",
		"a string":            `"state"`,
		"a list":              "[]",
		"an empty object":     "{}",
		"another object":      `{"user":"bob"}`,
		"a format alone":      `{"format":1}`,
		"format zero":         strings.Replace(whole, `"format":1`, `"format":0`, 1),
		"a negative format":   strings.Replace(whole, `"format":1`, `"format":-1`, 1),
		"a newer format":      strings.Replace(whole, `"format":1`, `"format":2`, 1),
		"a format in words":   strings.Replace(whole, `"format":1`, `"format":"1"`, 1),
		"a fractional format": strings.Replace(whole, `"format":1`, `"format":1.5`, 1),
		"a wrong turn":        strings.Replace(whole, `"turn":{`, `"turn":7,"was":{`, 1),
		"a negative turn":     strings.Replace(whole, `"n":0`, `"n":-1`, 1),
		"no secret":           strings.Replace(whole, `"secrets":[`, `"secrets":[],"was":[`, 1),
		"a short secret":      `{"format":1,"session":"x","secrets":["QQ"]}`,
		"no session":          strings.Replace(whole, `"session":`, `"was":`, 1),
		"launches no list":    strings.Replace(whole, `"turn":`, `"invoked":7,"turn":`, 1),
		"a launch of nothing": strings.Replace(whole, `"turn":`, `"invoked":[{}],"turn":`, 1),
		"two values":          whole + whole,
		"text behind":         whole + "x",
		"an int":              int64(7),
		"a float":             1.5,
		"a bool":              true,
		"a time":              time.Now(),
		"a State":             NewState(),
		"a State by value":    struct{ State string }{"x"},
	}
}

func TestScan(t *testing.T) {
	b := newBay(t, Config{}, desk)
	used := func(t *testing.T) *State {
		s := NewState()
		beginTurn(t, b.Middleware, s)
		launchIn(t, b.Middleware, s, "refund", "A1")
		return s
	}
	// A truncated or NUL-filled file must neither reset the ledger nor be
	// overwritten in silence (Yeachan-Heo/gajae-code#1810).
	t.Run("st-07", func(t *testing.T) {
		for name, value := range wrongStates(t) {
			t.Run(name, func(t *testing.T) {
				s := used(t)
				before := jsonOf(t, s)
				err := s.Scan(value)
				require.ErrorIs(t, err, ErrState)
				var e *Error
				require.ErrorAs(t, err, &e)
				assert.Greater(t, len(err.Error()), len("skillbay: decode state: invalid State: "), "says what is wrong")
				assert.Equal(t, before, jsonOf(t, s), "unchanged")
				assert.False(t, runs(t, b.Middleware, s, "Write", "{}"), "still limited")
			})
		}
		t.Run("a write interrupted half way", func(t *testing.T) {
			s := used(t)
			before := jsonOf(t, s)
			for n := range len(before) {
				require.ErrorIs(t, s.Scan(before[:n]), ErrState, "after %d bytes", n)
			}
			assert.Equal(t, before, jsonOf(t, s))
		})
	})
	t.Run("a failed decode leaves a zero State new", func(t *testing.T) {
		s := new(State)
		require.Error(t, s.Scan("{"))
		assert.NotEmpty(t, s.SessionID())
		assert.Empty(t, s.Invoked())
	})
	t.Run("a newer format names both numbers", func(t *testing.T) {
		err := new(State).Scan(strings.Replace(jsonOf(t, NewState()), `"format":1`, `"format":99`, 1))
		require.ErrorIs(t, err, ErrState)
		assert.Contains(t, err.Error(), "99")
		assert.Contains(t, err.Error(), "1")
	})
	t.Run("in use by a run", func(t *testing.T) {
		s := used(t)
		other := jsonOf(t, NewState())
		before := jsonOf(t, s)
		require.NoError(t, s.acquire(new(run)))
		assert.ErrorIs(t, s.Scan(other), ErrBusy)
		assert.ErrorIs(t, s.Scan(nil), ErrBusy)
		s.release()
		assert.Equal(t, before, jsonOf(t, s))
	})
}

// A release may not lose what a newer one wrote: unknown top-level fields are
// kept and written back, through changes, copies and merges.
func TestUnknownFieldsAreKept(t *testing.T) {
	b := newBay(t, Config{}, desk)
	text := strings.Replace(jsonOf(t, NewState()), `{`, `{"later":{"b":[1,2.50,"<x>"],"a":null},"zz":1e400,`, 1)
	s := scanned(t, text)
	launchIn(t, b.Middleware, s, "refund", "A1")
	for name, s := range map[string]*State{
		"changed": s, "resumed": resumed(t, s), "forked": s.Fork(),
		"merged into": func() *State { o := scanned(t, text); o.Merge(s); return o }(),
		"merged":      func() *State { o := NewState(); o.Merge(s); return o }(),
	} {
		out := jsonOf(t, s)
		assert.Contains(t, out, `"later":{"b":[1,2.50,"<x>"],"a":null}`, name)
		assert.Contains(t, out, `"zz":1e400`, name)
		assert.Len(t, s.Invoked(), 1, name)
	}
}

func TestRevision(t *testing.T) {
	b := newBay(t, Config{GuardedTools: []string{"Refund"}}, map[string]string{
		"refund": "---\ndescription: Refund an order\nallowed-tools: Refund\n---\nRefund it.\n",
		"policy": "---\ndescription: House rules\n---\nBe kind.\n",
		"manual": "---\ndescription: By hand\ndisable-model-invocation: true\n---\nBy hand.\n",
		"hidden": "---\ndescription: Not for people\nuser-invocable: false\n---\nNo.\n",
	})
	s := NewState()
	ctx := WithState(context.Background(), s)
	exec, err := b.WrapExecutor(agents.NewExecutor(agents.NewOpenAIFunctionsAgent(&script{}, []tools.Tool{&echo{name: "Read"}})))
	require.NoError(t, err)
	history := []llms.MessageContent{human("hello")}
	launch := skillCall("refund", "")
	batch := answering("hello", launch, toolCall("Read", "{}"))
	denied := skillCall("manual", "")
	call := func(history []llms.MessageContent, call llms.ToolCall) func() error {
		return func() error { _, err := b.CallTool(ctx, history, call, ran); return err }
	}
	ask := func(options ...llms.CallOption) func() error {
		return func() error {
			_, err := b.WrapModel(&script{}).GenerateContent(ctx, history, options...)
			return err
		}
	}
	fails := func(target error, f func() error) func() error {
		return func() error {
			if err := f(); !errors.Is(err, target) {
				return fmt.Errorf("got %v, not %v", err, target)
			}
			return nil
		}
	}
	for _, step := range []struct {
		name    string
		changes bool
		do      func() error
	}{
		{"a look at everything", false, func() error {
			_, _, _, _, _, _ = s.SessionID(), s.Turn(), s.Active(), s.Announced(), s.Invoked(), s.Dismissed()
			_, err := s.Value()
			s.Fork()
			return err
		}},
		{"a model call that offers nothing", false, ask()},
		{"the first model call", true, ask(llms.WithTools(userTools))},
		{"a launch", true, call(batch, launch)},
		{"the same call again", false, call(batch, launch)},
		{"another call of the batch", true, call(batch, callsOf(batch[1])[1])},
		{"a batch in which a call is refused", true, call(answering("hello", denied), denied)},
		{"the same refused call", false, call(answering("hello", denied), denied)},
		{"Invoke", true, func() error { return b.Invoke(ctx, "policy", "") }},
		{"Invoke of the same", false, func() error { return b.Invoke(ctx, "policy", "") }},
		{"Invoke of the unknown", false, fails(ErrUnknownSkill, func() error { return b.Invoke(ctx, "nothing", "") })},
		{"Invoke of one not for people", false, fails(ErrNotUserInvocable, func() error { return b.Invoke(ctx, "hidden", "") })},
		{"BeginTurn", true, func() error { return b.BeginTurn(ctx) }},
		{"Dismiss", true, func() error { return b.Dismiss(ctx, "refund", "") }},
		{"Dismiss again", false, fails(ErrNotActive, func() error { return b.Dismiss(ctx, "refund", "") })},
		{"a reminder", false, func() error { _, err := b.Reminder(ctx, "note"); return err }},
		{"a run", true, func() error { _, err := chains.Run(ctx, exec, "hello"); return err }},
		{"a merge with a copy", false, func() error { s.Merge(resumed(t, s)); return nil }},
		{"a merge with nothing", false, func() error { s.Merge(nil); return nil }},
		{"a merge with itself", false, func() error { s.Merge(s); return nil }},
		{"a merge with another", true, func() error {
			other := resumed(t, s)
			launchIn(t, b.Middleware, other, "refund", "B2")
			s.Merge(other)
			return nil
		}},
		{"a failed decode", false, fails(ErrState, func() error { return s.Scan("{") })},
	} {
		revision, before := s.Revision(), bare(t, s)
		require.NoError(t, step.do(), step.name)
		if step.changes {
			assert.Greater(t, s.Revision(), revision, step.name)
			assert.NotEqual(t, before, bare(t, s), step.name)
		} else {
			assert.Equal(t, revision, s.Revision(), step.name)
			assert.Equal(t, before, bare(t, s), step.name)
		}
		if t.Failed() {
			s.book.Revision = max(s.book.Revision, revision) // one failure, one report
		}
	}
}

// bare is a State's JSON without its revision.
func bare(t testing.TB, s *State) string {
	t.Helper()
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(jsonOf(t, s)), &fields))
	delete(fields, "revision")
	data, err := encode(fields)
	require.NoError(t, err)
	return string(data)
}

func TestFork(t *testing.T) {
	b := newBay(t, Config{GuardedTools: []string{"Refund"}}, map[string]string{
		"refund": "---\ndescription: Refund an order\nallowed-tools: Read Refund\n---\nRefund it.\n",
	})
	s := NewState()
	ctx := WithState(context.Background(), s)
	beginTurn(t, b.Middleware, s)
	launchIn(t, b.Middleware, s, "refund", "A1")
	require.True(t, runs(t, b.Middleware, s, "Refund", "{}"), "granted")
	old, err := b.Reminder(ctx, "summary")
	require.NoError(t, err)
	before := jsonOf(t, s)

	fork := s.Fork()
	assert.Equal(t, before, jsonOf(t, s), "the original is unchanged")
	assert.NotEqual(t, s.SessionID(), fork.SessionID())
	assert.Equal(t, s.Turn(), fork.Turn())
	assert.Equal(t, s.Invoked(), fork.Invoked())
	assert.True(t, fork.isReminder(old), "old reminders still verify")
	assert.False(t, NewState().isReminder(old))

	for name, f := range map[string]*State{"fork": fork.Fork(), "resumed fork": resumed(t, fork)} {
		t.Run(name, func(t *testing.T) {
			assert.True(t, runs(t, b.Middleware, f, "Read", "{}"))
			assert.False(t, runs(t, b.Middleware, f, "Write", "{}"), "launches so far stay as limits")
			assert.False(t, runs(t, b.Middleware, f, "Refund", "{}"), "and grant nothing")
			launchIn(t, b.Middleware, f, "refund", "A1")
			assert.True(t, runs(t, b.Middleware, f, "Refund", "{}"), "launching again does")
		})
	}
	assert.True(t, runs(t, b.Middleware, s, "Refund", "{}"), "the original still grants")

	t.Run("changes stay apart", func(t *testing.T) {
		f := s.Fork()
		before := jsonOf(t, s)
		beginTurn(t, b.Middleware, f)
		launchIn(t, b.Middleware, f, "refund", "B2")
		require.NoError(t, b.Dismiss(WithState(context.Background(), f), "refund", "done"))
		assert.Equal(t, before, jsonOf(t, s))
	})
	t.Run("a launch that waits grants nothing either", func(t *testing.T) {
		s := NewState()
		require.NoError(t, b.Invoke(WithState(context.Background(), s), "refund", "A1"))
		f := s.Fork()
		beginTurn(t, b.Middleware, s)
		require.True(t, runs(t, b.Middleware, s, "Refund", "{}"))
		beginTurn(t, b.Middleware, f)
		assert.False(t, runs(t, b.Middleware, f, "Write", "{}"))
		assert.False(t, runs(t, b.Middleware, f, "Refund", "{}"))
	})
}

// agent is an executor over a scripted model, in a release of the skills.
func agent(t testing.TB, b *bay, list ...tools.Tool) (*script, *Executor) {
	t.Helper()
	s := &script{}
	exec, err := b.WrapExecutor(agents.NewExecutor(agents.NewOpenAIFunctionsAgent(s, list), agents.WithMaxIterations(8)))
	require.NoError(t, err)
	return s, exec
}

// One agent calls another as a tool. What the worker loads is the worker's:
// neither its body nor its limits reach the lead (trpc-group/trpc-agent-go#1327).
func TestSubAgents(t *testing.T) {
	for name, own := range map[string]bool{"st-01/a State of its own": true, "st-01/the lead's State in ctx": false} {
		t.Run(name, func(t *testing.T) {
			b := newBay(t, Config{}, map[string]string{
				"sql": "---\ndescription: Query\nallowed-tools: Read\n---\nWrite careful SQL.\n",
			})
			workerModel, workerExec := agent(t, b, &echo{name: "Read"}, &echo{name: "Other"})
			workerModel.then(calls(skillCall("sql", "")), calls(toolCall("Other", `{"__arg1":"x"}`)), say("42"))
			workerState := NewState()
			worker := &fakeTool{"worker", func(ctx context.Context, input string) (string, error) {
				if own {
					ctx = WithState(ctx, workerState)
				}
				return chains.Run(ctx, workerExec, input)
			}}
			write := &echo{name: "Write"}
			leadModel, leadExec := agent(t, b, worker, write)
			leadModel.then(calls(toolCall("worker", `{"__arg1":"count"}`)), calls(toolCall("Write", `{"__arg1":"42"}`)), say("done"))
			lead := NewState()
			_, err := chains.Run(WithState(context.Background(), lead), leadExec, "count the orders")
			require.NoError(t, err)

			require.Len(t, workerModel.requests, 3)
			assert.Contains(t, workerModel.requests[1].text(), "Write careful SQL.")
			assert.Contains(t, workerModel.requests[2].text(), "Other was not run", "the worker is limited")
			require.Len(t, leadModel.requests, 3)
			for _, r := range leadModel.requests {
				assert.NotContains(t, r.text(), "Write careful SQL.")
			}
			assert.Equal(t, []string{"42"}, write.ran, "the lead is not")
			assert.Empty(t, lead.Active())
			assert.Equal(t, 1, lead.Turn())
			if own {
				assert.Equal(t, []string{"sql"}, workerState.Active())
			}
		})
	}
}

// Several ways lead back into a conversation; all restore the same
// (jin-bo/agentao#271, jin-bo/agentao#274).
func TestResume(t *testing.T) {
	release := map[string]string{
		"pdf":  "---\ndescription: Fill forms\nallowed-tools: Read\n---\nFill in $ARGUMENTS.\n",
		"mail": "---\ndescription: Write mails\n---\nWrite politely.\n",
	}
	t.Run("st-03", func(t *testing.T) {
		history := []llms.MessageContent{human("fill the form")}
		// unanswered: two launches, then the process dies.
		before := func(t *testing.T, begin func(b *bay, s *State)) (saved string, invoked []Launch) {
			b := newBay(t, Config{Now: clock()}, release)
			s := NewState()
			begin(b, s)
			require.Equal(t, []string{"mail", "pdf"}, s.Active())
			return jsonOf(t, s), s.Invoked()
		}
		byRun := func(b *bay, s *State) {
			m, exec := agent(t, b, &echo{name: "Read"}, &echo{name: "Write"})
			m.then(calls(skillCall("mail", ""), skillCall("pdf", "W-9")))
			m.steps = append(m.steps, func(request) *llms.ContentResponse { panic("the process dies") })
			assert.Panics(t, func() { _, _ = chains.Run(WithState(context.Background(), s), exec, "fill the form") })
		}
		byLoop := func(b *bay, s *State) {
			ctx := WithState(context.Background(), s)
			m := (&script{}).then(calls(skillCall("mail", ""), skillCall("pdf", "W-9")))
			resp, err := b.WrapModel(m).GenerateContent(ctx, history, llms.WithTools(userTools))
			require.NoError(t, err)
			ai, list := Answer(resp)
			_, err = b.CallTools(ctx, append(slices.Clone(history), ai), list, ran)
			require.NoError(t, err)
		}
		byCalls := func(b *bay, s *State) {
			beginTurn(t, b.Middleware, s)
			list := []llms.ToolCall{skillCall("mail", ""), skillCall("pdf", "W-9")}
			_, err := b.CallTools(WithState(context.Background(), s), answering("fill the form", list...), list, ran)
			require.NoError(t, err)
		}
		restored := func(t *testing.T, s *State, invoked []Launch) {
			assert.Equal(t, []string{"mail", "pdf"}, s.Active())
			assert.Equal(t, invoked, s.Invoked(), "arguments, order, turn")
			assert.Equal(t, 1, s.Turn())
		}
		t.Run("executor", func(t *testing.T) {
			saved, invoked := before(t, byRun)
			b, s := newBay(t, Config{}, release), scanned(t, saved)
			write := &echo{name: "Write"}
			m, exec := agent(t, b, &echo{name: "Read"}, write)
			m.then(calls(toolCall("Write", `{"__arg1":"x"}`)), say("done"))
			_, err := chains.Run(WithState(context.Background(), s), exec, "fill the form")
			require.NoError(t, err)
			restored(t, s, invoked)
			assert.Empty(t, write.ran)
			assert.Contains(t, m.requests[0].text(), "Fill in W-9.")
			assert.NotContains(t, b.types(), EventAnnounced, "nothing is announced twice")
		})
		t.Run("loop", func(t *testing.T) {
			saved, invoked := before(t, byLoop)
			b, s := newBay(t, Config{}, release), scanned(t, saved)
			m := &script{}
			_, err := b.WrapModel(m).GenerateContent(WithState(context.Background(), s), history, llms.WithTools(userTools))
			require.NoError(t, err)
			assert.False(t, runs(t, b.Middleware, s, "Write", "{}"))
			restored(t, s, invoked)
			assert.Contains(t, m.requests[0].text(), "Fill in W-9.")
		})
		t.Run("CallTool", func(t *testing.T) {
			saved, invoked := before(t, byCalls)
			b, s := newBay(t, Config{}, release), scanned(t, saved)
			assert.False(t, runs(t, b.Middleware, s, "Write", "{}"))
			assert.True(t, runs(t, b.Middleware, s, "Read", "{}"))
			restored(t, s, invoked)
		})
		t.Run("a release without the skill", func(t *testing.T) {
			saved, _ := before(t, byCalls)
			var log strings.Builder
			b := newBay(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, map[string]string{"mail": release["mail"]})
			s := scanned(t, saved)
			assert.False(t, runs(t, b.Middleware, s, "Write", "{}"), "the window is not closed by a release")
			assert.Equal(t, []string{"mail", "pdf"}, s.Active(), "listed while recorded")
			beginTurn(t, b.Middleware, s)
			assert.True(t, runs(t, b.Middleware, s, "Write", "{}"))
			assert.Equal(t, []string{"mail"}, s.Active())
			assert.Contains(t, log.String(), "skill=pdf", "logged")
		})
	})
	// A stored copy is evidence, not the source (AtomicBot-ai/Atomic-Chat#298).
	t.Run("st-08", func(t *testing.T) {
		skill := func(body string) map[string]string {
			return map[string]string{"a": "---\ndescription: d\nversion: 1.0\n---\n" + body + "\n"}
		}
		old, next := newBay(t, Config{}, skill("The old way.")), newBay(t, Config{}, skill("The new way."))
		l := newLoop(t, old)
		l.ask("one", calls(skillCall("a", "")))
		was, _ := old.Skill("a")
		is, _ := next.Skill("a")
		require.NotEqual(t, was.Digest, is.Digest)

		s := resumed(t, l.state)
		m := &script{}
		_, err := next.WrapModel(m).GenerateContent(WithState(context.Background(), s),
			append(slices.Clone(l.history), human("two")), llms.WithTools(userTools))
		require.NoError(t, err)
		assert.Contains(t, m.last().text(), "The new way.")
		assert.NotContains(t, m.last().text(), "The old way.")
		assert.Equal(t, was.Digest, s.Invoked()[0].Digest, "the ledger keeps the digest of the launch")
		e := next.events[len(next.events)-1]
		require.Equal(t, EventReinjected, e.Type)
		assert.Contains(t, e.Detail, was.Digest)
		assert.Contains(t, e.Detail, is.Digest)
	})
	// Roots belong to a Middleware, not to the process (1jehuang/jcode#457).
	t.Run("st-10", func(t *testing.T) {
		roots := [2]string{t.TempDir(), t.TempDir()}
		var both [2]*bay
		for i, root := range roots {
			require.NoError(t, os.Mkdir(filepath.Join(root, "house"), 0o755))
			text := fmt.Sprintf("---\ndescription: d\n---\nThe rules of house %d.\n", i)
			require.NoError(t, os.WriteFile(filepath.Join(root, "house", "SKILL.md"), []byte(text), 0o600))
			t.Chdir(root)
			both[i] = newBay(t, Config{Skills: []Source{Dir(".")}}, nil)
		}
		t.Chdir(t.TempDir())
		require.NoError(t, os.RemoveAll(filepath.Join(roots[0], "house")))
		for i, b := range both {
			got := launchIn(t, b.Middleware, NewState(), "house", "")
			assert.Contains(t, got, fmt.Sprintf("The rules of house %d.", i))
			skill, _ := b.Skill("house")
			real, err := filepath.EvalSymlinks(roots[i])
			require.NoError(t, err)
			assert.Contains(t, []string{filepath.Join(roots[i], "house"), filepath.Join(real, "house")}, filepath.FromSlash(skill.Dir))
		}
	})
}

// Decoding never panics; what is decoded, encodes and decodes to the same
// bytes; what is not, leaves the State as it was.
func FuzzState(f *testing.F) {
	b := branchBay(f, true, false)
	c := &copyOfConversation{t: f, bay: b, state: NewState(), script: &script{}}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 12 {
		f.Add(jsonOf(f, c.state))
		c.act(rng, true)
	}
	for _, value := range wrongStates(f) {
		if text, ok := value.(string); ok {
			f.Add(text)
		}
	}
	whole := jsonOf(f, c.state)
	for _, extra := range []string{
		`"later":[1, 2]`, `"INVOKED":[{"skill":"x"}]`, `"Turn":{"answered":true}`, `"turn":{"n":5}`, `"announced":["b","a","b"]`,
		`"dismissed":null`, `"\u0000":"\ud800"`, `"seq":9223372036854775807`, `"batch":{"key":"","base":0,"size":-1}`,
	} {
		f.Add("{" + extra + "," + whole[1:])
		f.Add(whole[:len(whole)-1] + "," + extra + "}")
	}
	fresh := jsonOf(f, NewState())
	f.Add(`{"INVOKED":[{"skill":"x"}],"invoked":[],` + fresh[1:]) // a name in another case is a field of its own
	f.Fuzz(func(t *testing.T, text string) {
		s := scanned(t, whole)
		if err := s.Scan(text); err != nil {
			require.ErrorIs(t, err, ErrState)
			require.Equal(t, whole, jsonOf(t, s), "a failed decode changes nothing")
			return
		}
		saved := jsonOf(t, s)
		again := jsonOf(t, resumed(t, s))
		require.Equal(t, saved, again)

		var format struct{ Format int }
		require.NoError(t, json.Unmarshal([]byte(saved), &format))
		require.LessOrEqual(t, format.Format, stateFormat)
		var given, kept map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(text), &given))
		require.NoError(t, json.Unmarshal([]byte(saved), &kept))
		for name := range given {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(knownFields)), func(known string) bool { return strings.EqualFold(known, name) }) {
				require.Contains(t, kept, name, "unknown fields are kept")
			}
		}
		// Nothing in a State that decodes makes its use panic.
		_, _, _, _ = s.Active(), s.Announced(), s.Invoked(), s.Dismissed()
		s.Merge(scanned(t, whole))
		ctx := WithState(context.Background(), s)
		call := skillCall("read", "")
		_, err := b.CallTool(ctx, answering("go", call), call, ran)
		require.NoError(t, err)
		_, err = b.BeforeModel(ctx, answering("go", call))
		require.NoError(t, err)
		require.NoError(t, b.BeginTurn(ctx))
		require.NoError(t, new(State).Scan(jsonOf(t, s)), "what is written can be read")
	})
}

// spender fills a State as a hostile model and a careless host would.
type spender struct {
	t     *testing.T
	mw    *Middleware
	names []string
	s     *State
}

// many makes n skills with the header lines and the body.
func many(n int, header, body string) (files map[string]string, names []string) {
	files = map[string]string{}
	for i := range n {
		name := fmt.Sprintf("skill-%04d", i)
		names = append(names, name)
		files[name] = "---\ndescription: d\n" + header + "---\n" + body + "\n"
	}
	return files, names
}

func newSpender(t *testing.T, cfg Config, n int, header string) *spender {
	files, names := many(n, header, "Do it.")
	return &spender{t: t, mw: newBay(t, cfg, files).Middleware, names: names, s: NewState()}
}

func (p *spender) ctx() context.Context { return WithState(context.Background(), p.s) }

// check holds the State to its bound.
func (p *spender) check(what string) {
	p.t.Helper()
	require.LessOrEqual(p.t, len(jsonOf(p.t, p.s)), 1<<20, "%s: over 1 MiB", what)
}

// launch launches skills, as one batch of the model's.
func (p *spender) launch(args string, names ...string) {
	p.t.Helper()
	list := make([]llms.ToolCall, len(names))
	for i, name := range names {
		list[i] = skillCall(name, args)
	}
	p.answer(list...)
}

func (p *spender) answer(list ...llms.ToolCall) {
	p.t.Helper()
	_, err := p.mw.CallTools(p.ctx(), answering("go", list...), list, ran)
	require.NoError(p.t, err)
	p.check("launches")
}

func (p *spender) turn() {
	p.t.Helper()
	beginTurn(p.t, p.mw, p.s)
	p.check("a turn")
}

// doubled is text that JSON writes in twice its bytes.
func doubled(n int) string { return strings.Repeat(`"`, n) }

func TestRuleStateSize(t *testing.T) {
	t.Run("under 12 KiB for 20 launched skills", func(t *testing.T) {
		p := newSpender(t, Config{}, 20, "allowed-tools: Read Search Lookup mcp__crm__*, skill\n")
		_, err := p.mw.BeforeModel(p.ctx(), []llms.MessageContent{human("hello")})
		require.NoError(t, err)
		var list []llms.ToolCall
		for i, name := range p.names {
			call := skillCall(name, "order A123")
			call.ID = fmt.Sprintf("toolu_01A09q90qw90lq917835lq%03d", i) // as long as Anthropic's
			list = append(list, call)
		}
		p.answer(list...)
		require.Len(t, p.s.Active(), 20)
		require.Len(t, p.s.Announced(), 20)
		assert.Less(t, len(jsonOf(t, p.s)), 12<<10)

		// Summarised away in the next turn, they all get an anchor.
		_, err = p.mw.BeforeModel(p.ctx(), []llms.MessageContent{human("hello"), human("go on")})
		require.NoError(t, err)
		require.Len(t, p.s.Active(), 20)
		assert.Less(t, len(jsonOf(t, p.s)), 12<<10)
	})
	for name, args := range map[string]string{
		"long arguments":  doubled(16 << 10),
		"kept arguments":  doubled(1 << 10),
		"line separators": strings.Repeat("\u2028", 5<<10), // JSON escapes them even without HTML
		"controls":        strings.Repeat("\x01", 5<<10),
	} {
		t.Run(name, func(t *testing.T) {
			for _, keep := range []bool{false, true} {
				p := newSpender(t, Config{KeepWindow: keep}, 300, "disallowed-tools: Write\n")
				for chunk := range slices.Chunk(p.names, 60) {
					p.turn()
					p.launch(args, chunk...)
				}
				p.turn()
			}
		})
	}
	t.Run("long lists", func(t *testing.T) {
		p := newSpender(t, Config{KeepWindow: true}, 100, "disallowed-tools: "+strings.Repeat("mcp__a_tool_with_a_name ", 2_600)+"\n")
		for _, name := range p.names {
			p.turn()
			p.launch("", name)
		}
		assert.NotEmpty(t, p.s.Invoked())
	})
	t.Run("many launches a turn", func(t *testing.T) {
		p := newSpender(t, Config{}, 200, "")
		p.turn()
		p.launch("", p.names...)
		assert.Len(t, p.s.Invoked(), 64, "64 launches a turn")
		for i := range 100 {
			p.launch(fmt.Sprint(i), "skill-0000")
		}
		assert.Len(t, p.s.Invoked(), 64)
		assert.Contains(t, launchIn(t, p.mw, p.s, "skill-0199", ""), "execution blocked by permission policy")
		p.turn()
		assert.Contains(t, launchIn(t, p.mw, p.s, "skill-0199", ""), launchLine)
	})
	t.Run("arguments of a launch and of a window", func(t *testing.T) {
		p := newSpender(t, Config{}, 5, "")
		p.turn()
		assert.Contains(t, launchIn(t, p.mw, p.s, "skill-0000", strings.Repeat("a", 16<<10+1)), "execution blocked")
		for i, name := range p.names {
			got := launchIn(t, p.mw, p.s, name, strings.Repeat("a", 16<<10))
			if i < 4 {
				assert.Contains(t, got, launchLine)
			} else {
				assert.Contains(t, got, "execution blocked", "64 KiB a window")
			}
		}
		p.turn()
		assert.Contains(t, launchIn(t, p.mw, p.s, "skill-0004", strings.Repeat("a", 16<<10)), launchLine)
		p.turn()
		assert.NotContains(t, jsonOf(t, p.s), strings.Repeat("a", 1<<10+1), "kept up to 1 KiB")
	})
	t.Run("long reasons", func(t *testing.T) {
		p := newSpender(t, Config{}, 400, "")
		for i, name := range p.names {
			if i%60 == 0 {
				p.turn()
			}
			p.launch(doubled(1<<10), name)
			call := toolCall(toolDismiss, jsonText(map[string]any{"skill": name, "reason": strings.Repeat("\U0001F600", 1_000)}))
			p.answer(call)
		}
		for _, d := range p.s.Dismissed() {
			assert.LessOrEqual(t, len([]rune(d.Reason)), 500)
		}
	})
	t.Run("long ids and names", func(t *testing.T) {
		p := newSpender(t, Config{}, 64, "")
		p.turn()
		var list []llms.ToolCall
		for i, name := range p.names {
			call := skillCall(name, "")
			call.ID = fmt.Sprint(i) + strings.Repeat("x", 100<<10)
			other := toolCall(strings.Repeat("t", 100<<10), "{}")
			other.ID = call.ID
			list = append(list, call, other)
		}
		p.answer(list...)
		for _, call := range list {
			p.answer(call)
		}
		assert.Less(t, len(jsonOf(t, p.s)), 64<<10)
	})
	t.Run("many calls of a batch", func(t *testing.T) {
		p := newSpender(t, Config{}, 64, "")
		p.turn()
		var list []llms.ToolCall
		for range 10 {
			for _, name := range p.names {
				list = append(list, skillCall(name, "x"))
			}
		}
		p.answer(list...)
	})
	t.Run("many names announced", func(t *testing.T) {
		files := map[string]string{}
		for i := range 2_000 {
			files[fmt.Sprintf("%0250d", i)] = "---\ndescription: d\n---\nDo it.\n"
		}
		turn := 0
		mw := newBay(t, Config{ContextWindow: 1 << 24, Visible: func(_ context.Context, s Skill) bool {
			return strings.HasSuffix(s.Name, fmt.Sprint(turn%10))
		}}, files).Middleware
		p := &spender{t: t, mw: mw, s: NewState()}
		for turn = range 10 {
			p.turn()
			_, err := mw.BeforeModel(p.ctx(), []llms.MessageContent{human("hello")})
			require.NoError(t, err)
			p.check("announcements")
		}
	})
	t.Run("the host's launches", func(t *testing.T) {
		p := newSpender(t, Config{}, 200, "")
		for range 3 {
			for _, name := range p.names {
				err := p.mw.Invoke(p.ctx(), name, doubled(8<<10))
				if err != nil {
					require.ErrorIs(t, err, ErrDenied)
				}
				p.check("Invoke")
			}
			p.turn()
		}
	})
	t.Run("merged copies", func(t *testing.T) {
		p := newSpender(t, Config{KeepWindow: true}, 300, "disallowed-tools: "+strings.Repeat("Write ", 200)+"\n")
		p.turn()
		origin := jsonOf(t, p.s)
		for _, name := range p.names[:5] {
			p.launch(doubled(10<<10), name)
		}
		for n := range 5 {
			other := &spender{t: t, mw: p.mw, s: scanned(t, origin)}
			for _, name := range p.names[60*n : 60*n+60] {
				other.launch(doubled(1<<10), name)
			}
			p.s.Merge(other.s)
			p.check("a merge")
		}
		p.turn()
	})
	t.Run("all at once", func(t *testing.T) {
		for seed := range uint64(2) {
			rng := rand.New(rand.NewPCG(seed, 9))
			files, names := many(400, "disallowed-tools: "+strings.Repeat("Write ", 300)+"\n", "Do it with $ARGUMENTS.")
			p := &spender{t: t, mw: newBay(t, Config{KeepWindow: seed%2 == 0}, files).Middleware, names: names, s: NewState()}
			p.turn()
			for range 100 {
				name := names[rng.IntN(len(names))]
				switch rng.IntN(8) {
				case 0:
					p.turn()
				case 1:
					_ = p.mw.Dismiss(p.ctx(), name, doubled(500))
				case 2:
					_ = p.mw.Invoke(p.ctx(), name, doubled(rng.IntN(16<<10)))
				case 3:
					_, err := p.mw.BeforeModel(p.ctx(), []llms.MessageContent{human(name)})
					require.NoError(t, err)
				case 4:
					other := resumed(t, p.s)
					launchIn(t, p.mw, other, name, doubled(rng.IntN(16<<10)))
					p.s.Merge(other)
				default:
					p.launch(doubled(rng.IntN(4<<10)), name, names[rng.IntN(len(names))])
				}
				p.check("all at once")
			}
		}
	})
}

// Shell output is the largest thing that a State keeps: kept is what was
// delivered, and over 256 KiB the oldest goes, whose body counts as absent.
func TestRuleStateSizeWithShellBlocks(t *testing.T) {
	dir := t.TempDir()
	var names []string
	for i := range 12 {
		name := fmt.Sprintf("shell-%02d", i)
		names = append(names, name)
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, "SKILL.md"), []byte(
			"---\ndescription: d\nshell: sh\n---\n"+
				"!`head -c 50000 /dev/zero | tr '\\0' '\"'` !`head -c 50000 /dev/zero | tr '\\0' '\\1'`\n"), 0o600))
	}
	mw := newBay(t, Config{Skills: []Source{Dir(dir)}, EnableShellBlocks: true}, nil).Middleware
	p := &spender{t: t, mw: mw, s: NewState()}
	p.turn()
	origin := jsonOf(t, p.s)
	for _, name := range names {
		p.launch("", name)
	}
	kept := func() (n int) {
		for i := range p.s.book.Launches {
			size := 0
			for _, out := range p.s.book.Launches[i].Shell {
				size += len(out)
			}
			assert.LessOrEqual(t, size, 64<<10, "a skill")
			n += size
		}
		return n
	}
	assert.LessOrEqual(t, kept(), 256<<10)
	assert.Greater(t, kept(), 128<<10)
	assert.Len(t, p.s.Active(), len(names))
	assert.NotEmpty(t, p.s.book.Launches[len(names)-1].Shell, "the newest stays")
	assert.Empty(t, p.s.book.Launches[0].Shell, "the oldest goes")
	assert.True(t, p.s.book.Launches[0].Lost, "and its body counts as absent")

	other := &spender{t: t, mw: mw, s: scanned(t, origin)}
	for _, name := range slices.Backward(names) {
		other.launch("", name)
	}
	p.s.Merge(other.s)
	p.check("a merge")
	assert.LessOrEqual(t, kept(), 256<<10, "after a merge")
	p.turn()
}
