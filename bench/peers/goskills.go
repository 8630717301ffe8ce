package peers

import (
	"fmt"

	"github.com/smallnest/goskills"
)

// goskillsPeer is goskills.
//
// Load parses headers and bodies and lists files by name; nothing is validated,
// skills that cannot be parsed are dropped without a word, and there are no
// other contents and no digest. Call renders the list, in random order and
// unescaped, and knows no request, messages, visibility or state. Body is a
// field of a struct: there is no tool that delivers it.
func goskillsPeer() Peer {
	return Peer{
		Name:    "goskills",
		Version: "github.com/smallnest/goskills v0.6.1",
		Lacks: Lacks{
			Load: "no validation, file contents or digest",
			Call: "random order, no escaping, request, messages, visibility or state",
			Body: "a field: nothing delivers it to a model",
		},
		Load: loadGoskills,
	}
}

func loadGoskills(tree Tree) (*Loaded, error) {
	list, err := goskills.ParseSkillPackages(tree.Dir)
	if err != nil {
		return nil, err
	}
	return &Loaded{Count: len(list), Serve: func() (*Served, error) {
		packages := make(map[string]goskills.SkillPackage, len(list))
		for _, p := range list {
			packages[p.Meta.Name] = *p
		}
		return &Served{
			Call: func() (string, error) { return goskills.SkillsToPrompt(packages), nil },
			Body: func(name string) (string, error) {
				p, ok := packages[name]
				if !ok {
					return "", fmt.Errorf("no skill %q", name)
				}
				return p.Body, nil
			},
		}, nil
	}}, nil
}
