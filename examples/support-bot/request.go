package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// request is what one call sends to a model, as the scripted model reads it:
// nothing here comes from anywhere but the messages and the tools.
type request struct {
	messages []llms.MessageContent
	offered  map[string]llms.FunctionDefinition // by name; empty: no tools
	listing  []listed                           // the skills that the request lists
	bodies   []body                             // bodies in the reminder, in order
	question string                             // the newest human text, without reminders
	steps    []step                             // tool calls since then, with their answers
}

// listed is one line of the listing.
type listed struct{ name, description string }

// body is the text of one skill as the request holds it.
type body struct {
	skill, text string
	follow      bool // to be followed now: launched in this turn, or invoked by the host
	from        int  // the first step that counts as work under it
}

// step is one tool call and its answer.
type step struct {
	tool   string
	args   map[string]string
	answer string
}

// baseLine begins every skill's body, whatever the language of the rest.
const baseLine = "Base directory for this skill: "

var (
	reminderBlock = regexp.MustCompile(`(?s)<system-reminder>(.*?)</system-reminder>\s*`)
	listingLine   = regexp.MustCompile(`(?m)^- ([a-z0-9-]+): (.+)$`)
	launchLine    = regexp.MustCompile(`^Launching skill: (\S+)`)
)

// readRequest reads messages and options as a model's server would. The mark
// is the wording by which a body invoked by the host is told from an old one.
func readRequest(messages []llms.MessageContent, options []llms.CallOption, mark string) *request {
	var o llms.CallOptions
	for _, option := range options {
		option(&o)
	}
	r := &request{messages: messages, offered: map[string]llms.FunctionDefinition{}}
	for _, t := range o.Tools {
		if t.Function != nil {
			r.offered[t.Function.Name] = *t.Function
		}
	}
	for _, f := range o.Functions {
		r.offered[f.Name] = f
	}
	last := -1
	for i, m := range messages {
		if m.Role == llms.ChatMessageTypeHuman {
			last = i
			for _, block := range reminderBlock.FindAllStringSubmatch(textOf(m), -1) {
				r.readReminder(block[1], mark)
			}
		}
	}
	if last >= 0 {
		r.question = strings.TrimSpace(reminderBlock.ReplaceAllString(textOf(messages[last]), ""))
		r.readSteps(messages[last+1:])
	}
	return r
}

// readReminder reads a listing and bodies out of one reminder.
func (r *request) readReminder(text, mark string) {
	parts := strings.Split(text, baseLine)
	for _, line := range listingLine.FindAllStringSubmatch(parts[0], -1) {
		r.listing = append(r.listing, listed{line[1], line[2]})
	}
	for i, part := range parts[1:] {
		dir, rest, _ := strings.Cut(part, "\n")
		intro := parts[i] // its tail announces this body
		intro = intro[max(0, strings.LastIndex(strings.TrimRight(intro, "\n"), "\n")):]
		r.bodies = append(r.bodies, body{
			skill:  strings.TrimPrefix(dir, "skill://"),
			text:   rest,
			follow: strings.Contains(intro, mark),
		})
	}
}

// readSteps pairs the calls since the question with their answers. A launch
// makes its body one to follow.
func (r *request) readSteps(messages []llms.MessageContent) {
	byID := map[string]int{}
	for _, m := range messages {
		for _, part := range m.Parts {
			switch p := part.(type) {
			case llms.ToolCall:
				if p.FunctionCall == nil {
					continue
				}
				s := step{tool: p.FunctionCall.Name, args: map[string]string{}}
				_ = json.Unmarshal([]byte(p.FunctionCall.Arguments), &s.args) // what is no object has no arguments
				byID[p.ID] = len(r.steps)
				r.steps = append(r.steps, s)
			case llms.ToolCallResponse:
				if i, ok := byID[p.ToolCallID]; ok {
					r.steps[i].answer = p.Content
				}
			}
		}
	}
	for i, s := range r.steps {
		name := s.launch()
		if name == "" {
			continue
		}
		if _, text, ok := strings.Cut(s.answer, baseLine); ok {
			r.bodies = append(r.bodies, body{skill: name, text: text, follow: true, from: i + 1})
			continue
		}
		for j := range r.bodies { // its body stands above
			if r.bodies[j].skill == name {
				r.bodies[j].follow, r.bodies[j].from = true, i+1
			}
		}
	}
}

// launched reports whether the skill was launched since the question.
func (r *request) launched(skill string) bool {
	return slices.ContainsFunc(r.steps, func(s step) bool {
		return s.launch() == skill
	})
}

// tried returns the first step from the given one on that calls the tool and
// whose arguments include want.
func (r *request) tried(from int, tool string, want map[string]string) (step, bool) {
	for _, s := range r.steps[from:] {
		matches := s.tool == tool
		for k, v := range want {
			matches = matches && s.args[k] == v
		}
		if matches {
			return s, true
		}
	}
	return step{}, false
}

// launch returns the skill that a step launched; "" when it launched none.
func (s step) launch() string {
	found := launchLine.FindStringSubmatch(s.answer)
	if s.tool != "skill" || found == nil {
		return ""
	}
	return found[1]
}

// fields reads the flat JSON object that a business tool answers; nil for any
// other text, such as a refusal.
func (s step) fields() map[string]string {
	var fields map[string]string
	if json.Unmarshal([]byte(s.answer), &fields) != nil {
		return nil
	}
	return fields
}

// refused reports whether a business tool was called and answered no JSON:
// the gate's words, not the tool's.
func (s step) refused() bool {
	switch s.tool {
	case "skill", "skill_dismiss", "skill_file":
		return false
	}
	return s.fields() == nil
}

// businessTools returns the offered tools that are not skillbay's, sorted.
func (r *request) businessTools() []string {
	var names []string
	for name := range r.offered {
		if name != "skill" && !strings.HasPrefix(name, "skill_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// textOf returns the texts of a message, one a line.
func textOf(m llms.MessageContent) string {
	var texts []string
	for _, part := range m.Parts {
		if t, ok := part.(llms.TextContent); ok {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "\n")
}
