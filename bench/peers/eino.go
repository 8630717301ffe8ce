package peers

import (
	"context"
	"errors"
	"fmt"

	"github.com/cloudwego/eino-ext/adk/backend/local"
	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/adk/middlewares/skill"
	"github.com/cloudwego/eino/components/tool"
)

// einoPeer is eino's skill middleware over the local file backend of eino-ext.
//
// It keeps nothing between runs. Load parses headers and bodies with no
// validation beyond YAML, no digest and no other files. Call is the once-a-run
// work of BeforeAgent and of the skill tool's description, which reads the disk
// again; within a run eino uses it for every model call. It looks at no
// messages, escapes nothing and keeps no state. Body reads and parses the whole
// directory once more, checks no policy and records nothing.
func einoPeer() Peer {
	return Peer{
		Name:    "eino",
		Version: "github.com/cloudwego/eino v0.9.13, eino-ext local v0.2.1",
		Lacks: Lacks{
			Load: "no validation, digest or other files; done again for every run and body",
			Call: "once a run; no messages, escaping, visibility or state",
			Body: "no gate, no record; reads all skills again",
		},
		Load: loadEino,
	}
}

func loadEino(tree Tree) (*Loaded, error) {
	ctx := context.Background()
	files, err := local.NewBackend(ctx, &local.Config{})
	if err != nil {
		return nil, err
	}
	backend, err := skill.NewBackendFromFilesystem(ctx, &skill.BackendFromFilesystemConfig{Backend: files, BaseDir: tree.Dir})
	if err != nil {
		return nil, err
	}
	list, err := backend.List(ctx)
	if err != nil {
		return nil, err
	}
	return &Loaded{Count: len(list), Serve: func() (*Served, error) { return serveEino(ctx, backend) }}, nil
}

func serveEino(ctx context.Context, backend skill.Backend) (*Served, error) {
	middleware, err := skill.NewMiddleware(ctx, &skill.Config{Backend: backend})
	if err != nil {
		return nil, err
	}
	begin := func() (tool.InvokableTool, error) {
		_, run, err := middleware.BeforeAgent(ctx, &adk.ChatModelAgentContext{})
		if err != nil {
			return nil, err
		}
		t, ok := run.Tools[0].(tool.InvokableTool)
		if !ok {
			return nil, errors.New("eino's skill tool cannot be called")
		}
		return t, nil
	}
	load, err := begin()
	if err != nil {
		return nil, err
	}
	return &Served{
		Call: func() (string, error) {
			t, err := begin()
			if err != nil {
				return "", err
			}
			info, err := t.Info(ctx)
			if err != nil {
				return "", err
			}
			return info.Desc, nil
		},
		Body: func(name string) (string, error) {
			return load.InvokableRun(ctx, fmt.Sprintf(`{"skill":%q}`, name))
		},
	}, nil
}
