package skillbay

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// catalog is the set of loaded skills, in name order.
type catalog struct {
	skills []*frozen
	byName map[string]*frozen
}

func newCatalog(skills []*frozen) *catalog {
	c := &catalog{skills: skills, byName: make(map[string]*frozen, len(skills))}
	for _, f := range skills {
		raw, _ := hex.DecodeString(f.Digest)
		f.sum = base64.RawStdEncoding.EncodeToString(raw)
		c.byName[f.Name] = f
	}
	return c
}

// catalogOf compiles the lists of public values. One that is restricted and
// shows neither list is taken to allow nothing.
func catalogOf(skills []Skill) *catalog {
	all := make([]*frozen, len(skills))
	for i, s := range skills {
		limits := s.AllowedTools != nil || s.Restricted && s.DisallowedTools == nil
		all[i] = &frozen{Skill: s, policy: newPolicy(s.AllowedTools, s.DisallowedTools, limits)}
	}
	return newCatalog(all)
}

// policy returns the current lists of a skill, or nil if it is not loaded.
func (c *catalog) policy(name string) *policy {
	if f := c.byName[name]; f != nil {
		return &f.policy
	}
	return nil
}

// find returns the skill of that name: exactly, else the only one that is equal
// but for case; else nil.
func (c *catalog) find(name string) *frozen {
	if f := c.byName[name]; f != nil {
		return f
	}
	var found *frozen
	for _, f := range c.skills {
		if strings.EqualFold(f.Name, name) {
			if found != nil {
				return nil
			}
			found = f
		}
	}
	return found
}

// describe makes a batch call of a tool call. Its target is the skill that a
// skill call can launch, whatever Permit will say (SPEC 8.6): loaded, open to
// the model, and shown (nil: all are).
func (c *catalog) describe(call llms.ToolCall, shows func(*frozen) bool) batchCall {
	bc := newBatchCall(call.ID, nameOf(call), inputOf(call))
	if !isSkillCall(call) {
		return bc
	}
	in := c.parse(inputOf(call))
	if f := c.find(in.skill); f != nil {
		bc.named = f.Name
		if !f.DisableModelInvocation && (shows == nil || shows(f)) {
			bc.target = f.Name
		}
	}
	return bc
}

// closest returns at most n of names, those most like name first.
func closest(name string, names []string, n int) []string {
	wanted := []rune(strings.ToLower(cut(name, 64)))
	type ranked struct {
		name     string
		distance int
	}
	all := make([]ranked, len(names))
	for i, other := range names {
		low := strings.ToLower(other)
		d := editDistance(wanted, []rune(cut(low, 64)))
		if name != "" && strings.Contains(low, strings.ToLower(name)) {
			d = 0
		}
		all[i] = ranked{other, d}
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(a.distance, b.distance) })
	var out []string
	for _, r := range all[:min(n, len(all))] {
		out = append(out, r.name)
	}
	return out
}
