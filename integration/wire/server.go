package wire

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"

	"github.com/tmc/langchaingo/llms"
)

// Provider is a service that langchaingo has a client for.
type Provider struct {
	Name  string
	judge judge
	// dial makes langchaingo's client for a server at url.
	dial func(url string) (llms.Model, error)
}

// Providers are all providers, in the order of the table that the tests print.
var Providers = []Provider{OpenAI, OpenAIReasoning, Anthropic, Gemini, Bedrock, Mistral, Ollama, Cohere}

// judge is one provider's wire format and rules.
type judge interface {
	// read decodes a request into what the service passes to its model, or
	// returns a *refusal.
	read(r *http.Request, body []byte) (Exchange, error)
	// refuse writes the service's kind of error.
	refuse(w http.ResponseWriter, why *refusal)
	// answer writes a reply in the form that the request asked for. id makes
	// the ids of tool calls.
	answer(w http.ResponseWriter, e Exchange, r Reply, id func() int)
}

// refusal is why a request is not served.
type refusal struct {
	status  int
	message string
	param   string // the offending parameter, where the service names one
}

func (r *refusal) Error() string { return r.message }

// refuse makes a refusal of a bad request.
func refuse(format string, args ...any) error {
	return &refusal{status: http.StatusBadRequest, message: fmt.Sprintf(format, args...)}
}

// Exchange is one request and what came of it.
type Exchange struct {
	// Messages is the part of the request that grows with the conversation,
	// message by message, as it came.
	Messages []json.RawMessage
	// Rest is everything else in the request.
	Rest map[string]json.RawMessage
	// Prompt is what the model got.
	Prompt Prompt
	// Stream reports whether the client asked for a stream.
	Stream bool
	// Refused is the service's refusal; empty when it served.
	Refused string
	Reply   Reply
}

// Server is a provider on 127.0.0.1 with a script for its model.
type Server struct {
	provider Provider
	script   Script
	http     *httptest.Server

	mu        sync.Mutex
	exchanges []Exchange
	ids       int
}

// Serve starts a server. The caller closes it.
func (p Provider) Serve(script Script) *Server {
	s := &Server{provider: p, script: script}
	s.http = httptest.NewServer(s)
	return s
}

// Close stops the server.
func (s *Server) Close() { s.http.Close() }

// Client returns langchaingo's client for the server.
func (s *Server) Client() (llms.Model, error) { return s.provider.dial(s.http.URL) }

// Exchanges returns all that happened so far, in order.
func (s *Server) Exchanges() []Exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.exchanges)
}

// ServeHTTP judges one request and answers it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	e, err := s.provider.judge.read(r, body)
	if err != nil {
		why, ok := err.(*refusal)
		if !ok {
			why = &refusal{status: http.StatusBadRequest, message: err.Error()}
		}
		e.Refused = why.message
		s.note(e)
		s.provider.judge.refuse(w, why)
		return
	}
	e.Reply = s.script(e.Prompt).cutAt(e.Prompt.Stop)
	s.note(e)
	s.provider.judge.answer(w, e, e.Reply, s.nextID)
}

func (s *Server) note(e Exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exchanges = append(s.exchanges, e)
}

func (s *Server) nextID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids++
	return s.ids
}

// split decodes a request body into the list under key and everything else.
func split(body []byte, key string) (Exchange, error) {
	var e Exchange
	if err := json.Unmarshal(body, &e.Rest); err != nil {
		return e, refuse("the body is no JSON object: %v", err)
	}
	if list, ok := e.Rest[key]; ok {
		if err := json.Unmarshal(list, &e.Messages); err != nil {
			return e, refuse("%s: a list is expected", key)
		}
		delete(e.Rest, key)
	}
	return e, nil
}

// writeJSON writes a JSON response.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client has gone: nobody to tell
}

// object is a JSON object under construction.
type object = map[string]any

// text is the JSON of v, which is always encodable here.
func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}
