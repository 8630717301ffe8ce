package skillbay

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/llms"
)

func TestLoop(t *testing.T) {
	b := newBay(t, Config{}, desk)
	l := newLoop(t, b)
	l.ask("Where is my refund for A1?",
		calls(skillCall("refund", "A1")),
		calls(toolCall("Read", `{"id":"A1"}`), toolCall("Write", `{"id":"A1"}`)),
		say("on its way"))

	require.Len(t, l.script.requests, 3)
	first := l.script.requests[0]
	assert.Equal(t, 1, strings.Count(first.text(), "- refund: Refund an order"))
	assert.True(t, strings.HasPrefix(first.text(), "<system-reminder>\n"))
	assert.Equal(t, []string{"Read", "Write", "skill", "skill_dismiss", "skill_file"}, first.toolNames())
	assert.Equal(t, []string{"Read"}, l.ran)
	assert.Contains(t, l.observations(1)[0], "Write was not run")
	assert.Contains(t, l.script.requests[1].text(), "Refund order A1 carefully.")
	assert.Equal(t, []string{EventAnnounced, EventInvoked, EventBlocked}, b.types())
	assert.Equal(t, []string{"refund"}, l.state.Active())
	assert.Equal(t, "Where is my refund for A1?", textOf(l.history[0]), "the caller's history stays clean")

	// The next turn closes the window, and the body is still visible.
	l.ask("Thanks. Write me a note.", calls(toolCall("Write", `{}`)), say("noted"))
	assert.Equal(t, []string{"Read", "Write"}, l.ran)
	assert.Equal(t, 1, strings.Count(l.script.last().text(), "Refund order A1 carefully."))

	// A summary loses the body: it is re-injected before the newest user text.
	summary, err := b.Reminder(l.ctx(), "The customer asked for a refund of A1.")
	require.NoError(t, err)
	l.history = []llms.MessageContent{summary}
	l.ask("And now?")
	last := l.script.last()
	assert.Equal(t, 1, strings.Count(last.text(), "Refund order A1 carefully."))
	assert.Contains(t, textOf(last.messages[1]), "Refund order A1 carefully.")
	assert.True(t, strings.HasSuffix(textOf(last.messages[1]), "And now?"))
	assert.NotContains(t, last.text(), "key=")
	assert.Equal(t, EventReinjected, b.types()[len(b.types())-1])

	// A resume in another process repeats the request and announces nothing.
	data, err := json.Marshal(l.state)
	require.NoError(t, err)
	l.state = new(State)
	require.NoError(t, json.Unmarshal(data, l.state))
	events := len(b.types())
	l.history = l.history[:2]
	_, err = l.model.GenerateContent(l.ctx(), l.history, llms.WithTools(userTools))
	require.NoError(t, err)
	assert.Equal(t, last.text(), l.script.last().text())
	assert.Len(t, b.types(), events)

	// Dismissal gives the tokens back.
	l.ask("Never mind.", calls(toolCall("skill_dismiss", `{"skill":"refund","reason":"changed topic"}`)))
	assert.NotContains(t, l.script.last().text(), "Refund order A1 carefully.")
	assert.Empty(t, l.state.Active())
}
