package skillbay

import (
	"reflect"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// client is what skillbay must know of a provider client of langchaingo, and
// can tell by its type alone. A client behind a wrapper of the caller's own is
// unknown: the zero client.
type client struct {
	// name is the client's package: "openai", "anthropic", …; empty: unknown.
	name string
	// toolless: it sends no tools to its provider, whatever it is given
	// (llms/ollama/ollamallm.go:134-190, llms/cohere/coherellm.go:44-52, …).
	toolless bool
	// textFirst: a text beside a call is sent as a message of its own before
	// the call. Claude refuses a text between a call and its answer, and
	// langchaingo's Anthropic client would drop it (anthropicllm.go:386-415).
	textFirst bool
}

// clientOf tells the client under a model, through skillbay's own wrappers.
func clientOf(m llms.Model) client {
	for {
		own, ok := m.(*model)
		if !ok {
			break
		}
		m = own.inner
	}
	t := reflect.TypeOf(m)
	if t == nil {
		return client{}
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name, ok := strings.CutPrefix(t.PkgPath(), "github.com/tmc/langchaingo/llms/")
	if !ok {
		return client{}
	}
	c := client{name: name}
	switch name {
	case "ollama", "llamafile", "cloudflare", "maritaca", "cohere", "ernie", "watsonx", "huggingface", "local", "googleai/palm":
		c.toolless = true
	case "anthropic", "bedrock", "mistral":
		c.textFirst = true
	}
	return c
}
