package skillbay

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/tools"
)

// request is what a scripted model was sent.
type request struct {
	messages []llms.MessageContent
	options  llms.CallOptions
}

// text is all that a provider would pass to its model.
func (r request) text() string {
	var b strings.Builder
	for _, m := range r.messages {
		for _, part := range m.Parts {
			switch p := part.(type) {
			case llms.TextContent:
				b.WriteString(p.Text)
			case llms.ToolCallResponse:
				b.WriteString(p.Content)
			case llms.ToolCall:
				b.WriteString(nameOf(p) + inputOf(p))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func (r request) toolNames() []string {
	var names []string
	for _, t := range r.options.Tools {
		names = append(names, t.Function.Name)
	}
	return names
}

// script is an llms.Model that records what it is sent and answers from steps,
// then with "done".
type script struct {
	mu       sync.Mutex
	steps    []func(request) *llms.ContentResponse
	requests []request
}

func (s *script) GenerateContent(
	_ context.Context, messages []llms.MessageContent, options ...llms.CallOption,
) (*llms.ContentResponse, error) {
	r := request{messages: slices.Clone(messages)}
	for _, o := range options {
		o(&r.options)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	if len(s.steps) == 0 {
		return say("done"), nil
	}
	step := s.steps[0]
	s.steps = s.steps[1:]
	return step(r), nil
}

func (s *script) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, s, prompt, options...)
}

func (s *script) last() request { return s.requests[len(s.requests)-1] }

func (s *script) then(answers ...*llms.ContentResponse) *script {
	for _, a := range answers {
		s.steps = append(s.steps, func(request) *llms.ContentResponse { return a })
	}
	return s
}

func say(text string) *llms.ContentResponse {
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: text}}}
}

var callIDs = func() func() string {
	var mu sync.Mutex
	n := 0
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		n++
		return "call_" + strconv.Itoa(n)
	}
}()

func toolCall(name, arguments string) llms.ToolCall {
	return llms.ToolCall{ID: callIDs(), Type: "function", FunctionCall: &llms.FunctionCall{Name: name, Arguments: arguments}}
}

func skillCall(name, args string) llms.ToolCall {
	object := map[string]string{"skill": name}
	if args != "" {
		object["args"] = args
	}
	data, _ := json.Marshal(object)
	return toolCall(toolSkill, string(data))
}

func calls(list ...llms.ToolCall) *llms.ContentResponse {
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{ToolCalls: list}}}
}

func human(text string) llms.MessageContent { return llms.TextParts(llms.ChatMessageTypeHuman, text) }

// echo is a tool that records its inputs.
type echo struct {
	name string
	mu   sync.Mutex
	ran  []string
}

func (e *echo) Name() string        { return e.name }
func (e *echo) Description() string { return "echoes its input" }
func (e *echo) Call(_ context.Context, input string) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ran = append(e.ran, input)
	return e.name + " ran " + input, nil
}

var _ tools.Tool = (*echo)(nil)

// skillFS makes a source of skills from SKILL.md texts.
func skillFS(files map[string]string) Source {
	fsys := fstest.MapFS{}
	for path, text := range files {
		if !strings.Contains(path, "/") {
			path += "/SKILL.md"
		}
		fsys[path] = &fstest.MapFile{Data: []byte(text)}
	}
	return FS(fsys, ".")
}

// bay is a Middleware and what its host saw.
type bay struct {
	*Middleware
	mu     sync.Mutex
	events []Event
}

func newBay(t testing.TB, cfg Config, files map[string]string) *bay {
	t.Helper()
	b := &bay{}
	if files != nil {
		cfg.Skills = []Source{skillFS(files)}
	}
	cfg.Audit = func(_ context.Context, e Event) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.events = append(b.events, e)
	}
	mw, err := New(cfg)
	require.NoError(t, err)
	b.Middleware = mw
	return b
}

func (b *bay) types() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var types []string
	for _, e := range b.events {
		types = append(types, e.Type)
	}
	return types
}

// loop is a hand-written loop over a wrapped model.
type loop struct {
	t       testing.TB
	bay     *bay
	script  *script
	model   llms.Model
	state   *State
	base    context.Context //nolint:containedctx // of the request; nil: one of its own
	history []llms.MessageContent
	ran     []string
	mu      sync.Mutex
}

func newLoop(t testing.TB, b *bay) *loop {
	s := &script{}
	return &loop{t: t, bay: b, script: s, model: b.WrapModel(s), state: NewState()}
}

func (l *loop) ctx() context.Context {
	if l.base != nil {
		return l.base
	}
	return WithState(context.Background(), l.state)
}

var userTools = []llms.Tool{
	{Type: "function", Function: &llms.FunctionDefinition{Name: "Read", Parameters: map[string]any{"type": "object"}}},
	{Type: "function", Function: &llms.FunctionDefinition{Name: "Write", Parameters: map[string]any{"type": "object"}}},
}

func (l *loop) next(_ context.Context, call llms.ToolCall) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ran = append(l.ran, nameOf(call))
	return nameOf(call) + " ran", nil
}

// ask sends the history and answers tool calls until the model has none.
func (l *loop) ask(text string, answers ...*llms.ContentResponse) {
	l.t.Helper()
	if text != "" {
		l.history = append(l.history, human(text))
	}
	l.script.then(answers...)
	for {
		if !l.step() {
			return
		}
	}
}

// step makes one model call and runs its tool calls.
func (l *loop) step() bool {
	l.t.Helper()
	resp, err := l.model.GenerateContent(l.ctx(), l.history, llms.WithTools(userTools))
	require.NoError(l.t, err)
	ai, tc := Answer(resp)
	l.history = append(l.history, ai)
	if len(tc) == 0 {
		return false
	}
	results, err := l.bay.CallTools(l.ctx(), l.history, tc, l.next)
	require.NoError(l.t, err)
	l.history = append(l.history, results...)
	return true
}

// observations are the texts of the last n tool messages.
func (l *loop) observations(n int) []string {
	var out []string
	for _, m := range l.history {
		for _, part := range m.Parts {
			if r, ok := part.(llms.ToolCallResponse); ok {
				out = append(out, r.Content)
			}
		}
	}
	return out[len(out)-n:]
}

// desk is a small set of business skills.
var desk = map[string]string{
	"refund":   "---\ndescription: Refund an order\nallowed-tools: Read\narguments: order\n---\nRefund order $order carefully.\n",
	"shipping": "---\ndescription: Track a parcel\n---\nLook up the parcel with Read.\n",
	"policy":   "---\ndescription: House rules\n---\nBe kind. See references/rules.md.\n",

	"policy/references/rules.md": "Rule one: smile.\n",
}

func textLogger(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }
