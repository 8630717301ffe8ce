package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/skillbay/skillbay"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/prompts"
	"github.com/tmc/langchaingo/schema"
)

// historyKey is the memory variable under which agents find the past.
const historyKey = "history"

// conversation is langchaingo's memory of one customer, in the database. Its
// SaveContext writes the question, the answer and skillbay's State in one
// transaction. One conversation serves one run at a time, as its State does.
type conversation struct {
	store  *store
	id     string
	render func([]row) (string, error) // rows as the agent's kind wants them
}

var _ schema.Memory = (*conversation)(nil)

// GetMemoryKey returns the key of the past.
func (c *conversation) GetMemoryKey(context.Context) string { return historyKey }

// MemoryVariables returns the one key that this memory fills.
func (c *conversation) MemoryVariables(context.Context) []string { return []string{historyKey} }

// LoadMemoryVariables returns the rows so far. Executors take texts only
// (agents/executor.go:176-188), so the rows travel as one text.
func (c *conversation) LoadMemoryVariables(ctx context.Context, _ map[string]any) (map[string]any, error) {
	rows, err := c.store.rows(ctx, c.id)
	if err != nil {
		return nil, err
	}
	text, err := c.render(rows)
	return map[string]any{historyKey: text}, err
}

// SaveContext writes one turn together with the State of ctx. chains.Call
// calls it once the run has succeeded.
func (c *conversation) SaveContext(ctx context.Context, inputs, outputs map[string]any) error {
	st, ok := skillbay.StateFrom(ctx)
	if !ok {
		return errors.New("the run had no State")
	}
	question, answer := fmt.Sprint(inputs["input"]), fmt.Sprint(outputs["output"])
	return c.store.saveTurn(ctx, c.id, st, row{Role: "human", Text: question}, row{Role: "ai", Text: answer})
}

// Clear is not offered: a conversation is forgotten by the store.
func (c *conversation) Clear(context.Context) error {
	return errors.New("a conversation is not cleared through its memory")
}

// rowsAsJSON renders rows for history, which turns them into messages again.
func rowsAsJSON(rows []row) (string, error) {
	text, err := json.Marshal(rows)
	return string(text), err
}

// rowsAsText renders rows for agents whose prompt is one text, and for summaries.
func rowsAsText(rows []row) (string, error) {
	var b strings.Builder
	for _, r := range rows {
		name := map[string]string{"human": "Human", "ai": "AI"}[r.Role]
		fmt.Fprintf(&b, "%s: %s\n", name, r.Text)
	}
	return b.String(), nil
}

// history puts the rows of the conversation into the functions agent's prompt
// as messages of their own. langchaingo's placeholder cannot: executors hand
// agents texts, and it wants messages.
type history struct{}

var _ prompts.MessageFormatter = history{}

// GetInputVariables returns the variable that the memory fills.
func (history) GetInputVariables() []string { return []string{historyKey} }

// FormatMessages reads the rows back from their text.
func (history) FormatMessages(values map[string]any) ([]llms.ChatMessage, error) {
	text, _ := values[historyKey].(string)
	var rows []row
	if err := json.Unmarshal([]byte(text), &rows); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	messages := make([]llms.ChatMessage, len(rows))
	for i, r := range rows {
		if r.Role == "ai" {
			messages[i] = llms.AIChatMessage{Content: r.Text}
		} else {
			messages[i] = llms.HumanChatMessage{Content: r.Text}
		}
	}
	return messages, nil
}
