package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/llms/anthropic"
	"github.com/tmc/langchaingo/llms/googleai"
	"github.com/tmc/langchaingo/llms/ollama"
	"github.com/tmc/langchaingo/llms/openai"
)

// provider is one of langchaingo's clients.
type provider struct {
	key     string // the environment variable of its key; "" when it needs none
	oneShot bool   // the client sends no tools: use an agent that puts them into the prompt
	connect func(ctx context.Context, model string) (llms.Model, error)
}

// providers are the clients that -provider names.
var providers = map[string]provider{
	"openai": {key: "OPENAI_API_KEY", connect: func(_ context.Context, model string) (llms.Model, error) {
		return openai.New(openai.WithModel(model))
	}},
	"anthropic": {key: "ANTHROPIC_API_KEY", connect: func(_ context.Context, model string) (llms.Model, error) {
		return anthropic.New(anthropic.WithModel(model))
	}},
	"googleai": {key: "GOOGLE_API_KEY", connect: func(ctx context.Context, model string) (llms.Model, error) {
		return googleai.New(ctx, googleai.WithDefaultModel(model))
	}},
	"ollama": {oneShot: true, connect: func(_ context.Context, model string) (llms.Model, error) {
		return ollama.New(ollama.WithModel(model)) // at OLLAMA_HOST, else on this machine
	}},
}

// connect returns the provider's client for a model. The error names what is
// missing.
func connect(ctx context.Context, name, model string) (m llms.Model, oneShot bool, err error) {
	p, ok := providers[name]
	if !ok {
		return nil, false, fmt.Errorf("unknown provider %q: use openai, anthropic, googleai or ollama", name)
	}
	if p.key != "" && os.Getenv(p.key) == "" {
		return nil, false, fmt.Errorf("provider %s needs its key in the environment variable %s, which is not set", name, p.key)
	}
	if model == "" {
		return nil, false, errors.New("-provider " + name + " also needs -model NAME")
	}
	m, err = p.connect(ctx, model)
	if err != nil {
		return nil, false, fmt.Errorf("provider %s: %w", name, err)
	}
	return m, p.oneShot, nil
}
