package peers

import (
	"context"
	"errors"
	"fmt"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/plugins/middleware"
)

// genkitPeer is the skills middleware of genkit.
//
// Load reads every SKILL.md and keeps the path and the description: no
// validation (a header that cannot be read is listed without a description), no
// body, other files or digest; genkit does it for every Generate. Call is
// WrapGenerate on a request of 200 messages: it sorts and renders the list,
// copies the slice and puts the list into a system message; nothing is escaped,
// no bodies are looked for, and there is neither visibility nor state. Body
// reads the file again: no gate, arguments or record, the header with it.
func genkitPeer() Peer {
	return Peer{
		Name:    "genkit",
		Version: "github.com/firebase/genkit/go v1.8.0",
		Lacks: Lacks{
			Load: "descriptions only: no validation, bodies, files or digest; done again for every Generate",
			Call: "no escaping, visibility, budget, bodies or state",
			Body: "reads the disk, header and all; no gate, arguments or record",
		},
		Load: loadGenkit,
	}
}

func loadGenkit(tree Tree) (*Loaded, error) {
	hooks, err := (&middleware.Skills{SkillPaths: []string{tree.Dir}}).New(context.Background())
	if err != nil {
		return nil, err
	}
	// genkit does not say how many it found, and counting its list would be
	// measured: the count is taken on trust, and the test looks at the list.
	return &Loaded{Count: tree.Skills, Serve: func() (*Served, error) { return serveGenkit(hooks) }}, nil
}

func serveGenkit(hooks *ai.Hooks) (*Served, error) {
	if len(hooks.Tools) != 1 {
		return nil, fmt.Errorf("genkit has %d tools, not one", len(hooks.Tools))
	}
	ctx := context.Background()
	request := &ai.ModelRequest{}
	for i := range callMessages {
		message := ai.NewUserTextMessage(filler)
		if i%2 == 1 {
			message = ai.NewModelTextMessage(filler)
		}
		request.Messages = append(request.Messages, message)
	}
	next := func(context.Context, *ai.GenerateParams) (*ai.ModelResponse, error) { return nil, nil }
	return &Served{
		Call: func() (string, error) {
			params := &ai.GenerateParams{Request: request}
			if _, err := hooks.WrapGenerate(ctx, params, next); err != nil {
				return "", err
			}
			return params.Request.Messages[0].Content[0].Text, nil
		},
		Body: func(name string) (string, error) {
			out, err := hooks.Tools[0].RunRaw(ctx, map[string]any{"skillName": name})
			if err != nil {
				return "", err
			}
			body, ok := out.(string)
			if !ok {
				return "", errors.New("genkit's tool returned no text")
			}
			return body, nil
		},
	}, nil
}
