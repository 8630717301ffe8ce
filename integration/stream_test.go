package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/tools"

	"github.com/skillbay/skillbay"
	"github.com/skillbay/skillbay/integration/wire"
)

// chunks collects what a streaming function gets.
type chunks []string

func (c *chunks) take(_ context.Context, chunk []byte) error {
	*c = append(*c, string(chunk))
	return nil
}

// TestStreamedAnswer: a wrapped model streams the same chunks and returns the
// same answer as the bare client, and asks for a stream exactly when that does.
func TestStreamedAnswer(t *testing.T) {
	replies := map[string]wire.Reply{
		"text": {Text: "One moment, please."},
		"calls": {Text: "Let me see.", Calls: []wire.ToolCall{
			{Name: "lookup", Arguments: arguments(object{"id": "A1"})}, {Name: "lookup", Arguments: arguments(object{"id": "A2"})},
		}},
	}
	for _, p := range wire.Providers {
		for name, reply := range replies {
			for _, streaming := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/%t", p.Name, name, streaming), func(t *testing.T) {
					if len(reply.Calls) > 0 && p.Name == wire.Bedrock.Name && streaming {
						t.Skip("the client loses the calls: see TestLostCalls")
					}
					mw := newMiddleware(t, nil)
					answer := func(wrap func(llms.Model) llms.Model) (*llms.ContentResponse, chunks, bool) {
						server := p.Serve(func(wire.Prompt) wire.Reply { return reply })
						defer server.Close()
						llm, err := server.Client()
						require.NoError(t, err)
						var got chunks
						options := []llms.CallOption{llms.WithTools(deskTools(mw))}
						if streaming {
							options = append(options, llms.WithStreamingFunc(got.take))
						}
						resp, err := wrap(llm).GenerateContent(
							skillbay.WithState(context.Background(), skillbay.NewState()),
							[]llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "Hello")}, options...)
						require.NoError(t, err)
						return resp, got, server.Exchanges()[0].Stream
					}
					want, wantChunks, wantStream := answer(func(m llms.Model) llms.Model { return m })
					got, gotChunks, gotStream := answer(mw.WrapModel)
					assert.Equal(t, wantChunks, gotChunks)
					assert.Equal(t, wantStream, gotStream)
					require.Len(t, got.Choices, len(want.Choices))
					for i, choice := range got.Choices {
						assert.Equal(t, want.Choices[i].Content, choice.Content)
						assert.Equal(t, want.Choices[i].ToolCalls, choice.ToolCalls)
						assert.Equal(t, want.Choices[i].StopReason, choice.StopReason)
						assert.Equal(t, keys(want.Choices[i].GenerationInfo), keys(choice.GenerationInfo), "usage figures")
					}
				})
			}
		}
	}
}

func keys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// TestStreamedRun: so does a wrapped executor.
func TestStreamedRun(t *testing.T) {
	agentOf := map[string]func(llms.Model, []tools.Tool) agents.Agent{
		functions.name: functionsAgent, mrkl.name: mrklAgent, conversational.name: conversationalAgent,
	}
	hello := func(p wire.Prompt) wire.Reply { return hear(p).say("Hello there, friend.") }
	for _, p := range wire.Providers {
		for name, agent := range agentOf {
			for _, streaming := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/%t", p.Name, name, streaming), func(t *testing.T) {
					if remarks[cell{p.Name, name}].seen == "sends no tools" {
						t.Skip("WrapExecutor refuses the agent: see TestToollessClients")
					}
					run := func(wrap func(*agents.Executor) chains.Chain) (chunks, bool) {
						server := p.Serve(hello)
						defer server.Close()
						llm, err := server.Client()
						require.NoError(t, err)
						var got chunks
						options := slices.Clone(remarks[cell{p.Name, name}].options)
						if streaming {
							options = append(options, chains.WithStreamingFunc(got.take))
						}
						out, err := chains.Call(skillbay.WithState(context.Background(), skillbay.NewState()),
							wrap(deskAgent(agent, llm)), map[string]any{"input": "Hello", "history": "none"}, options...)
						require.NoError(t, err)
						assert.Contains(t, fmt.Sprint(out["output"]), "Hello there, friend.")
						return got, server.Exchanges()[0].Stream
					}
					wantChunks, wantStream := run(func(e *agents.Executor) chains.Chain { return e })
					gotChunks, gotStream := run(func(e *agents.Executor) chains.Chain {
						exec, err := newMiddleware(t, nil).WrapExecutor(e)
						require.NoError(t, err)
						return exec
					})
					assert.Equal(t, wantChunks, gotChunks)
					assert.Equal(t, wantStream, gotStream)
				})
			}
		}
	}
}
