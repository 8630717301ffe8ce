package peers

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-kratos/blades/skills"
	"github.com/go-kratos/blades/tools"
)

// bladesPeer is the skill toolset of blades.
//
// Load validates headers and keeps bodies, references, assets and scripts, but
// makes no digest, drops files elsewhere in a skill and follows links. Call
// hands out a text that NewToolset made, and appends four tools to a slice: it
// copies no request, looks at no messages, asks nobody whether a skill is
// visible and keeps no state. Body is JSON with the body in it: no gate,
// arguments or record.
func bladesPeer() Peer {
	return Peer{
		Name:    "blades",
		Version: "github.com/go-kratos/blades v0.5.0",
		Lacks: Lacks{
			Load: "no digest, links followed, one bad skill fails all",
			Call: "a string made at load: no request, messages, visibility or state",
			Body: "no gate, arguments or record",
		},
		Load: loadBlades,
	}
}

func loadBlades(tree Tree) (*Loaded, error) {
	list, err := skills.NewFromDir(tree.Dir)
	if err != nil {
		return nil, err
	}
	toolset, err := skills.NewToolset(list)
	if err != nil {
		return nil, err
	}
	return &Loaded{Count: len(list), Serve: func() (*Served, error) { return serveBlades(toolset) }}, nil
}

func serveBlades(toolset *skills.Toolset) (*Served, error) {
	var load tools.Tool
	for _, t := range toolset.Tools() {
		if t.Name() == skills.ToolLoadSkillName {
			load = t
		}
	}
	if load == nil {
		return nil, errors.New("blades has no tool that loads a skill")
	}
	return &Served{
		Call: func() (string, error) {
			if len(toolset.ComposeTools(nil)) == 0 {
				return "", errors.New("blades composed no tools")
			}
			return toolset.Instruction(), nil
		},
		Body: func(name string) (string, error) {
			return load.Handle(context.Background(), fmt.Sprintf(`{"name":%q}`, name))
		},
	}, nil
}
