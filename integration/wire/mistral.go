package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/mistral"
)

// Mistral is Mistral's chat completion API.
// https://docs.mistral.ai/api/endpoint/chat
//
// The rules are those of the validator that Mistral publishes, in serving mode:
// https://github.com/mistralai/mistral-common/blob/main/src/mistral_common/protocol/instruct/validator.py
// (MistralRequestValidatorV5, of the models with tools).
var Mistral = Provider{Name: "Mistral", judge: mistralAPI{}, dial: func(url string) (llms.Model, error) {
	return mistral.New(mistral.WithEndpoint(url), mistral.WithAPIKey("token"), mistral.WithModel("mistral-large-latest"),
		mistral.WithTimeout(time.Minute), mistral.WithMaxRetries(1))
}}

type mistralAPI struct{}

// mistralID is the pattern of tool call ids (_validate_tool_call).
var mistralID = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

func (mistralAPI) read(r *http.Request, body []byte) (Exchange, error) {
	e, err := split(body, "messages")
	if err != nil {
		return e, err
	}
	if r.URL.Path != "/v1/chat/completions" {
		return e, &refusal{status: http.StatusNotFound, message: "no Route matched with those values"}
	}
	if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		return e, &refusal{status: http.StatusUnauthorized, message: "Unauthorized"}
	}
	var req struct {
		Model  string     `json:"model"`
		Tools  []chatTool `json:"tools"`
		Stop   []string   `json:"stop"`
		Stream bool       `json:"stream"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return e, refuse("%v", err)
	}
	e.Stream, e.Prompt.Stop = req.Stream, req.Stop
	if req.Model == "" {
		return e, refuse("Model name parameter is required for serving mode")
	}
	for _, t := range req.Tools {
		f := t.Function
		if !functionName.MatchString(f.Name) {
			return e, refuse("Function name was %s but must be a-z, A-Z, 0-9, or contain underscores and dashes, "+
				"with a maximum length of 64.", f.Name)
		}
		if _, ok := f.Parameters.(object); !ok {
			return e, refuse("Invalid tool schema: %s is not of type 'object', 'boolean'", text(f.Parameters))
		}
		e.Prompt.Tools = append(e.Prompt.Tools, Tool{f.Name, f.Description, f.Parameters})
	}
	return e, mistralMessages(&e)
}

// follows are the roles that may stand after a role (_validate_message_order).
var follows = map[string]string{
	"system": "user assistant system", "user": "assistant system user", "assistant": "assistant user tool", "tool": "assistant tool",
}

func mistralMessages(e *Exchange) error {
	messages := make([]chatMessage, len(e.Messages))
	for i, raw := range e.Messages {
		if err := json.Unmarshal(raw, &messages[i]); err != nil {
			return refuse("%v", err)
		}
	}
	// _validate_message_list_structure
	switch n := len(messages); {
	case n == 0:
		return refuse("Conversation must have at least one message")
	case n == 1 && messages[0].Role != "user" && messages[0].Role != "system":
		return refuse("Conversation must start with a user message or system message")
	case n > 1 && messages[n-1].Role == "assistant":
		return refuse("Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant")
	}
	// _validate_message_order; its refusal by the service:
	// https://github.com/datapizza-labs/datapizza-ai/issues/98
	open := 0 // calls without an answer
	var names []string
	for i, m := range messages {
		if _, known := follows[m.Role]; !known {
			return refuse("Input tag '%s' found using 'role' does not match any of the expected tags: "+
				"'assistant', 'system', 'tool', 'user'", m.Role)
		}
		if i > 0 && !strings.Contains(follows[messages[i-1].Role], m.Role) {
			return refuse("Unexpected role '%s' after role '%s'", m.Role, messages[i-1].Role)
		}
		content, err := contentText(m.Content)
		if err != nil {
			return err
		}
		switch m.Role {
		case "system":
			e.Prompt.System += content + "\n"
		case "user":
			e.Prompt.Items = append(e.Prompt.Items, Item{Kind: User, Text: content})
		case "assistant": // _validate_tool_calls_followed_by_tool_messages, _validate_assistant_message
			if open != 0 {
				return refuse("Not the same number of function calls and responses")
			}
			if content == "" && len(m.ToolCalls) == 0 { // https://github.com/solbrowse/extension/issues/16
				return refuse("Assistant message must have either content or tool_calls, but not none.")
			}
			if content != "" {
				e.Prompt.Items = append(e.Prompt.Items, Item{Kind: Model, Text: content})
			}
			open, names = len(m.ToolCalls), nil
			for _, call := range m.ToolCalls { // MistralRequestValidatorV3._validate_tool_call
				if !mistralID.MatchString(call.ID) {
					return refuse("Tool call id was %s but must be a-z, A-Z, 0-9, with a length of 9.", call.ID)
				}
				names = append(names, call.Function.Name)
				e.Prompt.Items = append(e.Prompt.Items, Item{Call, call.Function.Name, call.Function.Arguments})
			}
		case "tool": // MistralRequestValidatorV3._validate_tool_message
			// From this very client: https://github.com/Gage-Technologies/mistral-go/issues/8
			if m.ToolCallID == nil {
				return refuse("Tool call id has to be defined.")
			}
			if !mistralID.MatchString(*m.ToolCallID) {
				return refuse("Tool call id was %s but must be a-z, A-Z, 0-9, with a length of 9.", *m.ToolCallID)
			}
			name := ""
			if at := len(names) - open; open > 0 {
				name = names[at]
			}
			open--
			e.Prompt.Items = append(e.Prompt.Items, Item{Result, name, content})
		}
	}
	if open != 0 {
		return refuse("Not the same number of function calls and responses")
	}
	return nil
}

func (mistralAPI) refuse(w http.ResponseWriter, why *refusal) {
	writeJSON(w, why.status, object{
		"object": "error", "message": why.message, "type": "invalid_request_error", "param": nil, "code": nil,
	})
}

func (mistralAPI) answer(w http.ResponseWriter, e Exchange, r Reply, id func() int) {
	usage := object{
		"prompt_tokens": e.Prompt.tokens(), "completion_tokens": r.tokens(), "total_tokens": e.Prompt.tokens() + r.tokens(),
	}
	chat := chatAnswer{reply: r, usage: usage, oneCall: true, id: func() string { return fmt.Sprintf("id%07d", id()) }}
	if e.Stream {
		chat.stream(w, false)
		return
	}
	chat.whole(w)
}
