package wire

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/cohere"
)

// Cohere is Cohere's generate API, the one that langchaingo's client speaks: a
// prompt in, a text out. https://docs.cohere.com/reference/generate-v1
var Cohere = Provider{Name: "Cohere", judge: generateAPI{}, dial: func(url string) (llms.Model, error) {
	return cohere.New(cohere.WithBaseURL(url), cohere.WithToken("token"), cohere.WithModel("command"))
}}

type generateAPI struct{}

func (generateAPI) read(r *http.Request, body []byte) (Exchange, error) {
	e, err := split(body, "messages")
	if err != nil {
		return e, err
	}
	if r.URL.Path != "/v1/generate" {
		return e, &refusal{status: http.StatusNotFound, message: "page not found"}
	}
	if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		return e, &refusal{status: http.StatusUnauthorized, message: "no api key supplied"}
	}
	var req struct {
		Prompt string   `json:"prompt"`
		Stop   []string `json:"stop_sequences"`
		Stream bool     `json:"stream"`
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return e, refuse("invalid json syntax: %v", err)
	}
	if req.Prompt == "" { // "prompt (string, required)"
		return e, refuse("invalid request: prompt must be at least 1 token long.")
	}
	e.Stream = req.Stream
	e.Messages = []json.RawMessage{e.Rest["prompt"]}
	delete(e.Rest, "prompt")
	e.Prompt = Prompt{Stop: req.Stop, Items: []Item{{Kind: User, Text: req.Prompt}}}
	return e, nil
}

func (generateAPI) refuse(w http.ResponseWriter, why *refusal) {
	writeJSON(w, why.status, object{"message": why.message})
}

func (generateAPI) answer(w http.ResponseWriter, e Exchange, r Reply, _ func() int) {
	writeJSON(w, http.StatusOK, object{
		"id": "1", "generations": []object{{"id": "2", "text": r.Text, "finish_reason": "COMPLETE"}},
		"meta": object{"billed_units": object{"input_tokens": e.Prompt.tokens(), "output_tokens": r.tokens()}},
	})
}
