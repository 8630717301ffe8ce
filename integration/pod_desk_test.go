package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing/fstest"

	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/tools"

	"github.com/skillbay/skillbay"
)

// rule is what a skill of the pods' desk holds tool calls to.
type rule struct {
	limits          bool // it has a list
	allowed, banned []string
}

// rules are the desk's skills: with a list, with a list that lets other skills
// in, with bans, and without either.
var rules = map[string]rule{
	"archive":   {banned: []string{"wipe"}},
	"complaint": {limits: true, allowed: []string{"note", "skill"}},
	"courtesy":  {},
	"parcel":    {limits: true, allowed: []string{"lookup", "track", "skill"}},
	"refund":    {limits: true, allowed: []string{"lookup", "pay"}},
	"survey":    {},
	"vip":       {limits: true, allowed: []string{"lookup", "pay", "skill"}},
	"voucher":   {limits: true, allowed: []string{"note", "skill"}, banned: []string{"pay"}},
}

// deskTools are the desk's tools; pay is guarded.
var deskTools = []string{"lookup", "note", "pay", "track", "wipe"}

const guardedTool = "pay"

// skillNames are the names of rules, sorted.
var skillNames = slices.Sorted(maps.Keys(rules))

// forbids lists the tools that the skill forbids when it is launched alone.
func (r rule) forbids() []string {
	return slices.DeleteFunc(slices.Clone(deskTools), func(tool string) bool {
		return (!r.limits || slices.Contains(r.allowed, tool)) && !slices.Contains(r.banned, tool)
	})
}

// deskSkills are the rules as a source. Every body names what it forbids, so
// that a model that read it can try just that.
func deskSkills() skillbay.Source {
	files := fstest.MapFS{}
	for name, r := range rules {
		header := "description: All about " + name + "\n"
		if r.limits {
			header += "allowed-tools: " + strings.Join(r.allowed, " ") + "\n"
		}
		if r.banned != nil {
			header += "disallowed-tools: " + strings.Join(r.banned, " ") + "\n"
		}
		body := "Be thorough.\nForbidden under " + name + ": " + strings.Join(r.forbids(), " ") + ".\n"
		files[name+"/SKILL.md"] = &fstest.MapFile{Data: []byte("---\n" + header + "---\n" + body)}
	}
	return skillbay.FS(files, ".")
}

// deskTool journals that it really ran.
type deskTool struct {
	name    string
	journal *journal
}

func (t *deskTool) Name() string        { return t.name }
func (t *deskTool) Description() string { return "Does a " + t.name + "." }
func (t *deskTool) Call(ctx context.Context, input string) (string, error) {
	t.journal.write(ctx, entry{At: atTool, Tool: t.name})
	return t.name + " done: " + input, nil
}

// deskExecutor is the desk of one pod: langchaingo's functions agent with that
// model, wrapped.
func deskExecutor(cfg skillbay.Config, model llms.Model, j *journal) (*skillbay.Executor, error) {
	cfg.Skills, cfg.Audit, cfg.GuardedTools = []skillbay.Source{deskSkills()}, j.audit, []string{guardedTool}
	mw, err := skillbay.New(cfg)
	if err != nil {
		return nil, err
	}
	var list []tools.Tool
	for _, name := range deskTools {
		list = append(list, &deskTool{name, j})
	}
	agent := agents.NewOpenAIFunctionsAgent(model, list)
	return mw.WrapExecutor(agents.NewExecutor(agent, agents.WithMaxIterations(2*longestRun)))
}

// longestRun is after how many calls the model answers.
const longestRun = 6

// podModel is the model of a pod. It knows the messages that it is sent, and
// acts on them and on its own dice: it launches listed skills, releases those
// that it has, and calls tools, best those that are forbidden.
type podModel struct {
	journal *journal
	pod     int
	fails   float64 // how often the provider is down, of 1

	mu    sync.Mutex // guards what follows
	dice  *rand.Rand
	calls int
}

var errProviderDown = errors.New("the provider is down")

// Call implements llms.Model.
func (m *podModel) Call(context.Context, string, ...llms.CallOption) (string, error) {
	return "", errors.New("the functions agent calls GenerateContent")
}

// GenerateContent implements llms.Model.
func (m *podModel) GenerateContent(ctx context.Context, messages []llms.MessageContent, _ ...llms.CallOption) (*llms.ContentResponse, error) {
	r := understand(messages)
	m.journal.write(ctx, entry{At: atModel, Told: r.told})
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dice.Float64() < m.fails {
		return nil, errProviderDown
	}
	wishes := m.decide(r)
	m.journal.write(ctx, entry{At: atAnswer, Calls: wishes})
	if len(wishes) == 0 {
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: "That was it."}}}, nil
	}
	choice := &llms.ContentChoice{}
	for _, w := range wishes {
		m.calls++
		arguments := map[string]string{"__arg1": "order A1"}
		if w.Skill != "" {
			arguments = map[string]string{"skill": w.Skill}
		}
		data, err := json.Marshal(arguments)
		if err != nil {
			return nil, err
		}
		choice.ToolCalls = append(choice.ToolCalls, llms.ToolCall{
			ID: fmt.Sprintf("call-%d-%d", m.pod, m.calls), Type: "function",
			FunctionCall: &llms.FunctionCall{Name: w.Tool, Arguments: string(data)},
		})
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{choice}}, nil
}

// decide is what the model does next: none is an answer.
func (m *podModel) decide(r request) []wish {
	pick := func(from []string) string { return from[m.dice.IntN(len(from))] }
	if tool := r.forbidden; len(tool) > 0 && (r.calls == 0 || m.dice.IntN(2) == 0) {
		return []wish{{Tool: pick(tool)}}
	}
	if r.calls >= longestRun {
		return nil
	}
	one := func() wish {
		switch n := m.dice.IntN(20); {
		case n < 7 && len(r.listed) > 0:
			return wish{"skill", pick(r.listed)}
		case n < 10 && len(r.active) > 0:
			return wish{"skill_dismiss", pick(r.active)}
		}
		return wish{Tool: pick(deskTools)}
	}
	switch n := m.dice.IntN(20); {
	case n < 2 && r.calls > 0:
		return nil
	case n < 5:
		return []wish{one(), one()}
	}
	return []wish{one()}
}

// request is what a model reads in its messages.
type request struct {
	listed    []string // skills
	active    []string // skills whose bodies it reads and that were not released
	forbidden []string // tools, by the bodies that it read last
	told      []told
	calls     int
}

var (
	listedSkill   = regexp.MustCompile(`(?m)^- (\S+): All about `)
	earlierSkill  = regexp.MustCompile(`The skill (\S+) was loaded earlier`)
	forbiddenHere = regexp.MustCompile(`Forbidden under \S+: (.*)\.\n`)
	launchedSkill = regexp.MustCompile(`^Launching skill: (\S+)\n`)
	releasedSkill = regexp.MustCompile(`^Skill (\S+) is released`)
)

func understand(messages []llms.MessageContent) (r request) {
	tools := func(text string) {
		r.forbidden = nil
		for _, m := range forbiddenHere.FindAllStringSubmatch(text, -1) {
			r.forbidden = append(r.forbidden, strings.Fields(m[1])...)
		}
	}
	for _, m := range messages {
		for _, part := range m.Parts {
			switch part := part.(type) {
			case llms.TextContent:
				if m.Role != llms.ChatMessageTypeHuman {
					continue
				}
				for _, s := range listedSkill.FindAllStringSubmatch(part.Text, -1) {
					r.listed = append(r.listed, s[1])
				}
				for _, s := range earlierSkill.FindAllStringSubmatch(part.Text, -1) {
					r.active = append(r.active, s[1])
				}
				tools(part.Text)
			case llms.ToolCallResponse:
				r.calls++
				tools(part.Content)
				if s := launchedSkill.FindStringSubmatch(part.Content); s != nil {
					r.told = append(r.told, told{CallID: part.ToolCallID, Skill: s[1]})
					r.active = append(r.active, s[1])
				}
				if s := releasedSkill.FindStringSubmatch(part.Content); s != nil {
					r.told = append(r.told, told{CallID: part.ToolCallID, Skill: s[1], Dismissed: true})
					r.active = slices.DeleteFunc(r.active, func(name string) bool { return name == s[1] })
				}
			}
		}
	}
	return r
}

// reference judges the tools of one run by the plain words of the gate's rules
// (limits and bans of the launches in the turn, grants, batches), one run after
// the other and without any State. It never knows more launches than the run
// did, so that what it forbids must not run.
type reference struct {
	turn    int
	held    []string // launched in the turn, in order
	granted []string // … and not dismissed
	batch   []wish   // the calls of the model's last answer
	before  []string // held before it
	grants  []string // granted before it

	contested bool // merged from copies that differed: each launch is a limit of its own, and none grants
}

// begin begins a run on what was loaded: a State whose turn it may go on with.
func (r *reference) begin(l *ledgers) {
	*r = reference{}
	if l == nil {
		return
	}
	r.turn, r.contested = l.Turn.N, l.Turn.Contested
	for _, i := range l.Invoked {
		if i.Turn == l.Turn.N {
			r.held = append(r.held, i.Skill)
			if !l.released(i.Skill, i.Turn, i.Seq) {
				r.granted = append(r.granted, i.Skill)
			}
		}
	}
}

// reach goes to the turn in which something happens.
func (r *reference) reach(turn int) {
	if r.turn != turn {
		*r = reference{turn: turn}
	}
}

// note follows the run.
func (r *reference) note(e entry) {
	switch {
	case e.At == atAnswer:
		r.reach(e.Turn)
		r.batch, r.before, r.grants = e.Calls, slices.Clone(r.held), slices.Clone(r.granted)
	case e.At == atEvent && e.Event.Type == skillbay.EventInvoked:
		r.reach(e.Event.Turn)
		r.held, r.granted = append(r.held, e.Event.Skill), append(r.granted, e.Event.Skill)
	case e.At == atEvent && e.Event.Type == skillbay.EventDismissed:
		r.reach(e.Event.Turn)
		r.granted = slices.DeleteFunc(r.granted, func(name string) bool { return name == e.Event.Skill })
	}
}

// forbids says why the tool must not run; "" lets it.
func (r *reference) forbids(tool string) string {
	if !r.lets(tool) {
		return fmt.Sprintf("%v are launched", r.before)
	}
	if tool == guardedTool && r.contested {
		return "in a contested turn nothing grants"
	}
	if tool == guardedTool && !slices.ContainsFunc(r.grants, func(name string) bool { return slices.Contains(rules[name].allowed, tool) }) {
		return fmt.Sprintf("only %v grant", r.grants)
	}
	for _, w := range r.batch {
		launches := w.Tool == "skill" && (!r.contested && slices.Contains(r.before, w.Skill) || r.lets("skill"))
		if launches && !within([]string{w.Skill}, tool) {
			return fmt.Sprintf("the same answer launches %s", w.Skill)
		}
	}
	return ""
}

// lets reports whether what was launched before the answer lets the tool run.
func (r *reference) lets(tool string) bool {
	if !r.contested {
		return within(r.before, tool)
	}
	return !slices.ContainsFunc(r.before, func(name string) bool { return !within([]string{name}, tool) })
}

// within reports whether the launched skills let the tool run: one list of all
// that have one must name it, and none may ban it.
func within(held []string, tool string) bool {
	limited, allowed := false, false
	for _, name := range held {
		r := rules[name]
		limited = limited || r.limits
		allowed = allowed || slices.Contains(r.allowed, tool)
		if slices.Contains(r.banned, tool) {
			return false
		}
	}
	return !limited || allowed
}
