package skillbay

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/tools"
)

// Bounds of what skillbay's tools answer.
const (
	maxNamedFiles  = 50       // other files that a launch names
	maxNamedSkills = 20       // names that an unknown name is answered with
	maxFilePage    = 64 << 10 // bytes of one skill_file answer
)

// The inputs of skillbay's tools, as models are told.
const (
	formSkill   = `{"skill": "name", "args": "optional text"}`
	formDismiss = `{"skill": "name", "reason": "optional text"}`
	formFile    = `{"skill": "name", "path": "file", "offset": 0, "limit": 65536}`
)

// ToolDefinitions returns the definitions of skillbay's tools, for a loop that
// does not use WrapModel. Their set is fixed by New: none when no skill is
// loaded. The caller owns the result.
func (mw *Middleware) ToolDefinitions() []llms.Tool {
	return mw.define()
}

func (mw *Middleware) define() []llms.Tool {
	if len(mw.catalog.skills) == 0 {
		return nil
	}
	t := mw.texts
	text := func(description string) map[string]any {
		return map[string]any{"type": "string", "description": description}
	}
	number := func(description string) map[string]any {
		return map[string]any{"type": "integer", "description": description}
	}
	tool := func(name, description string, properties map[string]any, required ...string) llms.Tool {
		return llms.Tool{Type: "function", Function: &llms.FunctionDefinition{
			Name: name, Description: description,
			Parameters: map[string]any{"type": "object", "properties": properties, "required": required},
		}}
	}
	definitions := []llms.Tool{
		tool(toolSkill, t.SkillTool, map[string]any{"skill": text(t.ParamSkill), "args": text(t.ParamArgs)}, "skill"),
		tool(toolDismiss, t.DismissTool, map[string]any{"skill": text(t.ParamSkill), "reason": text(t.ParamReason)}, "skill"),
	}
	if slices.ContainsFunc(mw.catalog.skills, func(f *frozen) bool { return len(f.Files) > 0 }) {
		definitions = append(definitions, tool(toolFile, t.FileTool, map[string]any{
			"skill": text(t.ParamSkill), "path": text(t.ParamPath),
			"offset": number(t.ParamOffset), "limit": number(t.ParamLimit),
		}, "skill", "path"))
	}
	return definitions
}

// WrapTools puts the gate around the tools and adds skillbay's own, for agents
// and loops that dispatch langchaingo tools by themselves. Tools that are
// wrapped already stay as they are. It fails on names that are equal but for
// case and on skillbay's names (ErrTool). The tools find the conversation in
// the ctx of their call; without a State they answer so and do not run.
func (mw *Middleware) WrapTools(list ...tools.Tool) ([]tools.Tool, error) {
	wrapped := make([]tools.Tool, 0, len(list)+len(mw.definitions))
	var names []string
	for _, t := range list {
		if own, ok := t.(*ownTool); ok && own.mw == mw {
			continue
		}
		if t == nil {
			return nil, &Error{Op: "wrap tools", Err: fmt.Errorf("%w: a tool is nil", ErrTool)}
		}
		name := strings.TrimSpace(t.Name())
		switch {
		case isOwnTool(name):
			return nil, &Error{Op: "wrap tools", Err: fmt.Errorf("%w: %q is a tool of skillbay's", ErrTool, name)}
		case hasTool(names, name):
			return nil, &Error{Op: "wrap tools", Err: fmt.Errorf(
				"%w: %q twice (names compare without regard to case)", ErrTool, name)}
		}
		names = append(names, name)
		wrapped = append(wrapped, mw.gate(t))
	}
	mw.warnMissing(names)
	for _, d := range mw.definitions {
		wrapped = append(wrapped, &ownTool{mw: mw, definition: d.Function})
	}
	return wrapped, nil
}

// warnMissing logs names that skills list or the Config guards and that no
// wrapped tool bears: most likely misspelt.
func (mw *Middleware) warnMissing(names []string) {
	missing := func(tool string) bool { return !hasTool(names, tool) && !isOwnTool(tool) }
	for _, tool := range mw.cfg.GuardedTools {
		if missing(tool) {
			mw.log.Warn("skillbay: a guarded tool does not exist", "tool", tool)
		}
	}
	for _, f := range mw.catalog.skills {
		for _, e := range f.policy.allow {
			if e.name() != "" && !e.isPattern() && missing(e.name()) {
				mw.log.Warn("skillbay: allowed-tools lists a tool that does not exist", "skill", f.Name, "tool", e.name())
			}
		}
	}
}

// schemed is the community's convention for tools with more than one argument.
type schemed interface{ Schema() map[string]any }

func (mw *Middleware) gate(t tools.Tool) tools.Tool {
	switch g := t.(type) {
	case *gatedTool:
		if g.mw == mw {
			return t
		}
	case *schemedTool:
		if g.mw == mw {
			return t
		}
	}
	g := &gatedTool{Tool: t, mw: mw}
	if s, ok := t.(schemed); ok {
		return &schemedTool{gatedTool: g, schemed: s}
	}
	return g
}

// gatedTool is a tool of the user's behind the gate.
type gatedTool struct {
	tools.Tool
	mw *Middleware
}

// schemedTool is a gatedTool whose inner tool has a schema.
type schemedTool struct {
	*gatedTool
	schemed
}

// Call implements tools.Tool.
func (g *gatedTool) Call(ctx context.Context, input string) (string, error) {
	return g.mw.callWrapped(ctx, g.Name(), input, func(ctx context.Context) (string, error) {
		return g.Tool.Call(ctx, input)
	})
}

// ownTool is one of skillbay's tools.
type ownTool struct {
	mw         *Middleware
	definition *llms.FunctionDefinition
}

// Name implements tools.Tool.
func (o *ownTool) Name() string { return o.definition.Name }

// Description implements tools.Tool: with the input's form, since a one-prompt
// agent shows its model nothing else.
func (o *ownTool) Description() string {
	form := map[string]string{toolSkill: formSkill, toolDismiss: formDismiss, toolFile: formFile}[o.definition.Name]
	return o.definition.Description + " " + fill(o.mw.texts.ToolInput, "form", form)
}

// Schema returns the tool's JSON schema, which the caller must not change.
func (o *ownTool) Schema() map[string]any { return o.definition.Parameters.(map[string]any) }

// Call implements tools.Tool.
func (o *ownTool) Call(ctx context.Context, input string) (string, error) {
	return o.mw.callWrapped(ctx, o.Name(), input, nil)
}

// launchOrder is a launch that is asked for.
type launchOrder struct {
	f      *frozen
	args   string
	given  bool
	callID string
	seq    int64 // the call's number; 0: the host's
	host   bool
}

// runSkill is the skill tool, after the gate: the table of SPEC 7 in order.
func (mw *Middleware) runSkill(ctx context.Context, c *ticket) (string, error) {
	t, st := mw.texts, c.state
	in := mw.catalog.parse(c.input)
	in.args = clean(in.args)
	if in.wrong || strings.TrimSpace(in.skill) == "" {
		problem := t.ProblemForm
		if !in.wrong {
			problem = t.ProblemEmpty
		}
		return fill(t.BadInput, "problem", problem, "form", formSkill), nil
	}
	f := mw.catalog.find(in.skill)
	hidden := f != nil && !mw.shows(ctx, st, f)
	if f == nil || hidden {
		if hidden {
			mw.denied(ctx, c, f, in.args, "hidden")
		}
		names := closest(in.skill, launchable(mw.shownSkills(ctx, st)), maxNamedSkills)
		list := strings.Join(names, ", ")
		if list == "" {
			list = t.NoSkills
		}
		return fill(t.UnknownSkill, "skill", cut(clean(in.skill), 64), "skills", list), nil
	}
	if f.DisableModelInvocation {
		mw.denied(ctx, c, f, in.args, "disable-model-invocation")
		return fill(t.NotForModel, "skill", f.Name), nil
	}
	if other := c.exclusive; mw.cfg.Exclusive && other != "" && other != f.Name {
		reason := fill(t.ReasonExclusive, "skills", other)
		mw.denied(ctx, c, f, in.args, reason)
		return fill(t.Denied, "skill", f.Name, "reason", reason), nil
	}
	if d := mw.permit(ctx, f, in.args); !d.Allowed {
		mw.denied(ctx, c, f, in.args, d.Reason)
		return fill(t.Denied, "skill", f.Name, "reason", d.Reason), nil
	}
	obs, err := mw.launch(ctx, c, launchOrder{f: f, args: in.args, given: in.given, callID: c.id, seq: c.seq})
	if err == errNoRoom {
		mw.denied(ctx, c, f, in.args, t.ReasonLimit)
		return fill(t.Denied, "skill", f.Name, "reason", t.ReasonLimit), nil
	}
	return obs, err
}

func (mw *Middleware) denied(ctx context.Context, c *ticket, f *frozen, args, detail string) {
	mw.audit(ctx, c.state, Event{
		Type: EventDenied, Skill: f.Name, Args: cut(args, maxArgsLaunch), Tool: toolSkill, ToolCallID: c.id, Detail: detail,
	})
}

// runDismiss is the skill_dismiss tool. Dismissing concerns the context, never
// the limit.
func (mw *Middleware) runDismiss(ctx context.Context, c *ticket) (string, error) {
	t, st := mw.texts, c.state
	in := mw.catalog.parse(c.input)
	name := st.recorded(in.skill)
	if in.wrong || strings.TrimSpace(in.skill) == "" {
		return fill(t.BadInput, "problem", t.ProblemForm, "form", formDismiss), nil
	}
	if f := mw.catalog.find(in.skill); name == "" && f != nil {
		name = f.Name
	}
	d := dismissal{Skill: name, Reason: cut(clean(in.args), maxReason), Time: mw.now().UnixMilli()}
	outcome := st.dismissByModel(d, c.seq)
	switch outcome {
	case notActive:
		return fill(t.NotActive, "skill", cut(clean(in.skill), 64)), nil
	case hostOnly:
		return fill(t.HostOnly, "skill", name), nil
	case dismissedAlready: // perhaps it could not be saved
		if err := mw.saveKept(ctx, st); err != nil {
			return "", &Error{Op: "dismiss", Skill: name, Err: err}
		}
	case dismissedNow:
		mw.audit(ctx, st, Event{Type: EventDismissed, Skill: name, Tool: toolDismiss, ToolCallID: c.id, Detail: d.Reason})
		if err := mw.onChange(ctx, st); err != nil {
			return "", &Error{Op: "dismiss", Skill: name, Err: err}
		}
	}
	return fill(t.Dismissed, "skill", name), nil
}

// outcome of a dismissal.
type outcome int

const (
	notActive outcome = iota
	hostOnly
	dismissedNow
	dismissedAlready // by this very call, delivered again
)

// dismissByModel records the model's dismissal made by call number seq, of a
// skill that is active or is being launched in the same batch.
func (s *State) dismissByModel(d dismissal, seq int64) (out outcome) {
	s.do(func() {
		d.Turn, d.Covers = s.book.Turn.N, s.book.Seq // in one batch, dismissals apply after launches
		sameBatch := s.batch != nil && slices.ContainsFunc(s.batch.calls, func(c batchCall) bool {
			return c.target == d.Skill && d.Skill != "" && !c.done
		})
		last := s.last(d.Skill)
		active := last != nil && s.active(last)
		switch old := s.dismissal(d.Skill); {
		case active && last.Host:
			out = hostOnly
		case active, sameBatch && (old == nil || old.Turn != d.Turn || old.Covers < seq):
			s.dismiss(d)
			out = dismissedNow
		case old != nil && old.Turn == d.Turn && old.Covers >= seq && s.batch != nil && seq > s.batch.base:
			out = dismissedAlready
		}
	})
	return out
}

// recorded returns the recorded skill of that name, compared like find does.
func (s *State) recorded(name string) (found string) {
	s.do(func() {
		for _, l := range slices.Concat(s.book.Launches, s.book.Pending) {
			if l.Skill == name {
				found = name
				return
			}
			if strings.EqualFold(l.Skill, name) {
				found = l.Skill
			}
		}
	})
	return found
}

// runFile is the skill_file tool: a page of a file of an active skill, as New
// read it.
func (mw *Middleware) runFile(ctx context.Context, c *ticket) (string, error) {
	t, st := mw.texts, c.state
	in := mw.catalog.parse(c.input)
	if in.wrong || strings.TrimSpace(in.skill) == "" {
		return fill(t.BadInput, "problem", t.ProblemForm, "form", formFile), nil
	}
	f := mw.catalog.find(in.skill)
	if f == nil || !st.activeBy(f.Name, c.base) || !mw.shows(ctx, st, f) {
		return fill(t.FileNotActive, "skill", cut(clean(in.skill), 64)), nil
	}
	path := strings.TrimPrefix(strings.TrimSpace(in.args), "./")
	if !slices.Contains(f.Files, path) {
		list := strings.Join(closest(path, f.Files, maxNamedSkills), ", ")
		if list == "" {
			list = t.NoSkills
		}
		return fill(t.UnknownFile, "skill", f.Name, "path", cut(clean(path), 200), "files", list), nil
	}
	content, readable := f.files[path]
	if !readable {
		return fill(t.FileUnreadable, "path", path), nil
	}
	if !utf8.ValidString(content) || strings.ContainsRune(content, 0) {
		return fill(t.FileBinary, "path", path, "size", strconv.Itoa(len(content))), nil
	}
	return filePage(t, path, content, in.offset, in.limit), nil
}

// filePage returns at most limit bytes from offset, never cut in a character,
// and says when there is more.
func filePage(t *Texts, path, content string, offset, limit int) string {
	if limit <= 0 || limit > maxFilePage {
		limit = maxFilePage
	}
	from := min(offset, len(content))
	for from < len(content) && !utf8.RuneStart(content[from]) {
		from++
	}
	to := min(from+limit, len(content))
	for to < len(content) && to > from && !utf8.RuneStart(content[to]) {
		to--
	}
	if to == from && to < len(content) { // a limit below one character: give that one
		_, size := utf8.DecodeRuneInString(content[from:])
		to += size
	}
	page := content[from:to]
	switch {
	case to < len(content):
	case from == to && to > 0:
		return fill(t.FileEnd, "path", path, "size", strconv.Itoa(len(content)))
	default:
		return page
	}
	return page + "\n" + fill(t.FilePage, "path", path, "from", strconv.Itoa(from), "to", strconv.Itoa(to),
		"size", strconv.Itoa(len(content)))
}

// activeBy reports whether the skill was launched up to number base and not
// dismissed since: what a batch may read comes from before it (SPEC 8.6).
func (s *State) activeBy(skill string, base int64) (active bool) {
	s.do(func() {
		for i := range s.book.Launches {
			if l := &s.book.Launches[i]; l.Skill == skill && l.Seq <= base && !s.dismissedBy(l, base) && !s.withdrawn(l) {
				active = true
			}
		}
	})
	return active
}
