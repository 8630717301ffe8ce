package integration

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/memory"
	"github.com/tmc/langchaingo/prompts"
	"github.com/tmc/langchaingo/tools"

	"github.com/skillbay/skillbay"
)

// worker holds one conversation over a model: an agent's executor, or a loop
// of the host's own.
type worker interface {
	// ask is one turn. stream may be nil.
	ask(ctx context.Context, text string, stream func(context.Context, []byte) error) (string, error)
	// summarise puts a summary in the place of the history.
	summarise(ctx context.Context, summary string) error
	// restart is the same conversation in another process.
	restart(t testing.TB, mw *skillbay.Middleware, llm llms.Model) (worker, error)
}

// kind is a way to build an agent.
type kind struct {
	name  string
	react bool // one prompt, no tools on the wire
	hire  func(t testing.TB, mw *skillbay.Middleware, llm llms.Model, options ...chains.ChainCallOption) (worker, error)
}

// Kinds, in the order of the table. The two loops share a column: what holds
// must hold for a host that keeps whole histories, and for one that keeps what
// was said.
var (
	functions      = kind{"functions agent", false, hireExecutor(functionsAgent)}
	mrkl           = kind{"MRKL agent", true, hireExecutor(mrklAgent)}
	conversational = kind{"conversational agent", true, hireExecutor(conversationalAgent)}
	loop           = kind{"loop of your own", false, hireLoop(true)}
	forgetfulLoop  = kind{"loop of your own", false, hireLoop(false)}

	kinds = []kind{functions, mrkl, conversational, loop, forgetfulLoop}
)

// functionsAgent is langchaingo's functions agent, told the history in a
// message of its own: its default prompt has none.
func functionsAgent(llm llms.Model, list []tools.Tool) agents.Agent {
	history := prompts.NewHumanMessagePromptTemplate("Earlier:\n{{.history}}", []string{"history"})
	return agents.NewOpenAIFunctionsAgent(llm, list,
		agents.NewOpenAIOption().WithSystemMessage("You work at the desk."),
		agents.NewOpenAIOption().WithExtraMessages([]prompts.MessageFormatter{history}))
}

func mrklAgent(llm llms.Model, list []tools.Tool) agents.Agent {
	return agents.NewOneShotAgent(llm, list)
}

func conversationalAgent(llm llms.Model, list []tools.Tool) agents.Agent {
	return agents.NewConversationalAgent(llm, list)
}

// deskAgent makes an executor over new tools.
func deskAgent(make func(llms.Model, []tools.Tool) agents.Agent, llm llms.Model) *agents.Executor {
	return agents.NewExecutor(make(llm, []tools.Tool{&lookup{}, &note{}}), agents.WithMaxIterations(8))
}

// executorWorker is a wrapped executor with its conversation's memory.
type executorWorker struct {
	make    func(llms.Model, []tools.Tool) agents.Agent
	exec    *skillbay.Executor
	memory  *memory.ConversationBuffer
	options []chains.ChainCallOption
}

func hireExecutor(make func(llms.Model, []tools.Tool) agents.Agent) func(
	testing.TB, *skillbay.Middleware, llms.Model, ...chains.ChainCallOption) (worker, error) {
	return func(_ testing.TB, mw *skillbay.Middleware, llm llms.Model, options ...chains.ChainCallOption) (worker, error) {
		w := &executorWorker{make: make, memory: memory.NewConversationBuffer(), options: options}
		var err error
		w.exec, err = mw.WrapExecutor(deskAgent(make, llm))
		return w, err
	}
}

func (w *executorWorker) ask(ctx context.Context, text string, stream func(context.Context, []byte) error) (string, error) {
	options := slices.Clone(w.options)
	if stream != nil {
		options = append(options, chains.WithStreamingFunc(stream))
	}
	return chains.Run(ctx, w.exec.WithMemory(w.memory), text, options...)
}

func (w *executorWorker) summarise(ctx context.Context, summary string) error {
	w.memory = memory.NewConversationBuffer()
	return w.memory.ChatHistory.AddAIMessage(ctx, summary)
}

func (w *executorWorker) restart(_ testing.TB, mw *skillbay.Middleware, llm llms.Model) (worker, error) {
	again := *w
	var err error
	again.exec, err = mw.WrapExecutor(deskAgent(w.make, llm))
	return &again, err
}

// loopWorker is a hand-written loop.
type loopWorker struct {
	t       testing.TB
	mw      *skillbay.Middleware
	model   llms.Model
	history []llms.MessageContent
	whole   bool // it keeps tool calls and their answers, not only what was said
}

func hireLoop(whole bool) func(testing.TB, *skillbay.Middleware, llms.Model, ...chains.ChainCallOption) (worker, error) {
	return func(t testing.TB, mw *skillbay.Middleware, llm llms.Model, _ ...chains.ChainCallOption) (worker, error) {
		return &loopWorker{
			t: t, mw: mw, model: mw.WrapModel(llm), whole: whole,
			history: []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeSystem, "You work at the desk.")},
		}, nil
	}
}

// own are the tools that the loop offers: skillbay adds its own.
func own(mw *skillbay.Middleware) []llms.Tool { return deskTools(mw)[:2:2] }

func (w *loopWorker) ask(ctx context.Context, text string, stream func(context.Context, []byte) error) (string, error) {
	began := len(w.history)
	w.history = append(w.history, llms.TextParts(llms.ChatMessageTypeHuman, text))
	offered := own(w.mw)
	options := make([]llms.CallOption, 0, 8) // room to append to, which nobody may
	options = append(options, llms.WithTools(offered), llms.WithStreamingFunc(stream))
	for range 8 {
		was := cloneMessages(w.history)
		resp, err := w.model.GenerateContent(ctx, w.history, options...)
		require.Equal(w.t, was, w.history, "the caller's messages were changed")
		require.Equal(w.t, own(w.mw), offered, "the caller's tools were changed")
		require.True(w.t, reflect.ValueOf(options[:3]).Index(2).IsNil(), "the caller's options were changed")
		if err != nil {
			return "", err
		}
		ai, calls := skillbay.Answer(resp)
		w.history = append(w.history, ai)
		if len(calls) == 0 {
			answer := resp.Choices[0].Content
			if !w.whole {
				w.history = append(w.history[:began:began],
					llms.TextParts(llms.ChatMessageTypeHuman, text), llms.TextParts(llms.ChatMessageTypeAI, answer))
			}
			return answer, nil
		}
		results, err := w.mw.CallTools(ctx, w.history, calls, runTool)
		if err != nil {
			return "", err
		}
		w.history = append(w.history, results...)
	}
	return "", fmt.Errorf("the model never came to an end")
}

// runTool runs the desk's tools for a loop.
func runTool(_ context.Context, call llms.ToolCall) (string, error) {
	return "found: " + call.FunctionCall.Arguments, nil
}

func (w *loopWorker) summarise(ctx context.Context, summary string) error {
	m, err := w.mw.Reminder(ctx, summary)
	w.history = append(w.history[:1:1], m)
	return err
}

func (w *loopWorker) restart(t testing.TB, mw *skillbay.Middleware, llm llms.Model) (worker, error) {
	return &loopWorker{t: t, mw: mw, model: mw.WrapModel(llm), whole: w.whole, history: cloneMessages(w.history)}, nil
}

// cloneMessages is a deep copy.
func cloneMessages(messages []llms.MessageContent) []llms.MessageContent {
	out := slices.Clone(messages)
	for i := range out {
		out[i].Parts = slices.Clone(out[i].Parts)
		for n, part := range out[i].Parts {
			if call, ok := part.(llms.ToolCall); ok && call.FunctionCall != nil {
				f := *call.FunctionCall
				call.FunctionCall = &f
				out[i].Parts[n] = call
			}
		}
	}
	return out
}
