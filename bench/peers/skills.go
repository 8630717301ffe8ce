package peers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Forest makes trees of skills on disk, each once. The zero Forest is not
// usable; it is not safe for concurrent use.
type Forest struct {
	root  string
	trees map[string]Tree
}

// Tree is a directory of skills.
type Tree struct {
	// Home is the directory that holds the tree as cagent wants it: in
	// .claude/skills. It holds nothing else.
	Home string
	// Dir is the directory whose sub-directories are the skills.
	Dir string
	// Skills is how many there are.
	Skills int
}

// NewForest returns a Forest in a new temporary directory. Remove it with Clear.
func NewForest() (*Forest, error) {
	root, err := os.MkdirTemp("", "skills-")
	if err != nil {
		return nil, err
	}
	return &Forest{root: root, trees: map[string]Tree{}}, nil
}

// Clear removes all trees.
func (f *Forest) Clear() error { return os.RemoveAll(f.root) }

// Plain is a tree of n skills whose headers hold a name and a description: what
// every peer reads.
func (f *Forest) Plain(n int) (Tree, error) { return f.tree("plain", n, "") }

// Limited is a tree of n skills that restrict: each allows the tools skill, Read
// and some calls of Lookup. `skill` is among them so that one launched skill
// does not bar the launch of the next.
func (f *Forest) Limited(n int) (Tree, error) {
	return f.tree("limited", n, "allowed-tools: skill, Read, Lookup(order:*)\n")
}

func (f *Forest) tree(kind string, n int, header string) (Tree, error) {
	key := fmt.Sprintf("%s-%d", kind, n)
	if tree, ok := f.trees[key]; ok {
		return tree, nil
	}
	home := filepath.Join(f.root, key)
	tree := Tree{Home: home, Dir: filepath.Join(home, ".claude", "skills"), Skills: n}
	for i := range n {
		if err := writeSkill(tree.Dir, i, header); err != nil {
			return Tree{}, err
		}
	}
	f.trees[key] = tree
	return tree, nil
}

func writeSkill(dir string, i int, header string) error {
	name := SkillName(i)
	skill := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Join(skill, "references"), 0o755); err != nil {
		return err
	}
	text := fmt.Sprintf("---\nname: %s\ndescription: %s\n%s---\n%s", name, Description(i), header, Body(i))
	if err := os.WriteFile(filepath.Join(skill, "SKILL.md"), []byte(text), 0o600); err != nil {
		return err
	}
	rules := fmt.Sprintf("# Rules of kind %d\n\nA refund needs a delivered order and a reason.\n", i)
	return os.WriteFile(filepath.Join(skill, "references", "rules.md"), []byte(rules), 0o600)
}

// SkillName is the name of a tree's skill number i.
func SkillName(i int) string { return fmt.Sprintf("skill-%05d", i) }

// Description is its description.
func Description(i int) string {
	return fmt.Sprintf("Handles requests of kind %d, looks up the order and answers the customer in writing", i)
}

// Body is its body: Markdown of 2 KiB. It holds nothing that some peer is known
// to spoil (tabs, a line of three dashes, placeholders), since the subject here
// is time.
func Body(i int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Requests of kind %d\n\nUse this when the customer asks about kind %d.\n", i, i)
	for step := 1; b.Len() < 1800; step++ {
		fmt.Fprintf(&b, "\n## Step %d\n\n", step)
		b.WriteString("1. Look up the order and read its *state* before you answer.\n")
		b.WriteString("2. Compare the date with the rules in `references/rules.md`.\n")
		b.WriteString("3. Answer in two sentences; never promise an amount.\n")
	}
	b.WriteString("\n```json\n{\"order\": \"A1\", \"state\": \"delivered\"}\n```\n")
	for b.Len() < 2048 {
		b.WriteString("Ask back when something is missing.\n")
	}
	return b.String()
}
