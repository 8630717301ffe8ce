package peers

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/docker/cagent/pkg/skills"
)

// cagentPeer is the skills package of cagent, which looks for skills in the home
// and the working directory: both are set for the load and put back after it.
//
// Load validates headers and drops what fails without a word; there are no
// bodies, files or digest. Call renders the list, in random order and unescaped,
// and knows no request, messages, visibility or state; in cagent's own session
// every model call loads the directory again, which is the row beside it. Body
// is left to a tool that reads any file: what is measured is reading the file,
// and there is no gate, argument or record.
func cagentPeer() Peer {
	return Peer{
		Name:    "cagent",
		Version: "github.com/docker/cagent v1.19.0",
		Lacks: Lacks{
			Load: "headers only: no bodies, files or digest",
			Call: "random order, no escaping, request, messages, visibility or state",
			Body: "a general file tool: reads the disk, header and all",
		},
		Load: func(tree Tree) (*Loaded, error) {
			list, err := loadCagent(tree)
			if err != nil {
				return nil, err
			}
			return &Loaded{Count: len(list), Serve: func() (*Served, error) { return serveCagent(tree, list), nil }}, nil
		},
	}
}

func loadCagent(tree Tree) (list []skills.Skill, err error) {
	before, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	home, had := os.LookupEnv("HOME")
	if err := os.Setenv("HOME", filepath.Join(tree.Home, "nobody")); err != nil {
		return nil, err
	}
	defer func() {
		if had {
			os.Setenv("HOME", home)
		} else {
			os.Unsetenv("HOME")
		}
		if back := os.Chdir(before); err == nil {
			err = back
		}
	}()
	if err := os.Chdir(tree.Home); err != nil {
		return nil, err
	}
	return skills.Load(), nil
}

func serveCagent(tree Tree, list []skills.Skill) *Served {
	files := make(map[string]string, len(list))
	for _, s := range list {
		files[s.Name] = s.FilePath
	}
	return &Served{
		Call: func() (string, error) { return skills.BuildSkillsPrompt(list), nil },
		Body: func(name string) (string, error) {
			path, ok := files[name]
			if !ok {
				return "", fmt.Errorf("no skill %q", name)
			}
			data, err := os.ReadFile(path)
			return string(data), err
		},
		Beside: []Beside{{
			Name: "session", What: "load and render, as cagent's session does for each model call",
			Op: func() error {
				list, err := loadCagent(tree)
				if err == nil && len(list) != tree.Skills {
					err = fmt.Errorf("cagent loaded %d skills of %d", len(list), tree.Skills)
				}
				_ = skills.BuildSkillsPrompt(list)
				return err
			},
		}},
	}
}
