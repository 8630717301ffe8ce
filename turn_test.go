package skillbay

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/tools"
)

// guardedDesk has one skill that grants the guarded tool Submit.
func guardedDesk(t testing.TB, cfg Config) *bay {
	cfg.GuardedTools = []string{"Submit"}
	return newBay(t, cfg, map[string]string{
		"refund": md("allowed-tools: Submit, Read\n", "Refund.\n"),
		"notes":  md("", "Notes.\n"),
		"other":  md("allowed-tools: Read, skill\n", "Other.\n"),
	})
}

// try runs one call of a tool as the next answer of the model, and tells
// whether it ran.
func (l *loop) try(tool string) bool {
	l.t.Helper()
	l.ran = nil
	call := toolCall(tool, `{}`)
	l.history = append(l.history, llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{call}})
	result, err := l.bay.CallTool(l.ctx(), l.history, call, l.next)
	require.NoError(l.t, err)
	l.history = append(l.history, result)
	return len(l.ran) == 1
}

func (l *loop) before() {
	l.t.Helper()
	_, err := l.bay.BeforeModel(l.ctx(), l.history)
	require.NoError(l.t, err)
}

func TestTurnsOfALoop(t *testing.T) {
	launched := func(t *testing.T) *loop {
		l := newLoop(t, guardedDesk(t, Config{}))
		l.history = []llms.MessageContent{human("refund me")}
		l.script.then(calls(skillCall("refund", "")))
		l.step()
		require.True(t, l.try("Submit"))
		require.False(t, l.try("Write"))
		return l
	}
	t.Run("a guarded tool needs a grant", func(t *testing.T) {
		l := newLoop(t, guardedDesk(t, Config{}))
		l.history = []llms.MessageContent{human("refund me")}
		assert.False(t, l.try("Submit"), "before the first turn")
		l.before()
		assert.False(t, l.try("Submit"), "without a launch")
	})
	t.Run("the next user message closes the window", func(t *testing.T) {
		l := launched(t)
		l.history = append(l.history, human("thanks"))
		l.before()
		assert.Equal(t, 2, l.state.Turn())
		assert.True(t, l.try("Write"))
		assert.False(t, l.try("Submit"), "grants never span turns")
	})
	t.Run("an edited opener keeps limits and ends grants", func(t *testing.T) {
		l := launched(t)
		l.history[0] = human("refund me, please")
		l.before()
		assert.Equal(t, 1, l.state.Turn())
		assert.False(t, l.try("Write"))
		assert.False(t, l.try("Submit"))
		l.script.then(calls(skillCall("refund", "")))
		l.step()
		assert.True(t, l.try("Submit"), "launching again grants again")
	})
	t.Run("an unmarked summary is a user message: limits stay, grants go", func(t *testing.T) {
		l := launched(t)
		l.history = []llms.MessageContent{human("Summary: a refund is under way.")}
		l.before()
		assert.Equal(t, 1, l.state.Turn())
		assert.False(t, l.try("Write"))
		assert.False(t, l.try("Submit"))
	})
	t.Run("a marked summary with the opener keeps both", func(t *testing.T) {
		l := launched(t)
		summary, err := l.bay.Reminder(l.ctx(), "a refund is under way")
		require.NoError(t, err)
		l.history = []llms.MessageContent{summary, l.history[0], summary}
		l.before()
		assert.Equal(t, 1, l.state.Turn())
		assert.False(t, l.try("Write"))
		assert.True(t, l.try("Submit"))
	})
	t.Run("the same text again is a new message", func(t *testing.T) {
		l := launched(t)
		l.history = append(l.history, human("refund me"))
		l.before()
		assert.Equal(t, 2, l.state.Turn())
	})
	t.Run("an answered turn ends with the next user message, wherever the opener is", func(t *testing.T) {
		l := launched(t)
		l.step()
		l.history = []llms.MessageContent{human("another")}
		l.before()
		assert.Equal(t, 2, l.state.Turn())
		assert.True(t, l.try("Write"))
	})
	t.Run("calls without tools touch no turn", func(t *testing.T) {
		l := launched(t)
		_, err := l.model.GenerateContent(l.ctx(), []llms.MessageContent{human("classify this")})
		require.NoError(t, err)
		assert.Equal(t, 1, l.state.Turn())
		assert.NotContains(t, l.script.last().text(), "refund")
		assert.True(t, l.try("Submit"))
	})
	t.Run("under Bypass calls pass unchanged, without a State too", func(t *testing.T) {
		l := launched(t)
		l.history = append(l.history, human("<system-reminder>"))
		_, err := l.model.GenerateContent(Bypass(context.Background()), l.history, llms.WithTools(userTools))
		require.NoError(t, err)
		assert.Equal(t, l.history, l.script.last().messages)
		_, err = l.model.GenerateContent(context.Background(), l.history)
		assert.ErrorIs(t, err, ErrNoState)
	})
	t.Run("BeginTurn", func(t *testing.T) {
		l := launched(t)
		require.NoError(t, l.bay.BeginTurn(l.ctx()))
		assert.Equal(t, 2, l.state.Turn())
		assert.False(t, l.try("Write"), "the history still shows the launch in its turn")
		l.history = append(l.history, human("a prompt"))
		assert.True(t, l.try("Write"))
		l.script.then(calls(skillCall("refund", "")))
		l.step()
		l.history = append(l.history, human("a longer prompt"))
		l.before()
		assert.Equal(t, 2, l.state.Turn(), "model calls begin no turns any more")
		assert.True(t, l.try("Submit"), "no message opened it, so none puts it in doubt")
	})
}

func TestKeepWindow(t *testing.T) {
	l := newLoop(t, guardedDesk(t, Config{KeepWindow: true}))
	l.ask("refund me", calls(skillCall("refund", ""), skillCall("notes", "")), say("which order?"))
	l.ask("A1", calls(toolCall("Write", `{}`), toolCall("Submit", `{}`), skillCall("other", "")))
	assert.Empty(t, l.ran, "limits stay, grants do not span turns, and `skill` is blocked")
	l.ask("go on", calls(skillCall("refund", "")), calls(toolCall("Submit", `{}`)))
	assert.Equal(t, []string{"Submit"}, l.ran, "launching again renews the grant")
	l.ran = nil
	l.ask("stop", calls(toolCall("skill_dismiss", `{"skill":"refund"}`)), calls(toolCall("Write", `{}`), skillCall("notes", "")))
	assert.Empty(t, l.ran, "a dismissed launch limits until the turn ends")
	assert.Contains(t, l.observations(1)[0], launchLine+"notes", "but no longer blocks `skill`")
	l.ask("next", calls(toolCall("Write", `{}`)))
	assert.Equal(t, []string{"Write"}, l.ran)
}

func TestExclusive(t *testing.T) {
	b := newBay(t, Config{Exclusive: true}, map[string]string{"a": md("", "A.\n"), "b": md("", "B.\n")})
	l := newLoop(t, b)
	l.ask("go", calls(skillCall("a", ""), skillCall("b", "")))
	assert.Equal(t, []string{"a"}, l.state.Active())
	assert.Contains(t, l.observations(1)[0], "execution blocked by permission policy")
	assert.ErrorIs(t, b.Invoke(l.ctx(), "nobody", ""), ErrUnknownSkill)
	l.ask("go", calls(toolCall("skill_dismiss", `{"skill":"a"}`)), calls(skillCall("b", "")))
	assert.Equal(t, []string{"b"}, l.state.Active())
	l.ask("next", calls(skillCall("a", "")))
	assert.Equal(t, []string{"b", "a"}, l.state.Active(), "a skill of an earlier window does not bar")
}

func TestTurnsOfARun(t *testing.T) {
	failing := errors.New("provider down")
	b := guardedDesk(t, Config{})
	var answers []*llms.ContentResponse
	model := modelFunc(func(context.Context, []llms.MessageContent, llms.CallOptions) (*llms.ContentResponse, error) {
		if len(answers) == 0 {
			return nil, failing
		}
		next := answers[0]
		answers = answers[1:]
		return next, nil
	})
	submit, write := &echo{name: "Submit"}, &echo{name: "Write"}
	exec, err := b.WrapExecutor(agents.NewExecutor(agents.NewOpenAIFunctionsAgent(model, []tools.Tool{submit, write, &echo{name: "Read"}})))
	require.NoError(t, err)
	st := NewState()
	run := func(input string) error {
		_, err := chains.Run(WithState(context.Background(), st), exec, input)
		return err
	}
	answers = []*llms.ContentResponse{calls(skillCall("refund", ""))}
	require.ErrorIs(t, run("refund me"), failing)
	st = resume(t, st)
	answers = []*llms.ContentResponse{calls(toolCall("Submit", `{}`), toolCall("Write", `{}`)), say("ok")}
	require.NoError(t, run("refund me"), "a retry goes on")
	assert.Equal(t, 1, st.Turn())
	assert.Len(t, submit.ran, 1, "with its grants")
	assert.Empty(t, write.ran, "and its limits")
	answers = []*llms.ContentResponse{calls(toolCall("Submit", `{}`), toolCall("Write", `{}`)), say("ok")}
	require.NoError(t, run("refund me"), "after an answer the same input is a new turn")
	assert.Equal(t, 2, st.Turn())
	assert.Len(t, submit.ran, 1)
	assert.Len(t, write.ran, 1)
}

func TestInvokeWaitsForTheTurn(t *testing.T) {
	b := guardedDesk(t, Config{})
	l := newLoop(t, b)
	require.NoError(t, b.Invoke(l.ctx(), "refund", "A1"))
	require.NoError(t, b.Invoke(l.ctx(), "refund", "A1"))
	assert.Equal(t, []string{"refund"}, l.state.Active())
	assert.Equal(t, []string{EventInvoked}, b.types())
	l.ask("please", calls(toolCall("Submit", `{}`), toolCall("Write", `{}`)))
	assert.Equal(t, []string{"Submit"}, l.ran, "the host's launch grants and limits in the turn it joins")
	assert.Contains(t, textOf(l.script.requests[0].messages[0]), "has been invoked for the request below")
	obs := "The skill refund has been invoked"
	assert.Contains(t, l.script.last().text(), obs)
	l.ask("dismiss it", calls(toolCall("skill_dismiss", `{"skill":"refund"}`)))
	assert.Contains(t, l.observations(1)[0], "can be released only by the application")
	require.NoError(t, b.Dismiss(l.ctx(), "refund", "done"))
	require.ErrorIs(t, b.Dismiss(l.ctx(), "refund", "done"), ErrNotActive)
	l.ask("next")
	assert.NotContains(t, l.script.last().text(), "Refund.\n")
}
