package skillbay

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/memory"
	"github.com/tmc/langchaingo/tools"
)

func TestExecutorFunctionsAgent(t *testing.T) {
	b := newBay(t, Config{}, desk)
	s := &script{}
	read, write := &echo{name: "Read"}, &echo{name: "Write"}
	existing := agents.NewExecutor(agents.NewOpenAIFunctionsAgent(s, []tools.Tool{read, write}), agents.WithMaxIterations(8))
	exec, err := b.WrapExecutor(existing)
	require.NoError(t, err)
	st := NewState()
	ctx := WithState(context.Background(), st)
	s.then(
		calls(skillCall("refund", "A1")),
		calls(toolCall("Read", `{"__arg1":"A1"}`), toolCall("Write", `{"__arg1":"A1"}`)),
		say("done so"))
	out, err := chains.Run(ctx, exec.WithMemory(memory.NewSimple()), "Refund A1, please")
	require.NoError(t, err)
	assert.Equal(t, "done so", out)
	assert.Equal(t, []string{"A1"}, read.ran)
	assert.Empty(t, write.ran)
	require.Len(t, s.requests, 3)
	assert.Equal(t, []string{"Read", "Write", "skill", "skill_dismiss", "skill_file"}, s.requests[0].toolNames())
	assert.Empty(t, s.requests[0].options.Functions)
	assert.Equal(t, 1, strings.Count(s.last().text(), "Refund order A1 carefully."))
	assert.Equal(t, 1, st.Turn())

	_, err = chains.Run(ctx, exec, "Next question")
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(s.last().text(), "Refund order A1 carefully."), "re-injected")
	assert.Contains(t, b.types(), EventReinjected)
	assert.Equal(t, 2, st.Turn())
}

func TestExecutorReAct(t *testing.T) {
	for name, agent := range map[string]func(llms.Model, []tools.Tool) agents.Agent{
		"mrkl": func(m llms.Model, l []tools.Tool) agents.Agent { return agents.NewOneShotAgent(m, l) },
		"conversational": func(m llms.Model, l []tools.Tool) agents.Agent {
			return agents.NewConversationalAgent(m, l)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBay(t, Config{}, desk)
			s := &script{}
			read, write := &echo{name: "Read"}, &echo{name: "Write"}
			exec, err := b.WrapExecutor(agents.NewExecutor(agent(s, []tools.Tool{read, write}), agents.WithMaxIterations(8)))
			require.NoError(t, err)
			ctx := WithState(context.Background(), NewState())
			final := "Final Answer: done"
			if name == "conversational" {
				final = "AI: done"
			}
			s.then(
				say("Thought: I need the skill\nAction: skill\nAction Input: refund A1"),
				say("Action: Write\nAction Input: A1"),
				say("Action: Read\nAction Input: A1"),
				say(final), say(final))
			out, err := chains.Run(ctx, exec, "Refund A1, please")
			require.NoError(t, err)
			assert.Equal(t, "done", strings.TrimSpace(out))
			assert.Equal(t, []string{"A1"}, read.ran)
			assert.Empty(t, write.ran)
			assert.Contains(t, s.requests[0].text(), "- skill: Launches a skill")
			assert.Equal(t, 1, strings.Count(s.last().text(), "Refund order A1 carefully."))
			assert.Equal(t, 1, strings.Count(s.last().text(), "- refund: Refund an order"))
			assert.Equal(t, []string{EventAnnounced, EventInvoked, EventBlocked}, b.types())

			_, err = chains.Run(ctx, exec, "Next question")
			require.NoError(t, err)
			assert.Equal(t, 1, strings.Count(s.last().text(), "Refund order A1 carefully."))
		})
	}
}
