package peers

import (
	"context"
	"fmt"
	"strings"

	"github.com/skillbay/skillbay"
	"github.com/tmc/langchaingo/llms"
)

// filler is the text of a message whose contents do not matter: 400 bytes.
var filler = strings.Repeat("The parcel left the depot on time. ", 12)[:400]

// Messages of the conversation that the Call rows have in common.
const (
	callMessages = 200
	callActive   = 3
)

// Conversation is a conversation under way with skillbay.
type Conversation struct {
	mw      *skillbay.Middleware
	ctx     context.Context
	state   *skillbay.State
	history []llms.MessageContent
}

// NewMiddleware loads a tree with a default Config.
func NewMiddleware(tree Tree) (*skillbay.Middleware, error) {
	return skillbay.New(skillbay.Config{Skills: []skillbay.Source{skillbay.Dir(tree.Dir)}})
}

// converse begins a conversation in which the model launches the first active
// skills of mw, each in an answer of its own, after a number of earlier
// messages. The current turn is that of the launches, and the history ends with
// the last one's answer.
func converse(mw *skillbay.Middleware, earlier, active int) (*Conversation, error) {
	c := &Conversation{mw: mw, state: skillbay.NewState()}
	c.ctx = skillbay.WithState(context.Background(), c.state)
	c.fill(earlier)
	c.history = append(c.history, human("Hello, I have some questions."))
	if _, err := mw.BeforeModel(c.ctx, c.history); err != nil {
		return nil, err
	}
	for i := range active {
		call := toolCall(fmt.Sprintf("call-%d", i), "skill", fmt.Sprintf(`{"skill":%q}`, SkillName(i)))
		c.history = append(c.history, answer(call))
		result, err := mw.CallTool(c.ctx, c.history, call, nil)
		if err != nil {
			return nil, err
		}
		c.history = append(c.history, result)
	}
	if got := c.state.Active(); len(got) != active {
		return nil, fmt.Errorf("%d skills are active, not %d: %q", len(got), active, got)
	}
	return c, nil
}

// fill appends n messages of 400 bytes, of the user's and the model's in turn.
func (c *Conversation) fill(n int) {
	for i := range n {
		role := llms.ChatMessageTypeHuman
		if i%2 == 1 {
			role = llms.ChatMessageTypeAI
		}
		c.history = append(c.history, llms.TextParts(role, filler))
	}
}

// Talk is a conversation with three active skills whose bodies stand early in
// it, and n messages in all: the last is the user's and waits for an answer.
// n is at least 10, and even.
func Talk(mw *skillbay.Middleware, n int) (*Conversation, error) {
	c, err := converse(mw, 0, callActive)
	if err != nil {
		return nil, err
	}
	c.history = append(c.history, llms.TextParts(llms.ChatMessageTypeAI, filler))
	c.fill(n - 1 - len(c.history))
	c.history = append(c.history, human("And the last one?"))
	if len(c.history) != n {
		return nil, fmt.Errorf("%d messages, not %d", len(c.history), n)
	}
	_, err = c.mw.BeforeModel(c.ctx, c.history) // begins the turn
	return c, err
}

// History is the conversation's messages. The caller must not change them.
func (c *Conversation) History() []llms.MessageContent { return c.history }

// Bytes is the text of the history.
func (c *Conversation) Bytes() (n int) {
	for _, m := range c.history {
		for _, part := range m.Parts {
			switch p := part.(type) {
			case llms.TextContent:
				n += len(p.Text)
			case llms.ToolCallResponse:
				n += len(p.Content)
			}
		}
	}
	return n
}

// BeforeModel is the operation of preparing one model call.
func (c *Conversation) BeforeModel() Op {
	return func() error {
		_, err := c.mw.BeforeModel(c.ctx, c.history)
		return err
	}
}

func human(text string) llms.MessageContent {
	return llms.TextParts(llms.ChatMessageTypeHuman, text)
}

func answer(call llms.ToolCall) llms.MessageContent {
	return llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{call}}
}

func toolCall(id, tool, input string) llms.ToolCall {
	return llms.ToolCall{ID: id, Type: "function", FunctionCall: &llms.FunctionCall{Name: tool, Arguments: input}}
}

// textOf joins the texts of messages.
func textOf(messages []llms.MessageContent) string {
	var b strings.Builder
	for _, m := range messages {
		for _, part := range m.Parts {
			switch p := part.(type) {
			case llms.TextContent:
				b.WriteString(p.Text)
			case llms.ToolCallResponse:
				b.WriteString(p.Content)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}
