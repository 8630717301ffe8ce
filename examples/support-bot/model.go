package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tmc/langchaingo/llms"
)

// scripted is a model made of rules: deterministic, offline, and with nothing
// up its sleeve. It knows no story and keeps no memory between calls; all it
// has is the request. Without a listing it finds no skill, without a body it
// knows no procedure, without an answer it says nothing: so the demo fails
// whenever the middleware does. It is gullible, as models are: a customer who
// names a tool gets it called.
//
// The zero value is not usable; words are required. Safe for concurrent use.
type scripted struct {
	words        *words
	neverRelease bool // leaves out the rule that dismisses skills, to measure its worth
}

var _ llms.Model = scripted{}

// call is one tool call that the model decides on.
type call struct {
	tool string
	args map[string]string
}

// decision is one answer of the model: calls, or else text.
type decision struct {
	calls []call
	text  string
}

// Call answers one prompt.
func (m scripted) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, options...)
}

// GenerateContent answers with what the first rule that applies decides.
func (m scripted) GenerateContent(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := readRequest(messages, options, m.words.invokedMark)
	for _, decide := range rules {
		if d, ok := decide(m, r); ok {
			return d.response(r)
		}
	}
	return nil, errors.New("no rule applies")
}

// response writes a decision in langchaingo's form. Call ids are taken from the
// request, so that they differ from answer to answer and not from run to run.
func (d decision) response(r *request) (*llms.ContentResponse, error) {
	choice := &llms.ContentChoice{Content: d.text, StopReason: "stop"}
	seed := sha256.Sum256(fmt.Append(nil, r.question, r.steps, len(r.messages)))
	for i, c := range d.calls {
		args, err := json.Marshal(c.args)
		if err != nil {
			return nil, err
		}
		choice.ToolCalls = append(choice.ToolCalls, llms.ToolCall{
			ID: fmt.Sprintf("call_%x_%d", seed[:4], i), Type: "function",
			FunctionCall: &llms.FunctionCall{Name: c.tool, Arguments: string(args)},
		})
		choice.StopReason = "tool_calls"
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{choice}}, nil
}

// one returns the decision to call one tool.
func one(tool string, args map[string]string) decision {
	return decision{calls: []call{{tool, args}}}
}
