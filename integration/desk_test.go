package integration

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/tools"

	"github.com/skillbay/skillbay"
)

// The skills of the desk. refund limits its turn to one tool.
const refundSkill = "---\ndescription: Refund an order\nallowed-tools: lookup\narguments: order\n---\n" +
	"Refund order $order only after a lookup. There is no fee.\n"

var skills = fstest.MapFS{
	"refund/SKILL.md":           {Data: []byte(refundSkill)},
	"shipping/SKILL.md":         {Data: []byte("---\ndescription: Track a parcel\n---\nSee zones.md.\n")},
	"shipping/zones.md":         {Data: []byte("Zone one: two days.\n")},
	"house-rules/SKILL.md":      {Data: []byte("---\ndescription: House rules\n---\nBe kind.\n")},
	"not-for-models/SKILL.md":   {Data: []byte("---\ndescription: Hidden\ndisable-model-invocation: true\n---\nNo.\n")},
	"house-rules/long/extra.md": {Data: []byte("More.\n")},
}

// What must, or must not, be in what a provider passes to its model.
const (
	listed  = "- refund: Refund an order"
	blocked = "was not run"
)

// bodyOf is a sentence of the refund skill's body, launched for an order.
func bodyOf(order string) string { return "Refund order " + order + " only after a lookup." }

func newMiddleware(t testing.TB, audit func(skillbay.Event)) *skillbay.Middleware {
	t.Helper()
	mw, err := skillbay.New(skillbay.Config{
		Skills: []skillbay.Source{skillbay.FS(skills, ".")},
		Audit: func(_ context.Context, e skillbay.Event) {
			if audit != nil {
				audit(e)
			}
		},
	})
	require.NoError(t, err)
	return mw
}

// lookup is a tool with a schema of its own; note is one without.
type lookup struct{}

func (*lookup) Name() string        { return "lookup" }
func (*lookup) Description() string { return "Looks an order up." }
func (*lookup) Schema() map[string]any {
	return map[string]any{
		"type":       "object",
		"properties": map[string]any{"id": map[string]any{"type": "string", "description": "The order's id."}},
		"required":   []string{"id"},
	}
}

type note struct{}

func (*note) Name() string        { return "note" }
func (*note) Description() string { return "Takes a note." }

func (*lookup) Call(_ context.Context, input string) (string, error) { return "found: " + input, nil }

func (*note) Call(_ context.Context, input string) (string, error) { return "found: " + input, nil }

var (
	_ tools.Tool = (*lookup)(nil)
	_ tools.Tool = (*note)(nil)
)

// oneString is langchaingo's schema for a tool without one of its own
// (agents/openai_functions_agent.go:52-65).
func oneString() map[string]any {
	return map[string]any{
		"type":       "object",
		"properties": map[string]any{"__arg1": map[string]any{"title": "__arg1", "type": "string"}},
		"required":   []string{"__arg1"},
	}
}

// deskTools are the tools that must arrive, in their order: the desk's and
// skillbay's, each with its real schema.
func deskTools(mw *skillbay.Middleware) []llms.Tool {
	return append([]llms.Tool{
		{Type: "function", Function: &llms.FunctionDefinition{
			Name: "lookup", Description: "Looks an order up.", Parameters: (*lookup)(nil).Schema(),
		}},
		{Type: "function", Function: &llms.FunctionDefinition{
			Name: "note", Description: "Takes a note.", Parameters: oneString(),
		}},
	}, mw.ToolDefinitions()...)
}

// resume is the State after a round trip through a database.
func resume(t testing.TB, st *skillbay.State) *skillbay.State {
	t.Helper()
	value, err := st.Value()
	require.NoError(t, err)
	again := new(skillbay.State)
	require.NoError(t, again.Scan(value))
	return again
}

// spoken is a user's text without the reminder in front of it, and without a
// system prompt in front of that, which OpenAI's client puts there for
// o-series models.
func spoken(text string) string {
	const end = "</system-reminder>\n"
	if i := strings.LastIndex(text, end); i >= 0 {
		return text[i+len(end):]
	}
	return text
}
