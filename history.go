package skillbay

import (
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// pairing walks messages in order and finds the call that an answer belongs
// to (SPEC 8.1): the call with its id in the nearest AI message before it;
// where ids are empty or repeated in that message, the call at the same
// position. Ids are never matched across AI messages.
type pairing struct {
	parts []llms.ContentPart // of the nearest AI message
	nth   int                // answers seen since
}

// meet tells the pairing of an AI message.
func (p *pairing) meet(m llms.MessageContent) { p.parts, p.nth = m.Parts, 0 }

// callOf returns the call that the next answer belongs to, and its position
// among the message's calls.
func (p *pairing) callOf(answer llms.ToolCallResponse) (call llms.ToolCall, n int, found bool) {
	position := p.nth
	p.nth++
	matches, i := 0, 0
	var byID, byPosition llms.ToolCall
	idAt, positionAt := -1, -1
	for _, part := range p.parts {
		c, ok := part.(llms.ToolCall)
		if !ok {
			continue
		}
		if c.ID == answer.ToolCallID {
			byID, idAt = c, i
			matches++
		}
		if i == position {
			byPosition, positionAt = c, i
		}
		i++
	}
	switch {
	case answer.ToolCallID != "" && matches == 1:
		return byID, idAt, true
	case positionAt >= 0 && (answer.ToolCallID == "" || byPosition.ID == "" || matches > 1):
		return byPosition, positionAt, true
	}
	return call, 0, false
}

// launchedName returns the skill that an answer says it launched.
func launchedName(content string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(content, launchLine)
	if !ok {
		return "", false
	}
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		rest = rest[:i]
	}
	return rest, rest != ""
}

// isSkillCall reports whether the call is of the skill tool.
func isSkillCall(call llms.ToolCall) bool {
	return call.FunctionCall != nil && sameTool(call.FunctionCall.Name, toolSkill)
}

// textOf returns the text of a message: its text parts, concatenated.
func textOf(m llms.MessageContent) string {
	first, more := "", false
	for _, part := range m.Parts {
		if t, ok := partText(part); ok {
			if first != "" && t != "" {
				more = true
				break
			}
			if first == "" {
				first = t
			}
		}
	}
	if !more {
		return first
	}
	var b strings.Builder
	for _, part := range m.Parts {
		if t, ok := partText(part); ok {
			b.WriteString(t)
		}
	}
	return b.String()
}

// partText returns the text of a text part, also of one with cache control.
func partText(part llms.ContentPart) (string, bool) {
	if cached, ok := part.(llms.CachedContent); ok {
		part = cached.ContentPart
	}
	p, ok := part.(llms.TextContent)
	return p.Text, ok
}

// isHuman reports whether the message speaks for the user.
func isHuman(m llms.MessageContent) bool { return m.Role == llms.ChatMessageTypeHuman }

// chapter is what CallTool and CheckAllowedTools read in a history: the calls
// of the last AI message, and the skills that answers before it launched in
// the current turn.
type chapter struct {
	history []llms.MessageContent
	calls   []llms.ToolCall // of the last AI message
	names   []string        // skills named by launching answers, without repeats
}

// ais counts the AI messages of the history: what tells an answer from an equal
// one before, where the State does not wait for its calls.
func (c *chapter) ais() (n int) {
	for i := range c.history {
		if c.history[i].Role == llms.ChatMessageTypeAI {
			n++
		}
	}
	return n
}

// readChapter reads the current turn of a history, from the end. reminder
// tells which human messages are the host's own reminders (nil: none).
func readChapter(history []llms.MessageContent, reminder func(llms.MessageContent) bool) chapter {
	c := chapter{history: history}
	start, lastAI := 0, -1
	for i := len(history) - 1; i >= 0; i-- {
		m := history[i]
		if m.Role == llms.ChatMessageTypeAI && lastAI < 0 {
			lastAI = i
		}
		if start == 0 && isHuman(m) && (reminder == nil || !reminder(m)) {
			start = i + 1
		}
		if start > 0 && lastAI >= 0 {
			break
		}
	}
	if lastAI < 0 {
		return c
	}
	c.calls = callsOf(history[lastAI])
	if lastAI < start {
		return c
	}

	// An answer may belong to a call that stands before the user's message.
	from := start
	for i := start - 1; i >= 0; i-- {
		if history[i].Role == llms.ChatMessageTypeAI {
			from = i
			break
		}
	}
	for _, a := range launchingAnswers(history[from:lastAI]) {
		if from+a.message >= start {
			c.names = append(c.names, a.name)
		}
	}
	return c
}

// launching is an answer that launches a skill and belongs to a skill call.
type launching struct {
	message, part int
	name, content string
	input         string // of the call
}

// launchingAnswers finds the answers that launch skills.
func launchingAnswers(messages []llms.MessageContent) (found []launching) {
	var p pairing
	for i, m := range messages {
		if m.Role == llms.ChatMessageTypeAI {
			p.meet(m)
		}
		for n, part := range m.Parts {
			if answer, ok := part.(llms.ToolCallResponse); ok && m.Role == llms.ChatMessageTypeTool {
				found = p.appendLaunching(found, i, n, answer)
			}
		}
	}
	return found
}

// appendLaunching appends the next answer if it launches a skill.
func (p *pairing) appendLaunching(to []launching, message, part int, answer llms.ToolCallResponse) []launching {
	name, ok := launchedName(answer.Content)
	if !ok {
		p.nth++
		return to
	}
	if call, _, found := p.callOf(answer); found && isSkillCall(call) {
		if to == nil {
			to = make([]launching, 0, 4)
		}
		to = append(to, launching{message, part, name, answer.Content, inputOf(call)})
	}
	return to
}

// callsOf returns the tool calls of a message, in order.
func callsOf(m llms.MessageContent) []llms.ToolCall {
	var calls []llms.ToolCall
	for _, part := range m.Parts {
		if call, ok := part.(llms.ToolCall); ok {
			calls = append(calls, call)
		}
	}
	return calls
}
