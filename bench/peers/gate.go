package peers

import (
	"context"
	"errors"
	"fmt"

	"github.com/skillbay/skillbay"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/tools"
)

// Gate is a conversation of n messages in whose current turn three skills are
// launched, with an allowed call of a tool about to run. Its operations come in
// pairs: what the call costs with skillbay, and the floor without it.
type Gate struct {
	talk          *Conversation
	direct        context.Context // of a conversation whose tools are called directly
	bare, wrapped tools.Tool
	call          llms.ToolCall
	observed      llms.MessageContent
}

// gatedInput is an input that the skills of a Limited tree allow for Read.
const gatedInput = `{"id":"A1"}`

// NewGate begins such a conversation with the skills of mw, which come from a
// Limited tree.
func NewGate(mw *skillbay.Middleware, n int) (*Gate, error) {
	const launches = 1 + 2*callActive // the user's message, and a call and its answer a launch
	talk, err := converse(mw, n-launches-1, callActive)
	if err != nil {
		return nil, err
	}
	g := &Gate{talk: talk, bare: readTool{}, call: toolCall("read", "Read", gatedInput)}
	wrapped, err := mw.WrapTools(g.bare)
	if err != nil {
		return nil, err
	}
	g.wrapped = wrapped[0]
	if g.direct, err = directly(mw); err != nil {
		return nil, err
	}
	talk.history = append(talk.history, answer(g.call))
	return g, nil
}

// CallTool is the way of loops: the history is looked at too.
func (g *Gate) CallTool() Op {
	return func() error {
		result, err := g.talk.mw.CallTool(g.talk.ctx, g.talk.history, g.call, g.next)
		if err != nil {
			return err
		}
		return ran(result)
	}
}

// BareCall is CallTool's floor: the call runs and its message is made.
func (g *Gate) BareCall() Op {
	return func() error {
		text, err := g.next(g.talk.ctx, g.call)
		g.observed = llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{
			llms.ToolCallResponse{ToolCallID: g.call.ID, Name: g.call.FunctionCall.Name, Content: text},
		}}
		return err
	}
}

// directly is a conversation in which the host launched three skills and no
// model answer asks for calls: each call of a wrapped tool stands alone. Were it
// a turn with an answer, every further call would be kept as one more of it, and
// no two measured calls would be the same.
func directly(mw *skillbay.Middleware) (context.Context, error) {
	st := skillbay.NewState()
	ctx := skillbay.WithState(context.Background(), st)
	for i := range callActive {
		if err := mw.Invoke(ctx, SkillName(i), ""); err != nil {
			return nil, err
		}
	}
	if got := len(st.Active()); got != callActive {
		return nil, fmt.Errorf("%d skills are active, not %d", got, callActive)
	}
	return ctx, mw.BeginTurn(ctx)
}

// Tool is the way of executors: a wrapped tool, which sees no history. It is
// called outside a run, under three skills that the host launched.
func (g *Gate) Tool() Op { return g.callOf(g.wrapped) }

// BareTool is Tool's floor.
func (g *Gate) BareTool() Op { return g.callOf(g.bare) }

func (g *Gate) callOf(t tools.Tool) Op {
	return func() error {
		text, err := t.Call(g.direct, gatedInput)
		if err == nil && text != "ok" {
			err = errors.New("the call was blocked: " + text)
		}
		return err
	}
}

func (g *Gate) next(ctx context.Context, _ llms.ToolCall) (string, error) {
	return g.bare.Call(ctx, gatedInput)
}

// ran reports a call that the gate did not let run.
func ran(result llms.MessageContent) error {
	if r, ok := result.Parts[0].(llms.ToolCallResponse); !ok || r.Content != "ok" {
		return errors.New("the call was blocked: " + textOf([]llms.MessageContent{result}))
	}
	return nil
}

// readTool is a tool that does nothing.
type readTool struct{}

func (readTool) Name() string                                 { return "Read" }
func (readTool) Description() string                          { return "Reads an order." }
func (readTool) Call(context.Context, string) (string, error) { return "ok", nil }
