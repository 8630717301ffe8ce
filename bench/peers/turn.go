package peers

import (
	"context"
	"errors"

	"github.com/skillbay/skillbay"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/memory"
	"github.com/tmc/langchaingo/tools"
)

// Turn is a whole turn of langchaingo's executor with its functions agent: a
// question, one tool call and the answer. The model does nothing, so that what
// is left is langchaingo's work and skillbay's.
type Turn struct {
	ctx  context.Context
	exec chains.Chain
}

// BareTurn is a turn without skills.
func BareTurn() *Turn {
	return &Turn{ctx: context.Background(), exec: newExecutor()}
}

// NewTurn is the same turn with the skills of mw, none of them launched: in one
// conversation, whose State is kept from turn to turn as a service keeps it.
func NewTurn(mw *skillbay.Middleware) (*Turn, error) {
	exec, err := mw.WrapExecutor(newExecutor())
	if err != nil {
		return nil, err
	}
	return &Turn{ctx: skillbay.WithState(context.Background(), skillbay.NewState()), exec: exec}, nil
}

// NewActiveTurn is NewTurn with one skill launched before. langchaingo's memory
// keeps no tool calls, so its body is injected again in each turn.
func NewActiveTurn(mw *skillbay.Middleware) (*Turn, error) {
	t, err := NewTurn(mw)
	if err != nil {
		return nil, err
	}
	return t, mw.Invoke(t.ctx, SkillName(0), "")
}

func newExecutor() *agents.Executor {
	agent := agents.NewOpenAIFunctionsAgent(idleModel{}, []tools.Tool{readTool{}})
	return agents.NewExecutor(agent, agents.WithMemory(memory.NewSimple()))
}

// Run is the operation.
func (t *Turn) Run() Op {
	return func() error {
		text, err := chains.Run(t.ctx, t.exec, "Where is my order?")
		if err == nil && text != "done" {
			err = errors.New("the turn ended with " + text)
		}
		return err
	}
}

// idleModel calls Read, and says done once it has the answer.
type idleModel struct{}

func (idleModel) GenerateContent(_ context.Context, messages []llms.MessageContent, _ ...llms.CallOption) (*llms.ContentResponse, error) {
	choice := &llms.ContentChoice{Content: "done"}
	if messages[len(messages)-1].Role != llms.ChatMessageTypeTool {
		call := toolCall("read", "Read", gatedInput)
		choice = &llms.ContentChoice{ToolCalls: []llms.ToolCall{call}, FuncCall: call.FunctionCall}
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{choice}}, nil
}

func (idleModel) Call(context.Context, string, ...llms.CallOption) (string, error) {
	return "done", nil
}
