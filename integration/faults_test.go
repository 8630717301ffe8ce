package integration

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"

	"github.com/skillbay/skillbay"
	"github.com/skillbay/skillbay/integration/wire"
)

// Faults of langchaingo's clients that skillbay cannot mend must not pass in
// silence.

// TestToollessClients: a functions agent over a client that sends no tools is
// refused by WrapExecutor, also when the caller wrapped the model already; a
// loop's is reported once, at the first call that offers tools.
func TestToollessClients(t *testing.T) {
	for _, p := range []wire.Provider{wire.Ollama, wire.Cohere} {
		t.Run(p.Name, func(t *testing.T) {
			server := p.Serve(clerk)
			defer server.Close()
			llm, err := server.Client()
			require.NoError(t, err)

			var log bytes.Buffer
			mw, err := skillbay.New(skillbay.Config{
				Skills: []skillbay.Source{skillbay.FS(skills, ".")},
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			require.NoError(t, err)
			for name, m := range map[string]llms.Model{"bare": llm, "wrapped": mw.WrapModel(llm)} {
				_, err = mw.WrapExecutor(deskAgent(functionsAgent, m))
				require.ErrorIs(t, err, skillbay.ErrAgent, name)
				assert.Contains(t, err.Error(), "sends no tools", name)
			}
			_, err = mw.WrapExecutor(deskAgent(mrklAgent, llm))
			require.NoError(t, err, "an agent of one prompt needs no tools on the wire")
			assert.Empty(t, log.String())

			model := mw.WrapModel(llm)
			for range 2 {
				ctx := skillbay.WithState(context.Background(), skillbay.NewState())
				_, err = model.GenerateContent(ctx, []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "Hello")},
					llms.WithTools(own(mw)))
				require.NoError(t, err)
			}
			assert.Equal(t, 1, strings.Count(log.String(), "sends no tools"), "once")
			assert.Contains(t, log.String(), "client="+strings.ToLower(p.Name))
		})
	}
}

// TestLostCalls: langchaingo's Bedrock client drops tool calls from a stream
// (llms/bedrock/internal/bedrockclient/provider_anthropic.go,
// parseStreamingCompletionResponse), and only the stop reason tells. The run
// must end with an error, not with half an answer.
func TestLostCalls(t *testing.T) {
	server := wire.Bedrock.Serve(clerk)
	defer server.Close()
	llm, err := server.Client()
	require.NoError(t, err)
	mw := newMiddleware(t, nil)
	stream := func(context.Context, []byte) error { return nil }
	ctx := skillbay.WithState(context.Background(), skillbay.NewState())

	exec, err := mw.WrapExecutor(deskAgent(functionsAgent, llm))
	require.NoError(t, err)
	_, err = chains.Call(ctx, exec, map[string]any{"input": "Refund A1", "history": ""}, chains.WithStreamingFunc(stream))
	assert.ErrorContains(t, err, "lost the model's tool calls")

	ctx = skillbay.WithState(context.Background(), skillbay.NewState())
	_, err = mw.WrapModel(llm).GenerateContent(ctx,
		[]llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "Refund A1")},
		llms.WithTools(own(mw)), llms.WithStreamingFunc(stream))
	assert.ErrorContains(t, err, "lost the model's tool calls")
}

// TestTextBesideCall: a text beside a call reaches Claude again in the next
// request. Claude refuses a text that stands after the call, and langchaingo's
// Anthropic client sends the first part of a message alone, so the text has to
// be a message of its own before the call.
func TestTextBesideCall(t *testing.T) {
	for _, p := range []wire.Provider{wire.OpenAI, wire.OpenAIReasoning, wire.Anthropic, wire.Bedrock, wire.Gemini} {
		t.Run(p.Name, func(t *testing.T) {
			server := p.Serve(clerk)
			defer server.Close()
			llm, err := server.Client()
			require.NoError(t, err)
			mw := newMiddleware(t, nil)
			w, err := loop.hire(t, mw, llm)
			require.NoError(t, err)
			_, err = w.ask(skillbay.WithState(context.Background(), skillbay.NewState()), "Refund A1", nil)
			require.NoError(t, err)
			exchanges := server.Exchanges()
			assert.Contains(t, exchanges[len(exchanges)-1].Prompt.String(), "Let me see.")
		})
	}
}
