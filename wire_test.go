package skillbay

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/tmc/langchaingo/llms"
)

func TestStraighten(t *testing.T) {
	ai := func(parts ...llms.ContentPart) llms.MessageContent {
		return llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: parts}
	}
	tool := func(parts ...llms.ContentPart) llms.MessageContent {
		return llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: parts}
	}
	call := func(id, name, arguments string) llms.ToolCall {
		return llms.ToolCall{ID: id, FunctionCall: &llms.FunctionCall{Name: name, Arguments: arguments}}
	}
	answer := func(id, name, content string) llms.ToolCallResponse {
		return llms.ToolCallResponse{ToolCallID: id, Name: name, Content: content}
	}
	text := func(s string) llms.TextContent { return llms.TextContent{Text: s} }
	for name, row := range map[string]struct{ in, out []llms.MessageContent }{
		"parallel calls with a text, answered out of order": {
			[]llms.MessageContent{
				ai(text("let me see"), call("1", "a", `{}`), call("2", "b", `{}`)),
				tool(answer("2", "", "B")), tool(answer("1", "", "A")), human("next"),
			},
			[]llms.MessageContent{
				ai(call("1", "a", `{}`), text("let me see")), tool(answer("1", "a", "A")),
				ai(call("2", "b", `{}`)), tool(answer("2", "b", "B")), human("next"),
			},
		},
		"one tool message with several answers, without ids": {
			[]llms.MessageContent{ai(call("", "a", `{}`), call("", "a", `{"x":1}`)), tool(answer("", "", "A"), answer("", "", "B"))},
			[]llms.MessageContent{
				ai(call("", "a", `{}`)), tool(answer("", "a", "A")), ai(call("", "a", `{"x":1}`)), tool(answer("", "a", "B")),
			},
		},
		"arguments that are no object": {
			[]llms.MessageContent{ai(call("1", "a", `1+1`)), tool(answer("1", "a", "2")), ai(call("2", "a", ``)), tool(answer("2", "a", "0"))},
			[]llms.MessageContent{ai(call("1", "a", `{"__arg1":"1+1"}`)), tool(answer("1", "a", "2")), ai(call("2", "a", `{}`)), tool(answer("2", "a", "0"))},
		},
		"empty texts and empty messages go": {
			[]llms.MessageContent{human(""), ai(text(""), call("1", "a", `{}`)), tool(answer("1", "a", "")), ai(), ai(text("so"), text("long"))},
			[]llms.MessageContent{ai(call("1", "a", `{}`)), tool(answer("1", "a", "")), ai(text("so\nlong"))},
		},
		"an answer without a call stays where it is": {
			[]llms.MessageContent{human("x"), tool(answer("9", "a", "A")), ai(call("1", "a", `{}`))},
			[]llms.MessageContent{human("x"), tool(answer("9", "a", "A")), ai(call("1", "a", `{}`))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, row.out, straighten(row.in, false))
			assert.Equal(t, row.out, straighten(row.out, false), "idempotent")
			for _, m := range row.out {
				assert.False(t, crooked(llms.MessageContent{Role: m.Role, Parts: m.Parts[:1]}))
			}
		})
	}
}

func TestRewriteOptions(t *testing.T) {
	schema := map[string]any{"type": "object", "properties": map[string]any{"id": map[string]any{"type": "string"}}}
	extra := []llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: "skill", Parameters: schema}}}
	functions := []llms.FunctionDefinition{
		{Name: "Read", Parameters: map[string]any{"type": "object", "properties": map[string]any{"__arg1": map[string]string{"type": "string"}}}},
		{Name: "skill", Parameters: "langchaingo's"},
	}
	apply := func(o llms.CallOptions) llms.CallOptions {
		option := rewriteOptions(map[string]map[string]any{"SKILL": schema}, extra)
		option(&o)
		option(&o)
		return o
	}
	o := apply(llms.CallOptions{Functions: functions})
	assert.Nil(t, o.Functions)
	assert.Len(t, o.Tools, 2, "none twice")
	assert.Equal(t, map[string]any{"type": "string"}, o.Tools[0].Function.Parameters.(map[string]any)["properties"].(map[string]any)["__arg1"])
	assert.Equal(t, schema, o.Tools[1].Function.Parameters)
	assert.Equal(t, "langchaingo's", functions[1].Parameters, "the caller's are not changed")

	assert.Empty(t, apply(llms.CallOptions{}).Tools, "a call without tools gets none")
	assert.Len(t, apply(llms.CallOptions{Tools: userTools, ToolChoice: "none"}).Tools, 2)
	assert.Len(t, apply(llms.CallOptions{Tools: userTools, ToolChoice: "auto"}).Tools, 3)
	assert.Len(t, apply(llms.CallOptions{Functions: functions[:1], FunctionCallBehavior: llms.FunctionCallBehaviorNone}).Tools, 1)
	named := apply(llms.CallOptions{Functions: functions[:1], FunctionCallBehavior: `{"name": "Read"}`})
	assert.Equal(t, llms.ToolChoice{Type: "function", Function: &llms.FunctionReference{Name: "Read"}}, named.ToolChoice)
}

func TestMergeChoicesAndAnswer(t *testing.T) {
	a, b := toolCall("a", `{}`), toolCall("b", `{}`)
	resp := &llms.ContentResponse{Choices: []*llms.ContentChoice{
		{Content: "thinking"}, {ToolCalls: []llms.ToolCall{a, {ID: "nil"}}}, nil, {ToolCalls: []llms.ToolCall{b}},
	}}
	merged := mergeChoices(resp)
	assert.Equal(t, "thinking", merged.Choices[0].Content)
	assert.Equal(t, []llms.ToolCall{a, b}, merged.Choices[0].ToolCalls)
	assert.Len(t, resp.Choices, 4, "the answer itself is not changed")
	ai, tc := Answer(resp)
	assert.Equal(t, []llms.ToolCall{a, b}, tc)
	assert.Equal(t, []llms.ContentPart{llms.TextContent{Text: "thinking"}, a, b}, ai.Parts)
	ai, tc = Answer(nil)
	assert.Empty(t, ai.Parts)
	assert.Empty(t, tc)
	legacy, tc := Answer(&llms.ContentResponse{Choices: []*llms.ContentChoice{{FuncCall: &llms.FunctionCall{Name: "a"}}}})
	assert.Len(t, legacy.Parts, 1)
	assert.Len(t, tc, 1)
}
