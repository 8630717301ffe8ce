package main

import (
	"context"
	"errors"

	"github.com/skillbay/skillbay"
	"github.com/tmc/langchaingo/llms"
)

// summarise replaces all rows but those of the last keep turns by one, written
// by the model, and returns it; "" when there is nothing to replace. The row is
// made with Reminder, so that no reader takes it for something a customer said.
func (b *bot) summarise(ctx context.Context, keep int) (string, error) {
	rows, err := b.store.rows(ctx, b.conversation.id)
	if err != nil || len(rows) <= 2*keep {
		return "", err
	}
	old := rows[:len(rows)-2*keep]
	past, err := rowsAsText(old)
	if err != nil {
		return "", err
	}
	// The bare model, without skillbay: a summary needs no skills.
	answer, err := b.model.GenerateContent(ctx, []llms.MessageContent{
		llms.TextParts(llms.ChatMessageTypeSystem, b.words.summarySystem),
		llms.TextParts(llms.ChatMessageTypeHuman, past),
	})
	if err != nil {
		return "", err
	}
	if len(answer.Choices) == 0 {
		return "", errors.New("the model gave no summary")
	}
	summary := answer.Choices[0].Content
	reminder, err := b.mw.Reminder(skillbay.WithState(ctx, b.state), summary)
	if err != nil {
		return "", err
	}
	by := row{Role: "human", Text: textOf(reminder)}
	return summary, b.store.replaceRows(ctx, b.conversation.id, b.state, old, by)
}
