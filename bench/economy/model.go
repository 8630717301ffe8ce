package economy

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// Names of the tools that deliver and release skills.
const (
	toolSkill   = "skill"
	toolDismiss = "skill_dismiss"
)

// model stands in for a provider's: it accounts for every call, and answers
// from what it is sent alone.
type model struct {
	w          *Workload
	meter      *meter
	discipline float64    // how often it releases the skill that it turns away from
	trusting   bool       // it does not load again what a summary says was loaded
	coins      *rand.Rand // of the discipline
	calls      int

	cost  Cost            // of the current turn
	had   bool            // at every call so far of the turn that worked under its skill, the body stood whole
	loads map[string]bool // skills that the model called in this turn: once each
	turn  string          // the user's message that the above belongs to
}

var _ llms.Model = (*model)(nil)

// Call implements llms.Model.
func (m *model) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, options...)
}

// GenerateContent implements llms.Model.
func (m *model) GenerateContent(
	_ context.Context, messages []llms.MessageContent, options ...llms.CallOption,
) (*llms.ContentResponse, error) {
	var o llms.CallOptions
	for _, option := range options {
		option(&o)
	}
	call := m.meter.serialise(messages, o.Tools)
	tokens, cached := m.meter.measure(call)
	m.cost.Calls++
	m.cost.Tokens += tokens
	m.cost.Cached += cached

	v, err := m.read(messages)
	if err != nil {
		return nil, err
	}
	choice := m.answer(v, call, offers(o.Tools))
	m.cost.Written += m.meter.counter.Count(choice.Content)
	for _, c := range choice.ToolCalls {
		m.cost.Written += m.meter.counter.Count(c.FunctionCall.Name + c.FunctionCall.Arguments)
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{choice}}, nil
}

// view is what the model understands of the messages it is sent.
type view struct {
	turn    *turn  // what the user asks for now
	before  string // the skill that the message before needed, as far as it still stands
	done    int    // business calls that were answered since
	started bool   // the model has spoken in this turn
}

func (m *model) read(messages []llms.MessageContent) (view, error) {
	var v view
	for i := len(messages) - 1; i >= 0; i-- {
		switch msg := messages[i]; msg.Role {
		case llms.ChatMessageTypeHuman:
			t := m.w.said(human(msg))
			switch {
			case t == nil: // a summary
			case v.turn == nil:
				v.turn = t
			case t.need != "":
				v.before = t.need
				return v, nil
			}
		case llms.ChatMessageTypeAI:
			v.started = v.started || v.turn == nil
		case llms.ChatMessageTypeTool:
			for _, part := range msg.Parts {
				if r := part.(llms.ToolCallResponse); v.turn == nil && slices.Contains(tools, r.Name) {
					v.done++
				}
			}
		}
	}
	if v.turn == nil {
		return v, fmt.Errorf("economy: the model was sent no message of the user's")
	}
	return v, nil
}

// answer decides what to do next.
func (m *model) answer(v view, call []string, offered map[string]bool) *llms.ContentChoice {
	if m.turn != v.turn.user {
		m.turn, m.had, m.loads = v.turn.user, true, map[string]bool{}
	}
	choice := new(llms.ContentChoice)
	need := v.turn.need
	has := need == "" || m.stands(need, call)
	if turned := v.before != "" && need != "" && v.before != need; turned && !v.started && offered[toolDismiss] &&
		m.stands(v.before, call) && m.coins.Float64() < m.discipline {
		m.use(choice, toolDismiss, map[string]string{"skill": v.before, "reason": "another topic"})
	}
	if !has && offered[toolSkill] && m.mayLoad(need, call) {
		m.loads[need] = true
		m.use(choice, toolSkill, map[string]string{"skill": need})
		return choice
	}
	m.had = m.had && has
	if v.done < len(v.turn.results) {
		m.use(choice, v.turn.tool, map[string]string{"case": v.turn.user[:len("Case 000")]})
		return choice
	}
	choice.Content = v.turn.answer
	return choice
}

// stands reports whether the skill's body is whole in what was sent.
func (m *model) stands(name string, call []string) bool {
	s := m.w.skill(name)
	return slices.ContainsFunc(call, func(segment string) bool { return strings.Contains(segment, s.body) })
}

// mayLoad reports whether the model sees the name among the skills on offer
// and has a reason to call it.
func (m *model) mayLoad(name string, call []string) bool {
	listed, told := false, false
	for _, segment := range call {
		listed = listed || strings.Contains(segment, "- "+name+":") || strings.Contains(segment, "- "+name+"\n")
		told = told || strings.Contains(segment, "The skill "+name+" was loaded.")
	}
	return listed && !m.loads[name] && !(m.trusting && told)
}

func (m *model) use(choice *llms.ContentChoice, tool string, arguments map[string]string) {
	m.calls++
	data, _ := json.Marshal(arguments) // strings alone
	choice.ToolCalls = append(choice.ToolCalls, llms.ToolCall{
		ID: fmt.Sprintf("call_%03d", m.calls), Type: "function",
		FunctionCall: &llms.FunctionCall{Name: tool, Arguments: string(data)},
	})
}

func offers(list []llms.Tool) map[string]bool {
	offered := make(map[string]bool, len(list))
	for _, t := range list {
		offered[t.Function.Name] = true
	}
	return offered
}

// said returns the turn that the user's message begins, or nil.
func (w *Workload) said(text string) *turn {
	for i := range w.turns {
		if w.turns[i].user == text {
			return &w.turns[i]
		}
	}
	return nil
}

func (w *Workload) skill(name string) *skill {
	for i := range w.skills {
		if w.skills[i].name == name {
			return &w.skills[i]
		}
	}
	panic("economy: no skill " + name)
}
