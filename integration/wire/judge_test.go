package wire

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A format is how a provider's requests are written by hand: where they go, and
// what stands around the messages and tools.
type format struct {
	path   string
	header http.Header
	// well is a conversation that the provider serves: a call, its answer and
	// another question, with the tools in it.
	well string
}

var bearer = http.Header{"Authorization": {"Bearer token"}}

const chatTools = `"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{"x":{"type":"string"}}}}}]`

const chatWell = `{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"Q"},` +
	`{"role":"assistant","content":"","tool_calls":[{"id":"abcdefghi","type":"function","function":{"name":"look","arguments":"{}"}}]},` +
	`{"role":"tool","content":"R","tool_call_id":"abcdefghi"},{"role":"assistant","content":"A"},{"role":"user","content":"Q2"}],` + chatTools + `}`

const claudeRest = `"max_tokens":9,"system":"S","tools":[{"name":"look","input_schema":{"type":"object"}}],` +
	`"messages":[{"role":"user","content":"Q"},{"role":"assistant","content":[{"type":"text","text":"T"},` +
	`{"type":"tool_use","id":"c1","name":"look","input":{}}]},` +
	`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"R"}]},` +
	`{"role":"assistant","content":"A"},{"role":"user","content":"Q2"}]}`

var formats = map[string]format{
	OpenAI.Name:          {"/v1/chat/completions", bearer, chatWell},
	OpenAIReasoning.Name: {"/v1/chat/completions", bearer, chatWell},
	Mistral.Name:         {"/v1/chat/completions", bearer, chatWell},
	Anthropic.Name: {
		"/v1/messages",
		http.Header{"X-Api-Key": {"token"}, "Anthropic-Version": {"2023-06-01"}},
		`{"model":"m",` + claudeRest,
	},
	Bedrock.Name: {
		"/model/m/invoke",
		http.Header{"Authorization": {"AWS4-HMAC-SHA256 Credential=id"}},
		`{"anthropic_version":"bedrock-2023-05-31",` + claudeRest,
	},
	Gemini.Name: {
		"/v1beta/models/m:generateContent",
		http.Header{"X-Goog-Api-Key": {"token"}},
		`{"systemInstruction":{"parts":[{"text":"S"}]},"contents":[{"role":"user","parts":[{"text":"Q"}]},` +
			`{"role":"model","parts":[{"text":"T"},{"functionCall":{"name":"look","args":{}}}]},` +
			`{"role":"user","parts":[{"functionResponse":{"name":"look","response":{"response":"R"}}}]},` +
			`{"role":"model","parts":[{"text":"A"}]},{"role":"user","parts":[{"text":"Q2"}]}],` +
			`"tools":[{"functionDeclarations":[{"name":"look","parameters":{"type":6,"properties":{"x":{"type":1}}}}]}]}`,
	},
	Ollama.Name: {"/api/chat", nil, `{"model":"m","messages":[{"role":"system","content":"S"},{"role":"user","content":"Q"},` +
		`{"role":"assistant","content":"","tool_calls":[{"function":{"name":"look","arguments":{}}}]},` +
		`{"role":"tool","tool_name":"look","content":"R"},{"role":"assistant","content":"A"},{"role":"user","content":"Q2"}],` + chatTools + `}`},
	Cohere.Name: {"/v1/generate", bearer, `{"model":"m","prompt":"Q2"}`},
}

// post sends a body and returns the status and the answer's text.
func post(t *testing.T, p Provider, body string) (int, string, Exchange) {
	t.Helper()
	require.True(t, json.Valid([]byte(body)), "the test's own request: %s", body)
	server := p.Serve(func(Prompt) Reply { return Reply{Text: "Hello."} })
	defer server.Close()
	f := formats[p.Name]
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.http.URL+f.path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header = f.header.Clone()
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(data), server.Exchanges()[0]
}

// TestServes: a request in order is served, and all of it reaches the model.
func TestServes(t *testing.T) {
	for _, p := range Providers {
		t.Run(p.Name, func(t *testing.T) {
			status, answer, e := post(t, p, formats[p.Name].well)
			require.Equal(t, http.StatusOK, status, answer)
			assert.Empty(t, e.Refused)
			if p.Name == Cohere.Name {
				assert.Equal(t, []Item{{Kind: User, Text: "Q2"}}, e.Prompt.Items)
				return
			}
			assert.Equal(t, "S", strings.TrimSpace(e.Prompt.System))
			var said []Item
			for _, item := range e.Prompt.Items {
				if item.Text != "T" {
					said = append(said, item)
				}
			}
			assert.Equal(t, []Item{
				{User, "", "Q"}, {Call, "look", "{}"}, {Result, "look", "R"}, {Model, "", "A"}, {User, "", "Q2"},
			}, said)
			require.Len(t, e.Prompt.Tools, 1)
			assert.Equal(t, "look", e.Prompt.Tools[0].Name)
			assert.Equal(t, "object", e.Prompt.Tools[0].Schema.(object)["type"])
		})
	}
}

// TestRefuses: each rule of each provider. A row takes the request that is
// served and changes one thing.
func TestRefuses(t *testing.T) {
	chat := []refusedRow{
		{"a result without its call", `"tool_call_id":"abcdefghi"`, `"tool_call_id":"abcdefghj"`, "must be a response to a preceeding"},
		{"a message between the two", `{"role":"tool","content"`, `{"role":"user","content":"M"},{"role":"tool","content"`, "did not have response messages"},
		{"a text of the model's between the two", `{"role":"tool","content"`, `{"role":"assistant","content":"M"},{"role":"tool","content"`, "did not have response messages"},
		{"a call without its result", `{"role":"tool","content":"R","tool_call_id":"abcdefghi"},`, ``, "did not have response messages"},
		{"a call without an id", `"id":"abcdefghi"`, `"id":""`, "tool_calls[0]"},
		{"a result without an id", `,"tool_call_id":"abcdefghi"`, ``, "tool_call_id"},
		{"an unknown role", `{"role":"user","content":"Q2"}`, `{"role":"generic","content":"Q2"}`, "Invalid value: 'generic'"},
		{"no content", `"content":"Q2"`, `"content":null`, "expected a string"},
		{"an empty list of content", `"content":"Q2"`, `"content":[]`, "at least one element"},
		{"a schema without a type", `"type":"object",`, ``, "schema must be a JSON Schema"},
		{"a schema without properties", `,"properties":{"x":{"type":"string"}}`, ``, "object schema missing properties"},
		{"an array without items", `{"type":"string"}`, `{"type":"array"}`, "array schema missing items"},
		{"a tool's name", `"name":"look","parameters"`, `"name":"look up","parameters"`, "function.name"},
		{"no messages", chatWell, `{"model":"m","messages":[]}`, "Invalid 'messages'"},
		{"no model", `"model":"m",`, ``, "model parameter"},
		{"an empty list of tools", chatTools, `"tools":[]`, "Invalid 'tools'"},
		{"a choice without tools", chatTools, `"tool_choice":"auto"`, "only allowed when 'tools'"},
	}
	claude := []refusedRow{
		{"a result without its call", `,{"type":"tool_use","id":"c1","name":"look","input":{}}`, ``, "unexpected `tool_use_id`"},
		{"a result of another call", `"tool_use_id":"c1"`, `"tool_use_id":"c2"`, "immediately after: c1"},
		{"a message between the two", `{"role":"user","content":[{"type":"tool_result"`, `{"role":"user","content":"M"},{"role":"user","content":[{"type":"tool_result"`, "without `tool_result` blocks immediately after: c1"},
		{"a text before the result", `[{"type":"tool_result"`, `[{"type":"text","text":"M"},{"type":"tool_result"`, "without `tool_result` blocks immediately after: c1"},
		{"a text after the call", `"name":"look","input":{}}]`, `"name":"look","input":{}},{"type":"text","text":"M"}]`, "without `tool_result` blocks immediately after: c1"},
		{"a text of the model's between the two", `{"role":"user","content":[{"type":"tool_result"`, `{"role":"assistant","content":"M"},{"role":"user","content":[{"type":"tool_result"`, "without `tool_result` blocks immediately after: c1"},
		{"a call without its result", `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"R"}]},`, ``, "without `tool_result` blocks immediately after: c1"},
		{"an empty text", `"text":"T"`, `"text":""`, "text content blocks must be non-empty"},
		{"a blank text", `"text":"T"`, `"text":" "`, "must contain non-whitespace text"},
		{"an empty message", `{"role":"user","content":"Q2"}`, `{"role":"user","content":""}`, "must have non-empty content"},
		{"a system message", `{"role":"user","content":"Q2"}`, `{"role":"system","content":"Q2"}`, `Unexpected role "system"`},
		{"the model first", `{"role":"user","content":"Q"},`, ``, `first message must use the "user" role`},
		{"a blank at the end", `{"role":"user","content":"Q2"}`, `{"role":"assistant","content":"A "}`, "trailing whitespace"},
		{"an input that is no object", `"input":{}`, `"input":"x"`, "valid dictionary"},
		{"no id", `"id":"c1"`, `"id":""`, "tool_use.id"},
		{"no max_tokens", `"max_tokens":9,`, ``, "max_tokens"},
		{"a schema that is no object's", `"input_schema":{"type":"object"}`, `"input_schema":{"type":"string"}`, "input_schema.type"},
		{"a tool twice", `"tools":[`, `"tools":[{"name":"look","input_schema":{"type":"object"}},`, "Tool names must be unique"},
		{"a blank stop sequence", `"max_tokens":9`, `"max_tokens":9,"stop_sequences":["\n"]`, "non-whitespace"},
		{"a result by the model", `{"role":"assistant","content":"A"}`, `{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"c1"}]}`, "only be in `user`"},
	}
	rows := map[string][]refusedRow{
		OpenAI.Name: append(chat, refusedRow{"five stop sequences", `"model":"m"`, `"model":"m","stop":["1","2","3","4","5"]`, "maximum length 4"}),
		OpenAIReasoning.Name: append(chat,
			refusedRow{"stop", `"model":"m"`, `"model":"m","stop":["x"]`, "'stop' is not supported"},
			refusedRow{"temperature", `"model":"m"`, `"model":"m","temperature":0`, "'temperature' does not support 0"},
			refusedRow{"max_tokens", `"model":"m"`, `"model":"m","max_tokens":9`, "'max_tokens' is not supported"}),
		Anthropic.Name: append(claude, refusedRow{"no model", `"model":"m",`, ``, "model: Field required"}),
		Bedrock.Name: append(claude,
			refusedRow{"a stream in the body", `"max_tokens":9`, `"max_tokens":9,"stream":true`, "extraneous key [stream]"},
			refusedRow{"no version", `"anthropic_version":"bedrock-2023-05-31",`, ``, "anthropic_version"}),
		Mistral.Name: {
			{"a result without its id", `,"tool_call_id":"abcdefghi"`, ``, "Tool call id has to be defined."},
			{"an id that is not Mistral's", `"id":"abcdefghi"`, `"id":"call_1"`, "with a length of 9"},
			{"a user after a tool", `{"role":"assistant","content":"A"},`, ``, "Unexpected role 'user' after role 'tool'"},
			{"a user between the two", `{"role":"tool","content"`, `{"role":"user","content":"M"},{"role":"tool","content"`, "Unexpected role 'tool' after role 'user'"},
			{"a text of the model's between the two", `{"role":"tool","content"`, `{"role":"assistant","content":"M"},{"role":"tool","content"`, "Not the same number"},
			{"a call without its result", `{"role":"tool","content":"R","tool_call_id":"abcdefghi"},`, ``, "Not the same number"},
			{"an empty answer", `"content":"A"`, `"content":""`, "either content or tool_calls"},
			{"the model last", `{"role":"user","content":"Q2"}`, `{"role":"assistant","content":"B"}`, "Expected last role User or Tool"},
			{"a system message in the middle", `{"role":"assistant","content":"A"}`, `{"role":"system","content":"A"}`, "Unexpected role 'system' after role 'tool'"},
			{"an unknown role", `{"role":"user","content":"Q2"}`, `{"role":"generic","content":"Q2"}`, "'generic'"},
			{"a tool's name", `"name":"look","parameters"`, `"name":"look up","parameters"`, "Function name was look up"},
		},
		Gemini.Name: {
			{"a result without its call", `{"role":"model","parts":[{"text":"T"},{"functionCall":{"name":"look","args":{}}}]},`, ``, "function response turn comes immediately after a function call turn"},
			{"a message between the two", `{"role":"user","parts":[{"functionResponse"`, `{"role":"user","parts":[{"text":"M"}]},{"role":"user","parts":[{"functionResponse"`, "number of function response parts is equal"},
			{"two calls, one result", `{"functionCall":{"name":"look","args":{}}}`, `{"functionCall":{"name":"look","args":{}}},{"functionCall":{"name":"look","args":{}}}`, "number of function response parts is equal"},
			{"a call after the model's own turn", `{"role":"model","parts":[{"text":"T"},`, `{"role":"model","parts":[{"text":"T"}]},{"role":"model","parts":[`, "function call turn comes immediately after a user turn"},
			{"a result without a name", `"functionResponse":{"name":"look"`, `"functionResponse":{"name":""`, "Name cannot be empty"},
			{"no parts", `[{"text":"Q2"}]`, `[]`, "contents.parts must not be empty"},
			{"an empty part", `{"text":"Q2"}`, `{}`, "must have one initialized field"},
			{"an empty text", `{"text":"Q2"}`, `{"text":""}`, "empty text parameter"},
			{"an unknown role", `{"role":"user","parts":[{"text":"Q2"}]}`, `{"role":"tool","parts":[{"text":"Q2"}]}`, "valid role: user, model"},
			{"no contents", formats[Gemini.Name].well, `{}`, "contents is not specified"},
			{"a schema without properties", `,"properties":{"x":{"type":1}}`, ``, "should be non-empty for OBJECT type"},
			{"a property without a type", `{"x":{"type":1}}`, `{"x":{}}`, "properties[x].type"},
			{"an array without items", `{"x":{"type":1}}`, `{"x":{"type":5}}`, "items: missing field"},
			{"an unknown keyword", `{"x":{"type":1}}`, `{"x":{"type":1,"title":"X"}}`, `Unknown name "title"`},
			{"a tool twice", `"functionDeclarations":[`, `"functionDeclarations":[{"name":"look"},`, "Duplicate function declaration"},
			{"a tool's name", `{"name":"look","parameters"`, `{"name":"look up","parameters"`, "Invalid function name"},
		},
		Ollama.Name: {
			{"no model", `"model":"m",`, ``, "model is required"},
			{"a content that is no string", `"content":"Q2"`, `"content":["Q2"]`, "cannot unmarshal"},
		},
		Cohere.Name: {{"no prompt", `"prompt":"Q2"`, `"prompt":""`, "at least 1 token"}},
	}
	for _, p := range Providers {
		require.NotEmpty(t, rows[p.Name], "%s has no rows", p.Name)
		for _, row := range rows[p.Name] {
			t.Run(p.Name+"/"+row.name, func(t *testing.T) {
				body := strings.Replace(formats[p.Name].well, row.old, row.new, 1)
				require.NotEqual(t, formats[p.Name].well, body, "the row changes nothing")
				status, answer, e := post(t, p, body)
				assert.Equal(t, http.StatusBadRequest, status)
				assert.Contains(t, e.Refused, row.want)
				var said object
				require.NoError(t, json.Unmarshal([]byte(answer), &said))
				assert.Contains(t, said, errorKey[p.Name], "the service's kind of error")
			})
		}
	}
}

// refusedRow changes one thing in a request that is served.
type refusedRow struct{ name, old, new, want string }

// errorKey is where a service puts its error.
var errorKey = map[string]string{
	OpenAI.Name: "error", OpenAIReasoning.Name: "error", Anthropic.Name: "error", Gemini.Name: "error", Ollama.Name: "error",
	Bedrock.Name: "message", Mistral.Name: "message", Cohere.Name: "message",
}

// TestUnauthorised: every service that has credentials asks for one.
func TestUnauthorised(t *testing.T) {
	for _, p := range Providers {
		f := formats[p.Name]
		if f.header == nil {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			server := p.Serve(func(Prompt) Reply { return Reply{} })
			defer server.Close()
			resp, err := http.Post(server.http.URL+f.path, "application/json", strings.NewReader(f.well))
			require.NoError(t, err)
			defer resp.Body.Close()
			assert.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, resp.StatusCode)
		})
	}
}

// TestStop: a reply ends before a stop sequence.
func TestStop(t *testing.T) {
	assert.Equal(t, "Action Input: x", Reply{Text: "Action Input: x\nObservation: y"}.cutAt([]string{"\nObservation:", "\n\tObservation:"}).Text)
	assert.Equal(t, []string{"One", " moment,", "\nplease."}, pieces("One moment,\nplease."))
}
