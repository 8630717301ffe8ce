package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/llms"
)

const (
	someListing = "<system-reminder>\nSkills:\n\n- refund-policy: Refunds and returns.\n- shipping: Parcels.\n</system-reminder>\n"
	someBody    = "Base directory for this skill: skill://refund-policy\n\n- order: A1023\n\n" +
		"1. Call `OrderLookup`.\n   - `\"status\":\"lost\"`: call `handoff_to_human`. Answer: “Ticket {ticket}.”\n" +
		"2. Call `RefundSubmit`.\n3. Answer: “Refund {ref}.”\n\n- **When does the money of a refund arrive?** Soon.\n"
)

// offer returns tools of these names, each with an order parameter.
func offer(names ...string) llms.CallOption {
	var all []llms.Tool
	for _, n := range names {
		all = append(all, llms.Tool{Type: "function", Function: &llms.FunctionDefinition{
			Name:       n,
			Parameters: map[string]any{"type": "object", "properties": map[string]any{"order": map[string]any{"type": "string"}}},
		}})
	}
	return llms.WithTools(all)
}

// exchange is one call with its answer, as two messages.
func exchange(id, tool, args, answer string) []llms.MessageContent {
	return []llms.MessageContent{
		{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{llms.ToolCall{ID: id, Type: "function", FunctionCall: &llms.FunctionCall{Name: tool, Arguments: args}}}},
		{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{llms.ToolCallResponse{ToolCallID: id, Content: answer}}},
	}
}

func TestScriptedModelActsOnTheRequestOnly(t *testing.T) {
	const question = "I want a refund for A1023."
	launch := exchange("1", "skill", `{"skill":"refund-policy"}`, "Launching skill: refund-policy\n\nFollow.\n"+someBody)
	looked := exchange("2", "OrderLookup", `{"order":"A1023"}`, `{"order":"A1023","status":"delivered"}`)
	lost := exchange("2", "OrderLookup", `{"order":"A1023"}`, `{"order":"A1023","status":"lost"}`)
	paid := exchange("3", "RefundSubmit", `{"order":"A1023"}`, `{"ref":"R-0001"}`)
	for name, tc := range map[string]struct {
		human string
		steps [][]llms.MessageContent
		calls []string
		text  string
	}{
		"no listing, no skill":            {human: question, text: "I did not understand"},
		"the listing leads to a skill":    {human: someListing + question, calls: []string{"skill"}},
		"a body gives the first step":     {human: someListing + question, steps: [][]llms.MessageContent{launch}, calls: []string{"OrderLookup"}},
		"an answer gives the next":        {human: someListing + question, steps: [][]llms.MessageContent{launch, looked}, calls: []string{"RefundSubmit"}},
		"the last answer gives the words": {human: someListing + question, steps: [][]llms.MessageContent{launch, looked, paid}, text: "Refund R-0001."},
		"a branch leaves the procedure":   {human: someListing + question, steps: [][]llms.MessageContent{launch, lost}, calls: []string{"handoff_to_human"}},
		"a launch without a body":         {human: someListing + question, steps: [][]llms.MessageContent{exchange("1", "skill", `{"skill":"refund-policy"}`, "Launching skill: refund-policy\n\n")}, text: "I did not understand"},
		"an old body answers": {human: "<system-reminder>\nThe skill refund-policy was loaded earlier.\n" + someBody + "</system-reminder>\n" +
			"When does the money of a refund arrive?", text: "Soon."},
		"an old body is not followed": {human: "<system-reminder>\nThe skill refund-policy was loaded earlier.\n" + someBody + "</system-reminder>\n" +
			"Hello.", text: "I did not understand"},
		"an invoked body is": {human: "<system-reminder>\nThe skill refund-policy " + english.invokedMark + ".\n" + someBody + "</system-reminder>\n" +
			"Hello.", calls: []string{"OrderLookup"}},
		"drift releases the old body": {human: "<system-reminder>\n- shipping: Parcels.\nThe skill refund-policy was loaded earlier.\n" + someBody + "</system-reminder>\n" +
			"My parcels?", steps: [][]llms.MessageContent{exchange("1", "skill", `{"skill":"shipping"}`, "Launching skill: shipping\n\n")}, calls: []string{"skill_dismiss"}},
		"a named tool is called": {human: "Run RefundSubmit for A0990.", calls: []string{"RefundSubmit"}},
		"a guard's hint is taken": {human: someListing + "Run RefundSubmit for A0990.", steps: [][]llms.MessageContent{
			exchange("1", "RefundSubmit", `{}`, "RefundSubmit was not run: launch refund-policy."),
		}, calls: []string{"skill"}},
	} {
		t.Run(name, func(t *testing.T) {
			messages := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, tc.human)}
			for _, s := range tc.steps {
				messages = append(messages, s...)
			}
			tools := offer("skill", "skill_dismiss", "OrderLookup", "RefundSubmit", "handoff_to_human")
			answer, err := scripted{words: english}.GenerateContent(t.Context(), messages, tools)
			require.NoError(t, err)
			var calls []string
			for _, c := range answer.Choices[0].ToolCalls {
				calls = append(calls, c.FunctionCall.Name)
			}
			assert.Equal(t, tc.calls, calls)
			assert.Contains(t, answer.Choices[0].Content, tc.text)
		})
	}
}

func TestTableCell(t *testing.T) {
	const table = "# Windows\n| category | days |\n|---|---|\n| bags | 30 |\n| tents | 14 |\n"
	for name, tc := range map[string]struct{ column, value, want string }{
		"known row":      {"days", "tents", "14"},
		"unknown row":    {"days", "lamps", ""},
		"unknown column": {"weeks", "tents", ""},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tc.want, tableCell(table, tc.column, map[string]string{"category": tc.value}))
		})
	}
}
