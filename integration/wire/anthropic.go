package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/anthropic"
)

// Anthropic is Anthropic's Messages API.
// https://platform.claude.com/docs/en/api/messages
var Anthropic = Provider{Name: "Anthropic", judge: messagesAPI{}, dial: func(url string) (llms.Model, error) {
	return anthropic.New(anthropic.WithBaseURL(url+"/v1"), anthropic.WithToken("token"),
		anthropic.WithModel("claude-sonnet-4-5"))
}}

type messagesAPI struct{}

func (messagesAPI) read(r *http.Request, body []byte) (Exchange, error) {
	e, err := split(body, "messages")
	if err != nil {
		return e, err
	}
	// https://platform.claude.com/docs/en/api/overview (authentication, versions)
	switch {
	case r.URL.Path != "/v1/messages":
		return e, &refusal{status: http.StatusNotFound, message: "Not found"}
	case r.Header.Get("x-api-key") == "":
		return e, &refusal{status: http.StatusUnauthorized, message: "x-api-key header is required"}
	case r.Header.Get("anthropic-version") == "":
		return e, refuse("anthropic-version: header is required")
	case len(e.Rest["model"]) == 0:
		return e, refuse("model: Field required")
	}
	e.Stream = string(e.Rest["stream"]) == "true"
	return e, judgeClaude(&e)
}

// block is a content block.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
}

// claudeTurn is a message, or several in a row of the same role: "consecutive
// user or assistant turns in your request will be combined into a single turn"
// (https://platform.claude.com/docs/en/api/messages, messages).
type claudeTurn struct {
	role   string
	at     int // of its first message
	blocks []block
}

// toolID is the pattern of tool_use ids, toolName that of tools' names:
// https://platform.claude.com/docs/en/api/messages (tools, content).
var (
	toolID   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
)

// judgeClaude judges what the Messages API and Claude on Amazon Bedrock have in
// common, and fills the Prompt.
func judgeClaude(e *Exchange) error {
	var req struct {
		MaxTokens int      `json:"max_tokens"`
		System    string   `json:"system"`
		Stop      []string `json:"stop_sequences"`
		Tools     []struct {
			Name        string `json:"name"`
			Description string `json:"description"`
			InputSchema any    `json:"input_schema"`
		} `json:"tools"`
	}
	if err := json.Unmarshal([]byte(text(e.Rest)), &req); err != nil {
		return refuse("%v", err)
	}
	if req.MaxTokens < 1 {
		return refuse("max_tokens: Field required")
	}
	e.Prompt.System, e.Prompt.Stop = req.System, req.Stop
	for _, stop := range req.Stop {
		if strings.TrimSpace(stop) == "" {
			return refuse("stop_sequences: each stop sequence must contain non-whitespace")
		}
	}
	names := map[string]bool{}
	for i, t := range req.Tools {
		schema, _ := t.InputSchema.(object)
		switch {
		case !toolName.MatchString(t.Name):
			return refuse("tools.%d.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'", i)
		case names[t.Name]: // https://github.com/danny-avila/LibreChat/issues/13162
			return refuse("tools: Tool names must be unique.")
		case schema["type"] != "object": // https://platform.claude.com/docs/en/api/messages (tools, input_schema)
			return refuse("tools.%d.custom.input_schema.type: Input should be 'object'", i)
		}
		names[t.Name] = true
		e.Prompt.Tools = append(e.Prompt.Tools, Tool{t.Name, t.Description, t.InputSchema})
	}
	turns, err := claudeTurns(e.Messages)
	if err != nil {
		return err
	}
	called := map[string]string{} // names of tools by the ids of their calls
	for i, turn := range turns {
		if err := judgeTurn(turns, i, called); err != nil {
			return err
		}
		e.Prompt.Items = append(e.Prompt.Items, claudeItems(turn, called)...)
	}
	return nil
}

// claudeTurns decodes messages, and combines those in a row of the same role.
func claudeTurns(messages []json.RawMessage) ([]claudeTurn, error) {
	if len(messages) == 0 {
		return nil, refuse("messages: at least one message is required")
	}
	var turns []claudeTurn
	for i, raw := range messages {
		var m struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		}
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, refuse("messages.%d: %v", i, err)
		}
		// "there is no "system" role for input messages in the Messages API"
		if m.Role != "user" && m.Role != "assistant" {
			return nil, refuse("messages: Unexpected role %q. Allowed roles are \"user\" or \"assistant\".", m.Role)
		}
		blocks, err := claudeBlocks(i, m.Content)
		if err != nil {
			return nil, err
		}
		// https://github.com/tidyverse/ellmer/issues/710
		if len(blocks) == 0 && (m.Role == "user" || i < len(messages)-1) {
			return nil, refuse("messages.%d: all messages must have non-empty content except for the optional final assistant message", i)
		}
		if n := len(turns); n > 0 && turns[n-1].role == m.Role {
			turns[n-1].blocks = append(turns[n-1].blocks, blocks...)
			continue
		}
		turns = append(turns, claudeTurn{m.Role, i, blocks})
	}
	if turns[0].role != "user" {
		return nil, refuse("messages: first message must use the \"user\" role")
	}
	if last := turns[len(turns)-1]; last.role == "assistant" && len(last.blocks) > 0 {
		if end := last.blocks[len(last.blocks)-1].Text; end != strings.TrimRight(end, " \n\t") {
			return nil, refuse("messages: final assistant content cannot end with trailing whitespace")
		}
	}
	return turns, nil
}

func claudeBlocks(at int, content json.RawMessage) ([]block, error) {
	var whole string
	if json.Unmarshal(content, &whole) == nil {
		if whole == "" {
			return nil, nil
		}
		return []block{{Type: "text", Text: whole}}, nil
	}
	var blocks []block
	if err := json.Unmarshal(content, &blocks); err != nil {
		return nil, refuse("messages.%d.content: Input should be a valid list", at)
	}
	for n, b := range blocks {
		switch b.Type {
		case "text":
			// https://github.com/anthropics/anthropic-sdk-python/issues/461,
			// https://github.com/agno-agi/agno/issues/3137
			if b.Text == "" {
				return nil, refuse("messages: text content blocks must be non-empty")
			}
			if strings.TrimSpace(b.Text) == "" {
				return nil, refuse("messages: text content blocks must contain non-whitespace text")
			}
		case "tool_use":
			var input object
			if json.Unmarshal(b.Input, &input) != nil || input == nil {
				return nil, refuse("messages.%d.content.%d.tool_use.input: Input should be a valid dictionary", at, n)
			}
			if !toolID.MatchString(b.ID) {
				return nil, refuse("messages.%d.content.%d.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", at, n)
			}
			if b.Name == "" {
				return nil, refuse("messages.%d.content.%d.tool_use.name: String should have at least 1 character", at, n)
			}
		case "tool_result":
			if b.ToolUseID == "" {
				return nil, refuse("messages.%d.content.%d.tool_result.tool_use_id: Field required", at, n)
			}
		default:
			return nil, refuse("messages.%d.content.%d: Input tag '%s' found using 'type' does not match any of the expected tags", at, n, b.Type)
		}
	}
	return blocks, nil
}

// judgeTurn judges calls and results.
//
// https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls:
// "Tool result blocks must immediately follow their corresponding tool use
// blocks in the message history"; in the user message "the tool_result blocks
// must come first in the content array". A text after tool_use in the
// assistant's own turn stands between the two as well:
// https://github.com/anthropics/claude-code/issues/473,
// https://github.com/anomalyco/opencode/issues/25774. A text before the
// results: https://github.com/shareAI-lab/learn-claude-code/issues/55.
func judgeTurn(turns []claudeTurn, i int, called map[string]string) error {
	turn := turns[i]
	var results, before []block
	if i > 0 && turn.role == "user" {
		before = turns[i-1].blocks
	}
	for n, b := range turn.blocks {
		switch {
		case b.Type == "tool_use" && turn.role != "assistant":
			return refuse("messages.%d: `tool_use` blocks can only be in `assistant` messages", turn.at)
		case b.Type == "tool_result" && turn.role != "user":
			return refuse("messages.%d: `tool_result` blocks can only be in `user` messages", turn.at)
		case b.Type == "tool_use":
			if _, taken := called[b.ID]; taken {
				return refuse("messages: `tool_use` ids must be unique")
			}
			called[b.ID] = b.Name
		case b.Type == "tool_result":
			if !hasUse(before, b.ToolUseID) {
				return refuse("messages.%d.content.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s. "+
					"Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", turn.at, n, b.ToolUseID)
			}
		}
	}
	if turn.role != "assistant" {
		return nil
	}
	if i+1 < len(turns) {
		for _, b := range turns[i+1].blocks {
			if b.Type != "tool_result" {
				break
			}
			results = append(results, b)
		}
	}
	var open []string
	closed := false // something follows the first call
	for n, b := range turn.blocks {
		if b.Type != "tool_use" {
			continue
		}
		if n+1 < len(turn.blocks) && turn.blocks[n+1].Type != "tool_use" {
			closed = true
		}
		if !hasResult(results, b.ID) || closed {
			open = append(open, b.ID)
		}
	}
	if len(open) > 0 {
		return refuse("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. "+
			"Each `tool_use` block must have a corresponding `tool_result` block in the next message.", turn.at, strings.Join(open, ", "))
	}
	return nil
}

func hasUse(blocks []block, id string) bool {
	for _, b := range blocks {
		if b.Type == "tool_use" && b.ID == id {
			return true
		}
	}
	return false
}

func hasResult(blocks []block, id string) bool {
	for _, b := range blocks {
		if b.ToolUseID == id {
			return true
		}
	}
	return false
}

func claudeItems(turn claudeTurn, called map[string]string) []Item {
	var items []Item
	for _, b := range turn.blocks {
		switch b.Type {
		case "tool_use":
			items = append(items, Item{Call, b.Name, string(b.Input)})
		case "tool_result":
			var content string
			_ = json.Unmarshal(b.Content, &content) // absent: an empty result, which is allowed
			items = append(items, Item{Result, called[b.ToolUseID], content})
		default:
			kind := User
			if turn.role == "assistant" {
				kind = Model
			}
			items = append(items, Item{Kind: kind, Text: b.Text})
		}
	}
	return items
}

// https://platform.claude.com/docs/en/api/errors
func (messagesAPI) refuse(w http.ResponseWriter, why *refusal) {
	writeJSON(w, why.status, object{
		"type": "error", "error": object{"type": "invalid_request_error", "message": why.message}, "request_id": "req_1",
	})
}

func (messagesAPI) answer(w http.ResponseWriter, e Exchange, r Reply, id func() int) {
	if !e.Stream {
		writeJSON(w, http.StatusOK, claudeMessage(e, r, id))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	claudeStream(e, r, id, func(event object) {
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event["type"], text(event))
	})
}

func claudeStop(r Reply) string {
	if len(r.Calls) > 0 {
		return "tool_use"
	}
	return "end_turn"
}

// claudeMessage is the answer in one piece.
func claudeMessage(e Exchange, r Reply, id func() int) object {
	content := []object{}
	if r.Text != "" {
		content = append(content, object{"type": "text", "text": r.Text})
	}
	for _, call := range r.Calls {
		content = append(content, object{
			"type": "tool_use", "id": fmt.Sprintf("toolu_%022d", id()), "name": call.Name, "input": call.Arguments,
		})
	}
	return object{
		"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": content,
		"stop_reason": claudeStop(r), "stop_sequence": nil,
		"usage": object{"input_tokens": e.Prompt.tokens(), "output_tokens": r.tokens()},
	}
}

// claudeStream gives the events of a streamed answer to emit.
// https://platform.claude.com/docs/en/build-with-claude/streaming
func claudeStream(e Exchange, r Reply, id func() int, emit func(object)) {
	emit(object{"type": "message_start", "message": object{
		"id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": []object{},
		"stop_reason": nil, "stop_sequence": nil,
		"usage": object{"input_tokens": e.Prompt.tokens(), "output_tokens": 1},
	}})
	emit(object{"type": "ping"})
	index := 0
	block := func(start object, deltas ...object) {
		emit(object{"type": "content_block_start", "index": index, "content_block": start})
		for _, delta := range deltas {
			emit(object{"type": "content_block_delta", "index": index, "delta": delta})
		}
		emit(object{"type": "content_block_stop", "index": index})
		index++
	}
	if r.Text != "" {
		var deltas []object
		for _, piece := range pieces(r.Text) {
			deltas = append(deltas, object{"type": "text_delta", "text": piece})
		}
		block(object{"type": "text", "text": ""}, deltas...)
	}
	for _, call := range r.Calls {
		var deltas []object
		for _, half := range halves(call.Arguments) {
			deltas = append(deltas, object{"type": "input_json_delta", "partial_json": half})
		}
		block(object{"type": "tool_use", "id": fmt.Sprintf("toolu_%022d", id()), "name": call.Name, "input": object{}}, deltas...)
	}
	emit(object{
		"type": "message_delta", "delta": object{"stop_reason": claudeStop(r), "stop_sequence": nil},
		"usage": object{"output_tokens": r.tokens()},
	})
	emit(object{"type": "message_stop"})
}
