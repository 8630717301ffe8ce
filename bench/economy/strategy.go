package economy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/skillbay/skillbay"
	"github.com/tmc/langchaingo/llms"
)

// A Strategy is a way to deliver skills to a model.
type Strategy int

// The strategies.
const (
	// NoSkills sends the conversation alone. It is no rival: what it sends, every
	// other strategy sends too.
	NoSkills Strategy = iota
	// Oracle puts the one body that the turn needs into every call, as a router
	// could that is never wrong and costs nothing. It is no rival but a floor: no
	// strategy with full availability can send fewer tokens.
	Oracle
	// InPrompt puts all bodies into the system prompt.
	InPrompt
	// LoadAndKeep lists skills and delivers a body as the answer of a tool, where
	// it stays until a summary cuts it. The model loads it again when it needs it.
	LoadAndKeep
	// LoadAndLose is LoadAndKeep with a model that believes a summary which says
	// that the skill was loaded.
	LoadAndLose
	// LoadAndReattach is LoadAndKeep with a host that attaches all loaded bodies
	// to every summary.
	LoadAndReattach
	// Skillbay is skillbay: Options.Discipline says how often the model releases
	// a skill, Options.IdleTurns when skillbay does.
	Skillbay
)

// Rivals are the strategies that skillbay is compared with.
func Rivals() []Strategy {
	return []Strategy{InPrompt, LoadAndKeep, LoadAndLose, LoadAndReattach}
}

// String is the strategy's name in tables.
func (s Strategy) String() string {
	return [...]string{
		"no skills", "needed body only", "all in the prompt", "load and keep", "load and lose",
		"load and re-attach", "skillbay",
	}[s]
}

// chat is one conversation under one strategy.
type chat interface {
	// send makes one model call.
	send(ctx context.Context, history []llms.MessageContent) (*llms.ContentResponse, error)
	// run answers the calls of the last message of history.
	run(ctx context.Context, history []llms.MessageContent, calls []llms.ToolCall, next skillbay.Next) ([]llms.MessageContent, error)
	// summary makes the message that takes the place of what was cut.
	summary(ctx context.Context, text string) (llms.MessageContent, error)
}

// hostTools are the service's own tools.
func hostTools() []llms.Tool {
	list := make([]llms.Tool, len(tools))
	for i, name := range tools {
		list[i] = llms.Tool{Type: "function", Function: &llms.FunctionDefinition{
			Name: name, Description: "Reads or writes what the company's systems hold about the case: " + name + ".",
			Parameters: map[string]any{
				"type":       "object",
				"properties": map[string]any{"case": map[string]any{"type": "string", "description": "The number of the case."}},
				"required":   []string{"case"},
			},
		}}
	}
	return list
}

// plain is the conversation of a reference strategy.
type plain struct {
	w      *Workload
	kind   Strategy
	model  *model
	tools  []llms.Tool
	prompt []llms.ContentPart // of the system message
	loaded []string           // skills, in order of their first load
}

func newPlain(w *Workload, kind Strategy, m *model) (*plain, error) {
	p := &plain{w: w, kind: kind, model: m, tools: hostTools(), prompt: []llms.ContentPart{llms.TextPart(system())}}
	switch kind {
	case InPrompt:
		for _, s := range w.skills {
			p.prompt = append(p.prompt, llms.TextPart(s.body))
		}
	case LoadAndKeep, LoadAndLose, LoadAndReattach:
		// The tool and the list in skillbay's own words, without those about
		// releasing: what differs is what is done with a body, not how it is offered.
		t := *skillbay.English
		t.ListingIntro = strings.TrimSuffix(t.ListingIntro, " Release one that is no longer needed with `skill_dismiss`.")
		mw, err := skillbay.New(skillbay.Config{Skills: []skillbay.Source{skillbay.FS(files(w.skills), ".")}, Texts: &t})
		if err != nil {
			return nil, err
		}
		for _, d := range mw.ToolDefinitions() {
			if d.Function.Name == toolSkill {
				p.tools = append(p.tools, d)
			}
		}
		p.prompt = append(p.prompt, llms.TextPart(mw.Listing()))
		m.trusting = kind == LoadAndLose
	}
	return p, nil
}

func (p *plain) send(ctx context.Context, history []llms.MessageContent) (*llms.ContentResponse, error) {
	sent := []llms.MessageContent{{Role: llms.ChatMessageTypeSystem, Parts: p.prompt}}
	sent = append(sent, history...)
	if p.kind == Oracle {
		for i := len(sent) - 1; i > 0; i-- {
			if t := p.w.said(human(sent[i])); sent[i].Role == llms.ChatMessageTypeHuman && t != nil {
				if t.need != "" {
					sent[i] = llms.TextParts(llms.ChatMessageTypeHuman,
						"<system-reminder>"+p.w.skill(t.need).body+"</system-reminder>\n"+t.user)
				}
				break
			}
		}
	}
	return p.model.GenerateContent(ctx, sent, llms.WithTools(p.tools))
}

func (p *plain) run(
	ctx context.Context, _ []llms.MessageContent, calls []llms.ToolCall, next skillbay.Next,
) ([]llms.MessageContent, error) {
	var results []llms.MessageContent
	for _, call := range calls {
		text, err := p.answer(ctx, call, next)
		if err != nil {
			return nil, err
		}
		results = append(results, llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{
			llms.ToolCallResponse{ToolCallID: call.ID, Name: call.FunctionCall.Name, Content: text},
		}})
	}
	return results, nil
}

func (p *plain) answer(ctx context.Context, call llms.ToolCall, next skillbay.Next) (string, error) {
	if call.FunctionCall.Name != toolSkill {
		return next(ctx, call)
	}
	for _, s := range p.w.skills {
		if call.FunctionCall.Arguments == fmt.Sprintf(`{"skill":%q}`, s.name) {
			if !slices.Contains(p.loaded, s.name) {
				p.loaded = append(p.loaded, s.name)
			}
			return "Launching skill: " + s.name + "\n\n" + s.body, nil
		}
	}
	return "", fmt.Errorf("economy: unexpected call of %s: %s", toolSkill, call.FunctionCall.Arguments)
}

func (p *plain) summary(_ context.Context, text string) (llms.MessageContent, error) {
	if p.kind == LoadAndReattach {
		for _, name := range p.loaded {
			text += "\n\nThe skill " + name + " was loaded earlier in this conversation and its instructions still apply.\n\n" +
				p.w.skill(name).body
		}
	}
	return llms.TextParts(llms.ChatMessageTypeHuman, text), nil
}

// bay is the conversation of skillbay: as README's loop of one's own.
type bay struct {
	mw    *skillbay.Middleware
	model llms.Model
	tools []llms.Tool
}

func newBay(w *Workload, m *model, o Options) (*bay, error) {
	mw, err := skillbay.New(skillbay.Config{
		Skills:    []skillbay.Source{skillbay.FS(files(w.skills), ".")},
		IdleTurns: o.IdleTurns,
	})
	if err != nil {
		return nil, err
	}
	return &bay{mw: mw, model: mw.WrapModel(m), tools: hostTools()}, nil
}

func (b *bay) send(ctx context.Context, history []llms.MessageContent) (*llms.ContentResponse, error) {
	messages := append([]llms.MessageContent{llms.TextParts(llms.ChatMessageTypeSystem, system())}, history...)
	return b.model.GenerateContent(ctx, messages, llms.WithTools(b.tools))
}

func (b *bay) run(
	ctx context.Context, history []llms.MessageContent, calls []llms.ToolCall, next skillbay.Next,
) ([]llms.MessageContent, error) {
	return b.mw.CallTools(ctx, history, calls, next)
}

func (b *bay) summary(ctx context.Context, text string) (llms.MessageContent, error) {
	return b.mw.Reminder(ctx, text)
}
