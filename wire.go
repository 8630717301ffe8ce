package skillbay

import (
	"maps"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// This file makes requests right for every provider client of langchaingo
// (SPEC 10.10). It knows nothing of skills.

// rewriteOptions returns the option that makes tools fit for the wire:
// Functions become Tools, since Claude, Gemini and Bedrock clients ignore the
// former (llms/anthropic/anthropicllm.go:144, llms/googleai/googleai.go:99);
// a tool with a schema gets it instead of langchaingo's one string; a call that
// offers any tool gets those of extra, as they are defined there. It is pure
// and idempotent, since a client may apply options twice, and never writes to
// what the caller may share.
func rewriteOptions(schemas map[string]map[string]any, extra []llms.Tool) llms.CallOption {
	return func(o *llms.CallOptions) {
		if !offersTools(o) {
			return
		}
		offered := make([]llms.Tool, 0, len(o.Tools)+len(o.Functions)+len(extra))
		add := func(t llms.Tool) {
			for _, own := range extra { // as a functions agent hands it on, an own tool's description is a ReAct agent's
				if t.Function != nil && sameTool(own.Function.Name, t.Function.Name) {
					t = own
				}
			}
			if t.Function != nil && slices.ContainsFunc(offered, func(have llms.Tool) bool {
				return have.Function != nil && sameTool(have.Function.Name, t.Function.Name)
			}) {
				return
			}
			offered = append(offered, t)
		}
		for _, t := range o.Tools {
			add(withSchema(t, schemas, false))
		}
		for i := range o.Functions {
			f := o.Functions[i]
			add(withSchema(llms.Tool{Type: "function", Function: &f}, schemas, true))
		}
		if o.ToolChoice == nil && o.FunctionCallBehavior != "" && o.FunctionCallBehavior != llms.FunctionCallBehaviorAuto {
			o.ToolChoice = choiceOf(o.FunctionCallBehavior)
		}
		if !choosesNone(o) {
			for _, t := range extra {
				add(t)
			}
		}
		o.Tools, o.Functions, o.FunctionCallBehavior = offered, nil, ""
	}
}

func offersTools(o *llms.CallOptions) bool { return len(o.Tools)+len(o.Functions) > 0 }

// choosesNone reports whether the caller wants no tool to be called.
func choosesNone(o *llms.CallOptions) bool {
	choice, _ := o.ToolChoice.(string)
	return choice == "none" || o.ToolChoice == nil && o.FunctionCallBehavior == llms.FunctionCallBehaviorNone
}

// choiceOf is the tool choice that means the same as a function behaviour.
func choiceOf(b llms.FunctionCallBehavior) any {
	if b == llms.FunctionCallBehaviorNone {
		return "none"
	}
	name := strings.Trim(strings.TrimPrefix(strings.TrimSpace(strings.Trim(string(b), "{} ")), `"name":`), ` "`)
	return llms.ToolChoice{Type: "function", Function: &llms.FunctionReference{Name: name}}
}

// withSchema returns the tool with the schema of its name. Those built by the
// functions agent hold a map[string]string, which the Gemini client refuses
// (llms/googleai/googleai.go:509): it is made plain.
func withSchema(t llms.Tool, schemas map[string]map[string]any, plain bool) llms.Tool {
	if t.Function == nil {
		return t
	}
	f := *t.Function
	if schema, ok := schemas[strings.ToUpper(strings.TrimSpace(f.Name))]; ok {
		f.Parameters = schema
	} else if plain {
		f.Parameters = plainSchema(f.Parameters)
	}
	return llms.Tool{Type: t.Type, Function: &f}
}

// plainSchema turns nested map[string]string into map[string]any.
func plainSchema(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		for key, value := range out {
			out[key] = plainSchema(value)
		}
		return out
	case map[string]string:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[key] = value
		}
		return out
	}
	return v
}

// mergeChoices returns an answer whose choices are one, for the functions agent,
// which reads the first alone (agents/openai_functions_agent.go:262): Claude's
// client gives a text and each call a choice of its own. A call without a
// function, on which the agent panics, is dropped.
func mergeChoices(resp *llms.ContentResponse) *llms.ContentResponse {
	if resp == nil || len(resp.Choices) == 0 || resp.Choices[0] == nil {
		return resp
	}
	merged := *resp.Choices[0]
	calls := choiceCalls(resp)
	if len(resp.Choices) == 1 && len(calls) == len(merged.ToolCalls) {
		return resp
	}
	var text []string
	for _, choice := range resp.Choices {
		if choice != nil && choice.Content != "" {
			text = append(text, choice.Content)
		}
	}
	merged.Content = strings.Join(text, "\n")
	merged.ToolCalls = calls
	if len(calls) > 0 {
		merged.FuncCall = nil
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{&merged}}
}

// lostCalls reports whether the model called a tool and no call arrived:
// langchaingo's Bedrock client drops them from a stream
// (llms/bedrock/internal/bedrockclient/provider_anthropic.go:287-340), and half
// an answer would pass for a whole one.
func lostCalls(resp *llms.ContentResponse) bool {
	if resp == nil || len(choiceCalls(resp)) > 0 {
		return false
	}
	return slices.ContainsFunc(resp.Choices, func(c *llms.ContentChoice) bool {
		return c != nil && c.FuncCall == nil && (c.StopReason == "tool_use" || c.StopReason == "tool_calls")
	})
}

// crooked reports whether straighten would change a message of that role.
func crooked(m llms.MessageContent) bool {
	if len(m.Parts) == 0 {
		return true
	}
	for _, part := range m.Parts {
		switch p := part.(type) {
		case llms.TextContent:
			if p.Text == "" {
				return true
			}
		case llms.ToolCall:
			if m.Role == llms.ChatMessageTypeAI && !isObject(inputOf(p)) {
				return true
			}
		case llms.ToolCallResponse:
			if p.Name == "" {
				return true
			}
		}
	}
	one := m.Role == llms.ChatMessageTypeAI || m.Role == llms.ChatMessageTypeTool
	return one && len(m.Parts) > 1
}

// straighten rewrites messages for drivers that deliver only the first part of
// a message (llms/anthropic/anthropicllm.go:386-424, llms/openai/openaillm.go:183):
// an AI message with several calls becomes one a call, each followed by its
// answer, the text after the first call; a tool message with several answers
// becomes one an answer. Arguments that are no JSON object are wrapped, empty
// texts go, and with them messages that hold nothing. With textFirst a text
// beside a call is a message of its own before the first.
func straighten(messages []llms.MessageContent, textFirst bool) []llms.MessageContent {
	out := make([]llms.MessageContent, 0, len(messages)+8)
	var p pairing
	for i := 0; i < len(messages); i++ {
		m := withoutEmpty(messages[i])
		switch {
		case len(m.Parts) == 0:
		case m.Role == llms.ChatMessageTypeTool:
			for _, a := range answersOf(m, &p) {
				out = append(out, a.message)
			}
		case m.Role != llms.ChatMessageTypeAI:
			out = append(out, m)
		default:
			p.meet(m)
			after := i + 1
			for after < len(messages) && messages[after].Role == llms.ChatMessageTypeTool {
				after++
			}
			unfolded, done := unfold(m, &p, messages[i+1:after], textFirst)
			out = append(out, unfolded...)
			if done {
				i = after - 1
			}
		}
	}
	return out
}

// answer is one answer of a tool message, as a message of its own.
type answer struct {
	message llms.MessageContent
	nth     int // the call's position in its AI message; -1: none
}

// answersOf splits a tool message into its answers, an empty name filled from
// the call.
func answersOf(m llms.MessageContent, p *pairing) []answer {
	var out []answer
	for _, part := range m.Parts {
		a := answer{nth: -1}
		if response, ok := part.(llms.ToolCallResponse); ok {
			if call, n, found := p.callOf(response); found {
				a.nth = n
				if response.Name == "" {
					response.Name = nameOf(call)
					part = response
				}
			}
		}
		a.message = llms.MessageContent{Role: m.Role, Parts: []llms.ContentPart{part}}
		out = append(out, a)
	}
	return out
}

// unfold is an AI message as one AI message a call, each followed by its
// answers in tools. done is false when the message keeps its shape and tools
// are still to be written.
func unfold(m llms.MessageContent, p *pairing, tools []llms.MessageContent, textFirst bool) (out []llms.MessageContent, done bool) {
	calls, texts, others := sortParts(m)
	if others || len(calls) < 2 && len(calls)+len(texts) < 2 {
		return []llms.MessageContent{{Role: m.Role, Parts: wrapArguments(m.Parts)}}, false
	}
	text := llms.TextContent{Text: strings.Join(texts, "\n")}
	if len(calls) == 0 {
		return []llms.MessageContent{{Role: m.Role, Parts: []llms.ContentPart{text}}}, false
	}
	var answers []answer
	for _, t := range tools {
		answers = append(answers, answersOf(t, p)...)
	}
	take := func(nth int) {
		for _, a := range answers {
			if a.nth == nth {
				out = append(out, a.message)
			}
		}
	}
	if textFirst && strings.TrimSpace(text.Text) != "" { // Claude refuses a blank text
		out = append(out, llms.MessageContent{Role: m.Role, Parts: []llms.ContentPart{text}})
	}
	for n, call := range calls {
		parts := wrapArguments([]llms.ContentPart{call})
		if n == 0 && !textFirst && text.Text != "" {
			parts = append(parts, text)
		}
		out = append(out, llms.MessageContent{Role: m.Role, Parts: parts})
		take(n)
	}
	take(-1)
	return out, true
}

// withoutEmpty returns the message without empty text parts.
func withoutEmpty(m llms.MessageContent) llms.MessageContent {
	empty := func(part llms.ContentPart) bool {
		text, ok := part.(llms.TextContent)
		return ok && text.Text == "" || part == nil
	}
	if slices.ContainsFunc(m.Parts, empty) {
		m.Parts = slices.DeleteFunc(slices.Clone(m.Parts), empty)
	}
	return m
}

// sortParts separates an AI message's calls and texts; others reports any part
// that is neither.
func sortParts(m llms.MessageContent) (calls []llms.ToolCall, texts []string, others bool) {
	for _, part := range m.Parts {
		switch p := part.(type) {
		case llms.ToolCall:
			calls = append(calls, p)
		case llms.TextContent:
			texts = append(texts, p.Text)
		default:
			others = true
		}
	}
	return calls, texts, others
}

// wrapArguments makes every call's arguments a JSON object: the functions agent
// replays what it unwrapped (agents/openai_functions_agent.go:235-242).
func wrapArguments(parts []llms.ContentPart) []llms.ContentPart {
	out := slices.Clone(parts)
	for i, part := range out {
		call, ok := part.(llms.ToolCall)
		if !ok || isObject(inputOf(call)) {
			continue
		}
		arguments := "{}"
		if input := strings.TrimSpace(inputOf(call)); input != "" {
			arguments = jsonText(map[string]any{"__arg1": inputOf(call)})
		}
		call.FunctionCall = &llms.FunctionCall{Name: nameOf(call), Arguments: arguments}
		out[i] = call
	}
	return out
}
