package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/googleai"
	"google.golang.org/api/option"
)

// Gemini is Google's Gemini API.
// https://ai.google.dev/api/generate-content
var Gemini = Provider{Name: "Gemini", judge: gemini{}, dial: func(url string) (llms.Model, error) {
	return googleai.New(context.Background(), googleai.WithAPIKey("token"), func(o *googleai.Options) {
		o.ClientOptions = append(o.ClientOptions, option.WithEndpoint(url))
	})
}}

type gemini struct{}

// geminiContent is a turn of a conversation.
type geminiContent struct {
	Role  string       `json:"role"`
	Parts []geminiPart `json:"parts"`
}

type geminiPart struct {
	Text         *string `json:"text"`
	FunctionCall *struct {
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	FunctionResponse *struct {
		Name     string `json:"name"`
		Response object `json:"response"`
	} `json:"functionResponse"`
}

// geminiName is the pattern of function names, as the refusal states it:
// https://github.com/kaitranntt/ccs/issues/25
var geminiName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`)

func (g gemini) read(r *http.Request, body []byte) (Exchange, error) {
	e, err := split(body, "contents")
	if err != nil {
		return e, err
	}
	if r.Header.Get("x-goog-api-key") == "" && r.URL.Query().Get("key") == "" {
		return e, &refusal{status: http.StatusForbidden, message: "Method doesn't allow unregistered callers."}
	}
	_, method, _ := strings.Cut(r.URL.Path, ":")
	if method != "generateContent" && method != "streamGenerateContent" {
		return e, &refusal{status: http.StatusNotFound, message: "Not Found"}
	}
	e.Stream = method == "streamGenerateContent"
	var req struct {
		SystemInstruction *geminiContent `json:"systemInstruction"`
		GenerationConfig  struct {
			StopSequences []string `json:"stopSequences"`
		} `json:"generationConfig"`
		Tools []struct {
			FunctionDeclarations []struct {
				Name        string `json:"name"`
				Description string `json:"description"`
				Parameters  any    `json:"parameters"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return e, refuse("Invalid JSON payload received. %v", err)
	}
	e.Prompt.Stop = req.GenerationConfig.StopSequences
	if len(e.Prompt.Stop) > 5 { // "The set of character sequences (up to 5)"
		return e, refuse("* GenerateContentRequest.generation_config.stop_sequences: at most 5")
	}
	if req.SystemInstruction != nil {
		for _, part := range req.SystemInstruction.Parts {
			if part.Text != nil {
				e.Prompt.System += *part.Text + "\n"
			}
		}
	}
	names := map[string]bool{}
	for t, tool := range req.Tools {
		for i, f := range tool.FunctionDeclarations {
			at := fmt.Sprintf("* GenerateContentRequest.tools[%d].function_declarations[%d]", t, i)
			if !geminiName.MatchString(f.Name) {
				return e, refuse("%s.name: Invalid function name. Must start with a letter or an underscore. Must be alphameric "+
					"(a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.", at)
			}
			if names[f.Name] {
				return e, refuse("Duplicate function declaration found: %s", f.Name)
			}
			names[f.Name] = true
			schema, why := geminiSchema(f.Parameters, at+".parameters")
			if why != "" {
				return e, refuse("%s", why)
			}
			e.Prompt.Tools = append(e.Prompt.Tools, Tool{f.Name, f.Description, schema})
		}
	}
	return e, g.contents(&e)
}

// geminiTypes are the names of the Type enumeration by number: the client
// sends numbers. https://ai.google.dev/api/caching#Type
var geminiTypes = []string{"", "string", "number", "integer", "boolean", "array", "object"}

// geminiSchema judges a schema, "a select subset of an OpenAPI 3.0 schema
// object" (https://ai.google.dev/api/caching#Schema), and spells its types as
// JSON Schema does. Refusals: https://github.com/agno-agi/agno/issues/2112
// (empty properties), https://github.com/anomalyco/opencode/pull/49392 (items).
func geminiSchema(v any, at string) (any, string) {
	s, ok := v.(object)
	if !ok {
		return nil, "" // no parameters: a function without any
	}
	kind := ""
	switch t := s["type"].(type) {
	case float64:
		if int(t) >= 0 && int(t) < len(geminiTypes) {
			kind = geminiTypes[int(t)]
		}
	case string:
		kind = strings.ToLower(t)
	}
	if kind == "" {
		return nil, at + ".type: must be specified"
	}
	out := object{"type": kind}
	for key, value := range s {
		switch key {
		case "type":
		case "description", "enum", "format", "nullable", "required", "minItems", "maxItems":
			out[key] = value
		case "properties":
			properties := object{}
			for name, property := range value.(object) {
				schema, why := geminiSchema(property, at+".properties["+name+"]")
				if why != "" {
					return nil, why
				}
				properties[name] = schema
			}
			out[key] = properties
		case "items":
			schema, why := geminiSchema(value, at+".items")
			if why != "" {
				return nil, why
			}
			out[key] = schema
		default:
			return nil, fmt.Sprintf("Invalid JSON payload received. Unknown name %q at '%s': Cannot find field.", key, at)
		}
	}
	properties, _ := out["properties"].(object)
	if kind == "object" && len(properties) == 0 {
		return nil, at + ".properties: should be non-empty for OBJECT type"
	}
	if _, ok := out["items"]; kind == "array" && !ok {
		return nil, at + ".items: missing field."
	}
	return out, ""
}

// contents judges the turns and their order. The three sentences about
// function turns are the service's own; see
// https://github.com/googleapis/go-genai/issues/692,
// https://github.com/google-gemini/gemini-cli/issues/26956,
// https://github.com/microsoft/semantic-kernel/issues/12528 (responses of one
// turn's calls stand in one content).
func (gemini) contents(e *Exchange) error {
	if len(e.Messages) == 0 {
		return refuse("* GenerateContentRequest.contents: contents is not specified")
	}
	open, afterModel := 0, false // calls of the turn before; whether a model's turn stands before
	for i, raw := range e.Messages {
		var c geminiContent
		if err := json.Unmarshal(raw, &c); err != nil {
			return refuse("Invalid JSON payload received. %v", err)
		}
		// https://ai.google.dev/api/caching#Content: "Must be either 'user' or 'model'."
		if c.Role != "" && c.Role != "user" && c.Role != "model" && c.Role != "function" {
			return refuse("Please use a valid role: user, model.")
		}
		if len(c.Parts) == 0 { // https://github.com/vercel/ai/issues/3775
			return refuse("* GenerateContentRequest.contents[%d].parts: contents.parts must not be empty.", i)
		}
		calls, responses := 0, 0
		for n, part := range c.Parts {
			at := fmt.Sprintf("* GenerateContentRequest.contents[%d].parts[%d]", i, n)
			switch {
			case part.FunctionCall != nil:
				calls++
				e.Prompt.Items = append(e.Prompt.Items, Item{Call, part.FunctionCall.Name, string(part.FunctionCall.Args)})
			case part.FunctionResponse != nil:
				responses++
				if part.FunctionResponse.Name == "" { // https://github.com/router-for-me/CLIProxyAPI/issues/2104
					return refuse("%s.function_response.name: Name cannot be empty.", at)
				}
				content, _ := part.FunctionResponse.Response["response"].(string)
				e.Prompt.Items = append(e.Prompt.Items, Item{Result, part.FunctionResponse.Name, content})
			case part.Text == nil: // https://github.com/router-for-me/CLIProxyAPI/issues/1292
				return refuse("%s.data: required oneof field 'data' must have one initialized field", at)
			case *part.Text == "": // https://github.com/glowingjade/obsidian-smart-composer/issues/218
				return refuse("Unable to submit request because it has an empty text parameter. Add a value to the parameter and try again.")
			case c.Role == "model":
				e.Prompt.Items = append(e.Prompt.Items, Item{Kind: Model, Text: *part.Text})
			default:
				e.Prompt.Items = append(e.Prompt.Items, Item{Kind: User, Text: *part.Text})
			}
		}
		switch {
		case calls > 0 && (i == 0 || afterModel):
			return refuse("Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
		case responses > 0 && open == 0:
			return refuse("Please ensure that function response turn comes immediately after a function call turn.")
		case responses != open:
			return refuse("Please ensure that the number of function response parts is equal to the number of function call parts " +
				"of the function call turn.")
		}
		open, afterModel = calls, c.Role == "model"
	}
	if open > 0 {
		return refuse("Please ensure that the number of function response parts is equal to the number of function call parts " +
			"of the function call turn.")
	}
	return nil
}

// https://ai.google.dev/gemini-api/docs/troubleshooting
func (gemini) refuse(w http.ResponseWriter, why *refusal) {
	writeJSON(w, why.status, object{"error": object{"code": why.status, "message": why.message, "status": "INVALID_ARGUMENT"}})
}

func (g gemini) answer(w http.ResponseWriter, e Exchange, r Reply, _ func() int) {
	var parts []object
	for _, call := range r.Calls {
		parts = append(parts, object{"functionCall": object{"name": call.Name, "args": call.Arguments}})
	}
	if !e.Stream {
		if r.Text != "" {
			parts = append([]object{{"text": r.Text}}, parts...)
		}
		writeJSON(w, http.StatusOK, geminiResponse(e, r, parts, true))
		return
	}
	// The stream of the REST API is one JSON array.
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, "[")
	var chunks [][]object
	for _, piece := range pieces(r.Text) {
		chunks = append(chunks, []object{{"text": piece}})
	}
	if parts != nil {
		chunks = append(chunks, parts)
	}
	for i, chunk := range chunks {
		if i > 0 {
			fmt.Fprint(w, ",\n")
		}
		fmt.Fprint(w, text(geminiResponse(e, r, chunk, i == len(chunks)-1)))
	}
	fmt.Fprint(w, "]")
}

// geminiResponse is a response, or a part of a streamed one. Enumerations are
// numbers, which the client asks for with $alt.
func geminiResponse(e Exchange, r Reply, parts []object, last bool) object {
	candidate := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	if last {
		candidate["finishReason"] = 1 // STOP
	}
	return object{"candidates": []object{candidate}, "usageMetadata": object{
		"promptTokenCount": e.Prompt.tokens(), "candidatesTokenCount": r.tokens(), "totalTokenCount": e.Prompt.tokens() + r.tokens(),
	}}
}
