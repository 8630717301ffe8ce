package integration

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/memory"

	"github.com/skillbay/skillbay"
	"github.com/skillbay/skillbay/integration/wire"
)

// TestSharedValues: conversations that share a model, messages, options and
// tools do not see each other, and nothing shared is written to. It is for the
// race detector as much as for its assertions.
func TestSharedValues(t *testing.T) {
	const conversations = 4
	for _, p := range wire.Providers {
		t.Run(p.Name, func(t *testing.T) {
			server := p.Serve(func(wire.Prompt) wire.Reply { return wire.Reply{Text: "Hello."} })
			defer server.Close()
			llm, err := server.Client()
			require.NoError(t, err)
			mw := newMiddleware(t, nil)
			model := mw.WrapModel(llm)

			offered := own(mw)
			messages := make([]llms.MessageContent, 0, 8) // room to append to, which nobody may
			messages = append(messages,
				llms.TextParts(llms.ChatMessageTypeSystem, "You work at the desk."),
				llms.TextParts(llms.ChatMessageTypeHuman, "<system-reminder>Hello</system-reminder>"))
			was := cloneMessages(messages)
			options := make([]llms.CallOption, 0, 8)
			options = append(options, llms.WithTools(offered), llms.WithTemperature(0.5))

			var group sync.WaitGroup
			for range conversations {
				group.Add(1)
				go func() {
					defer group.Done()
					ctx := skillbay.WithState(context.Background(), skillbay.NewState())
					_, err := model.GenerateContent(ctx, messages, options...)
					assert.NoError(t, err)
				}()
			}
			group.Wait()
			assert.Equal(t, was, messages)
			assert.Equal(t, make([]llms.MessageContent, 6), messages[2:8], "written behind the caller's messages")
			assert.Nil(t, options[:8][2], "written behind the caller's options")
			assert.Equal(t, own(mw), offered)
			requests := server.Exchanges()
			require.Len(t, requests, conversations)
			for _, e := range requests {
				assert.Equal(t, requests[0].Messages, e.Messages)
				assert.Equal(t, requests[0].Rest, e.Rest)
			}
		})
	}
}

// TestSharedExecutor: one wrapped executor serves conversations at once.
func TestSharedExecutor(t *testing.T) {
	for _, p := range []wire.Provider{wire.OpenAI, wire.Anthropic, wire.Gemini, wire.Bedrock} {
		t.Run(p.Name, func(t *testing.T) {
			server := p.Serve(clerk)
			defer server.Close()
			llm, err := server.Client()
			require.NoError(t, err)
			existing := deskAgent(functionsAgent, llm)
			exec, err := newMiddleware(t, nil).WrapExecutor(existing)
			require.NoError(t, err)
			var group sync.WaitGroup
			for range 4 {
				group.Add(1)
				go func() {
					defer group.Done()
					ctx := skillbay.WithState(context.Background(), skillbay.NewState())
					w := exec.WithMemory(memory.NewConversationBuffer())
					out, err := chains.Run(ctx, w, "Refund A1")
					assert.NoError(t, err)
					assert.Equal(t, "Refunded A1.", out)
					out, err = chains.Run(ctx, w, "Fee?")
					assert.NoError(t, err)
					assert.Equal(t, "None.", out)
				}()
			}
			group.Wait()
			assert.Len(t, existing.Agent.GetTools(), 2, "the caller's agent was changed")
			for _, e := range server.Exchanges() {
				assert.Empty(t, e.Refused)
			}
		})
	}
}

// TestBareFunctionsAgent shows what stands in the way without skillbay: the
// functions agent has no tools on Claude and Gemini (LANGCHAINGO: Functions
// are ignored). If this fails, langchaingo has changed.
func TestBareFunctionsAgent(t *testing.T) {
	for _, p := range []wire.Provider{wire.Anthropic, wire.Gemini, wire.Bedrock} {
		t.Run(p.Name, func(t *testing.T) {
			server := p.Serve(func(wire.Prompt) wire.Reply { return wire.Reply{Text: "Hello."} })
			defer server.Close()
			llm, err := server.Client()
			require.NoError(t, err)
			_, err = chains.Call(context.Background(), deskAgent(functionsAgent, llm), map[string]any{"input": "Hello", "history": ""})
			require.NoError(t, err)
			assert.Empty(t, server.Exchanges()[0].Prompt.Tools)
		})
	}
}
