package wire

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/ollama"
)

// Ollama is Ollama's chat API.
// https://github.com/ollama/ollama/blob/main/docs/api.md#generate-a-chat-completion
var Ollama = Provider{Name: "Ollama", judge: ollamaAPI{}, dial: func(url string) (llms.Model, error) {
	return ollama.New(ollama.WithServerURL(url), ollama.WithModel("llama3.2"))
}}

type ollamaAPI struct{}

func (ollamaAPI) read(r *http.Request, body []byte) (Exchange, error) {
	e, err := split(body, "messages")
	if err != nil {
		return e, err
	}
	if r.URL.Path != "/api/chat" {
		return e, &refusal{status: http.StatusNotFound, message: "404 page not found"}
	}
	var req struct {
		Model   string     `json:"model"`
		Tools   []chatTool `json:"tools"`
		Stream  *bool      `json:"stream"`
		Options struct {
			Stop []string `json:"stop"`
		} `json:"options"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return e, refuse("%v", err)
	}
	if req.Model == "" {
		return e, refuse("model is required")
	}
	// A stream unless `"stream": false`. langchaingo's client leaves it out
	// when it wants none, and collects what comes.
	e.Stream = req.Stream == nil || *req.Stream
	e.Prompt.Stop = req.Options.Stop
	for _, t := range req.Tools {
		e.Prompt.Tools = append(e.Prompt.Tools, Tool{t.Function.Name, t.Function.Description, t.Function.Parameters})
	}
	for i, raw := range e.Messages {
		var m struct {
			Role      string `json:"role"`
			Content   string `json:"content"`
			ToolName  string `json:"tool_name"`
			ToolCalls []struct {
				Function struct {
					Name      string          `json:"name"`
					Arguments json.RawMessage `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		}
		if err := json.Unmarshal(raw, &m); err != nil { // one content, a string
			return e, refuse("json: cannot unmarshal messages[%d]: %v", i, err)
		}
		switch m.Role { // "either system, user, assistant, or tool"; templates leave out what they do not know
		case "system":
			e.Prompt.System += m.Content + "\n"
		case "user":
			e.Prompt.Items = append(e.Prompt.Items, Item{Kind: User, Text: m.Content})
		case "assistant":
			if m.Content != "" {
				e.Prompt.Items = append(e.Prompt.Items, Item{Kind: Model, Text: m.Content})
			}
			for _, call := range m.ToolCalls {
				e.Prompt.Items = append(e.Prompt.Items, Item{Call, call.Function.Name, string(call.Function.Arguments)})
			}
		case "tool":
			e.Prompt.Items = append(e.Prompt.Items, Item{Result, m.ToolName, m.Content})
		}
	}
	return e, nil
}

func (ollamaAPI) refuse(w http.ResponseWriter, why *refusal) {
	writeJSON(w, why.status, object{"error": why.message})
}

func (ollamaAPI) answer(w http.ResponseWriter, e Exchange, r Reply, _ func() int) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	line := func(message object, done bool) {
		o := object{"model": "llama3.2", "created_at": "2025-01-01T00:00:00Z", "message": message, "done": done}
		if done {
			o["done_reason"], o["prompt_eval_count"], o["eval_count"] = "stop", e.Prompt.tokens(), r.tokens()
		}
		fmt.Fprintln(w, text(o))
	}
	if !e.Stream {
		line(object{"role": "assistant", "content": r.Text, "tool_calls": ollamaCalls(r)}, true)
		return
	}
	for _, piece := range pieces(r.Text) {
		line(object{"role": "assistant", "content": piece}, false)
	}
	if calls := ollamaCalls(r); calls != nil {
		line(object{"role": "assistant", "content": "", "tool_calls": calls}, false)
	}
	line(object{"role": "assistant", "content": ""}, true)
}

func ollamaCalls(r Reply) (calls []object) {
	for _, call := range r.Calls {
		calls = append(calls, object{"function": object{"name": call.Name, "arguments": call.Arguments}})
	}
	return calls
}
