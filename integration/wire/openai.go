package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/openai"
)

// OpenAI is OpenAI's chat completions API.
// https://platform.openai.com/docs/api-reference/chat/create
var OpenAI = Provider{Name: "OpenAI", judge: openAI{}, dial: dialOpenAI("gpt-4o")}

// OpenAIReasoning is the same API with an o-series model, which takes fewer
// parameters. https://platform.openai.com/docs/guides/reasoning
var OpenAIReasoning = Provider{Name: "OpenAI o-series", judge: openAI{reasoning: true}, dial: dialOpenAI("o3")}

func dialOpenAI(model string) func(string) (llms.Model, error) {
	return func(url string) (llms.Model, error) {
		return openai.New(openai.WithBaseURL(url+"/v1"), openai.WithToken("token"), openai.WithModel(model))
	}
}

type openAI struct{ reasoning bool }

// chatMessage is a message of the chat completions format, which Mistral's
// API shares.
type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID *string         `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// chatTool is a tool of the chat completions format.
type chatTool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Parameters  any    `json:"parameters"`
	} `json:"function"`
}

// contentText is a message's content: a text, or a list of text parts.
func contentText(content json.RawMessage) (string, error) {
	if len(content) == 0 || string(content) == "null" {
		return "", nil
	}
	var whole string
	if json.Unmarshal(content, &whole) == nil {
		return whole, nil
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(content, &parts); err != nil || len(parts) == 0 {
		return "", refuse("Invalid type for 'content': expected a string or an array of objects with at least one element.")
	}
	var texts []string
	for _, part := range parts {
		if part.Type != "text" || part.Text == nil {
			return "", refuse("Invalid content part of type '%s'.", part.Type)
		}
		texts = append(texts, *part.Text)
	}
	return strings.Join(texts, "\n"), nil
}

// functionName is what OpenAI and Mistral allow: a-z, A-Z, 0-9, underscores
// and dashes, at most 64.
// https://platform.openai.com/docs/api-reference/chat/create (tools)
var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func (o openAI) read(r *http.Request, body []byte) (Exchange, error) {
	e, err := split(body, "messages")
	if err != nil {
		return e, err
	}
	if r.URL.Path != "/v1/chat/completions" {
		return e, &refusal{status: http.StatusNotFound, message: "Invalid URL (" + r.Method + " " + r.URL.Path + ")"}
	}
	if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		return e, &refusal{status: http.StatusUnauthorized, message: "You didn't provide an API key."}
	}
	var req struct {
		Model  string     `json:"model"`
		Tools  []chatTool `json:"tools"`
		Stop   []string   `json:"stop"`
		Stream bool       `json:"stream"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return e, refuse("We could not parse the JSON body of your request: %v", err)
	}
	e.Stream, e.Prompt.Stop = req.Stream, req.Stop
	if req.Model == "" {
		return e, refuse("you must provide a model parameter")
	}
	if len(e.Messages) == 0 {
		return e, refuse("Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	if err := o.parameters(e.Rest); err != nil {
		return e, err
	}
	// "Up to 4 sequences": https://platform.openai.com/docs/api-reference/chat/create (stop)
	if len(req.Stop) > 4 {
		return e, refuse("Invalid 'stop': array too long. Expected an array with maximum length 4.")
	}
	if err := o.tools(&e, req.Tools); err != nil {
		return e, err
	}
	return e, o.messages(&e)
}

// parameters refuses what an o-series model does not take.
//
// https://platform.openai.com/docs/api-reference/chat/create: stop is "Not
// supported with latest reasoning models o3 and o4-mini"; max_tokens is "not
// compatible with o-series models".
// https://github.com/crewAIInc/crewAI/issues/2738 (stop),
// https://github.com/simonw/llm/pull/1370 (temperature, top_p, penalties).
func (o openAI) parameters(rest map[string]json.RawMessage) error {
	if !o.reasoning {
		return nil
	}
	for _, name := range []string{"stop", "max_tokens", "top_p", "frequency_penalty", "presence_penalty"} {
		if _, ok := rest[name]; ok {
			return &refusal{http.StatusBadRequest, "Unsupported parameter: '" + name + "' is not supported with this model.", name}
		}
	}
	if t, ok := rest["temperature"]; ok && string(t) != "1" {
		return &refusal{http.StatusBadRequest, "Unsupported value: 'temperature' does not support " + string(t) +
			" with this model. Only the default (1) value is supported.", "temperature"}
	}
	return nil
}

// tools judges the definitions of tools.
func (openAI) tools(e *Exchange, tools []chatTool) error {
	if list, ok := e.Rest["tools"]; ok && len(tools) == 0 && string(list) != "null" {
		return refuse("Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	if _, ok := e.Rest["tool_choice"]; ok && len(tools) == 0 {
		return refuse("Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.")
	}
	for i, t := range tools {
		f := t.Function
		if t.Type != "function" || !functionName.MatchString(f.Name) {
			return &refusal{http.StatusBadRequest, fmt.Sprintf(
				"Invalid 'tools[%d].function.name': string does not match pattern.", i), fmt.Sprintf("tools[%d].function.name", i)}
		}
		if why := badSchema(f.Parameters, nil); why != "" {
			return &refusal{
				http.StatusBadRequest, fmt.Sprintf("Invalid schema for function '%s': %s", f.Name, why),
				fmt.Sprintf("tools[%d].function.parameters", i),
			}
		}
		e.Prompt.Tools = append(e.Prompt.Tools, Tool{f.Name, f.Description, f.Parameters})
	}
	return nil
}

// badSchema tells what OpenAI would say of a function's parameters:
// https://github.com/spring-projects/spring-ai/issues/4776 (properties),
// https://github.com/streamnative/streamnative-mcp-server/issues/26 (items).
func badSchema(schema any, path []string) string {
	context := "In context=(" + strings.Join(path, ", ") + ")"
	s, ok := schema.(object)
	if !ok {
		return fmt.Sprintf("%s: %s is not of type 'object', 'boolean'.", context, text(schema))
	}
	kind, _ := s["type"].(string)
	if path == nil && kind != "object" {
		return fmt.Sprintf("schema must be a JSON Schema of 'type: \"object\"', got 'type: \"%s\"'.", kind)
	}
	switch kind {
	case "object":
		properties, ok := s["properties"].(object)
		if !ok {
			return context + ", object schema missing properties."
		}
		for name, property := range properties {
			if why := badSchema(property, append(slices.Clone(path), "'properties'", "'"+name+"'")); why != "" {
				return why
			}
		}
	case "array":
		items, ok := s["items"]
		if !ok {
			return context + ", array schema missing items."
		}
		return badSchema(items, append(slices.Clone(path), "'items'"))
	}
	return ""
}

// messages judges the messages and their order.
//
// https://platform.openai.com/docs/guides/function-calling: each tool call is
// answered by a tool message with its id. The refusals are quoted in
// https://github.com/sdcb/chats/pull/132.
func (openAI) messages(e *Exchange) error {
	var open []string // ids of calls that are not answered yet
	names := map[string]string{}
	for i, raw := range e.Messages {
		var m chatMessage
		if err := json.Unmarshal(raw, &m); err != nil {
			return refuse("Invalid type for 'messages[%d]': %v", i, err)
		}
		if len(open) > 0 && m.Role != "tool" {
			return unansweredCalls(open, i)
		}
		content, err := contentText(m.Content)
		if err != nil {
			return err
		}
		hasContent := len(m.Content) > 0 && string(m.Content) != "null"
		if !hasContent && (m.Role != "assistant" || len(m.ToolCalls) == 0) {
			return refuse("Invalid value for 'content': expected a string, got null. (messages.[%d].content)", i)
		}
		switch m.Role {
		case "system", "developer":
			e.Prompt.System += content + "\n"
		case "user":
			e.Prompt.Items = append(e.Prompt.Items, Item{Kind: User, Text: content})
		case "assistant":
			if content != "" {
				e.Prompt.Items = append(e.Prompt.Items, Item{Kind: Model, Text: content})
			}
			for n, call := range m.ToolCalls {
				if call.ID == "" || call.Type != "function" || !functionName.MatchString(call.Function.Name) {
					return refuse("Missing or invalid parameter: 'messages[%d].tool_calls[%d]'.", i, n)
				}
				open, names[call.ID] = append(open, call.ID), call.Function.Name
				e.Prompt.Items = append(e.Prompt.Items, Item{Call, call.Function.Name, call.Function.Arguments})
			}
		case "tool":
			if m.ToolCallID == nil || *m.ToolCallID == "" {
				return refuse("Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'.")
			}
			at := slices.Index(open, *m.ToolCallID)
			if at < 0 {
				return &refusal{http.StatusBadRequest, "Invalid parameter: messages with role 'tool' must be a response to a " +
					"preceeding message with 'tool_calls'.", fmt.Sprintf("messages.[%d].role", i)}
			}
			open = slices.Delete(open, at, at+1)
			e.Prompt.Items = append(e.Prompt.Items, Item{Result, names[*m.ToolCallID], content})
		default:
			return refuse("Invalid value: '%s'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', "+
				"and 'developer'.", m.Role)
		}
	}
	if len(open) > 0 {
		return unansweredCalls(open, len(e.Messages))
	}
	return nil
}

func unansweredCalls(ids []string, at int) error {
	return &refusal{
		http.StatusBadRequest, "An assistant message with 'tool_calls' must be followed by tool messages responding " +
			"to each 'tool_call_id'. The following tool_call_ids did not have response messages: " + strings.Join(ids, ", "),
		fmt.Sprintf("messages.[%d].role", at),
	}
}

// https://platform.openai.com/docs/guides/error-codes
func (openAI) refuse(w http.ResponseWriter, why *refusal) {
	writeJSON(w, why.status, object{"error": object{
		"message": why.message, "type": "invalid_request_error", "param": why.param, "code": nil,
	}})
}

func (openAI) answer(w http.ResponseWriter, e Exchange, r Reply, id func() int) {
	usage := object{
		"prompt_tokens": e.Prompt.tokens(), "completion_tokens": r.tokens(), "total_tokens": e.Prompt.tokens() + r.tokens(),
	}
	chat := chatAnswer{reply: r, usage: usage, id: func() string { return fmt.Sprintf("call_%024d", id()) }}
	if e.Stream {
		chat.stream(w, e.Rest["stream_options"] != nil)
		return
	}
	chat.whole(w)
}

// chatAnswer is a reply in the chat completions format.
type chatAnswer struct {
	reply   Reply
	usage   object
	id      func() string
	oneCall bool // a call is streamed in one piece, as Mistral does
}

func (c chatAnswer) finish() string {
	if len(c.reply.Calls) > 0 {
		return "tool_calls"
	}
	return "stop"
}

// whole writes the answer in one piece.
// https://platform.openai.com/docs/api-reference/chat/object
func (c chatAnswer) whole(w http.ResponseWriter) {
	message := object{"role": "assistant", "content": c.reply.Text}
	if len(c.reply.Calls) > 0 {
		var calls []object
		for _, call := range c.reply.Calls {
			calls = append(calls, object{
				"id": c.id(), "type": "function",
				"function": object{"name": call.Name, "arguments": string(call.Arguments)},
			})
		}
		message["tool_calls"] = calls
	}
	writeJSON(w, http.StatusOK, object{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "model", "usage": c.usage,
		"choices": []object{{"index": 0, "message": message, "finish_reason": c.finish()}},
	})
}

// stream writes the answer as server-sent events.
// https://platform.openai.com/docs/api-reference/chat/streaming
func (c chatAnswer) stream(w http.ResponseWriter, withUsage bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(delta object, finish any) {
		fmt.Fprintf(w, "data: %s\n\n", text(object{
			"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "model",
			"choices": []object{{"index": 0, "delta": delta, "finish_reason": finish}},
		}))
	}
	event(object{"role": "assistant", "content": ""}, nil)
	for _, piece := range pieces(c.reply.Text) {
		event(object{"content": piece}, nil)
	}
	for i, call := range c.reply.Calls {
		first := object{"index": i, "id": c.id(), "type": "function", "function": object{"name": call.Name, "arguments": ""}}
		if c.oneCall {
			first["function"] = object{"name": call.Name, "arguments": string(call.Arguments)}
			event(object{"content": "", "tool_calls": []object{first}}, nil)
			continue
		}
		event(object{"tool_calls": []object{first}}, nil)
		for _, half := range halves(call.Arguments) {
			event(object{"tool_calls": []object{{"index": i, "function": object{"arguments": half}}}}, nil)
		}
	}
	event(object{}, c.finish())
	if withUsage {
		fmt.Fprintf(w, "data: %s\n\n", text(object{
			"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": []object{}, "usage": c.usage,
		}))
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}
