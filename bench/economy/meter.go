package economy

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/tmc/langchaingo/llms"
)

// A Counter counts the tokens of a text. It need not be safe for concurrent use.
type Counter interface {
	// Count is the number of tokens of s.
	Count(s string) int
	// Common is how many of a's first tokens a text b begins with too.
	Common(a, b string) int
}

// Plain counts as skillbay does by default: 4 ASCII characters are one token,
// any other character is one.
type Plain struct{}

// Count implements Counter.
func (Plain) Count(s string) int {
	ascii, other := kinds(s)
	return (ascii+3)/4 + other
}

// Common implements Counter. A token that only begins alike is not common.
func (p Plain) Common(a, b string) int {
	if a == b {
		return p.Count(a)
	}
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	for n > 0 && n < len(a) && !utf8.RuneStart(a[n]) {
		n--
	}
	ascii, other := kinds(a[:n])
	return ascii/4 + other
}

func kinds(s string) (ascii, other int) {
	for _, r := range s {
		if r < utf8.RuneSelf {
			ascii++
		} else {
			other++
		}
	}
	return ascii, other
}

// meter accounts for the calls of one conversation.
type meter struct {
	counter  Counter
	counts   map[string]int       // by segment
	segments map[[2]string]string // by role and text: conversations send theirs again and again
	previous []string
}

func newMeter(c Counter) *meter {
	return &meter{counter: c, counts: map[string]int{}, segments: map[[2]string]string{}}
}

// measure returns how many tokens a call sends, and how many of them are a
// prefix of the previous call.
func (m *meter) measure(call []string) (tokens, cached int) {
	same := true
	for i, segment := range call {
		n, known := m.counts[segment]
		if !known {
			n = m.counter.Count(segment)
			m.counts[segment] = n
		}
		tokens += n
		switch {
		case !same:
		case i < len(m.previous) && m.previous[i] == segment:
			cached += n
		default:
			same = false
			if i < len(m.previous) {
				cached += m.counter.Common(segment, m.previous[i])
			}
		}
	}
	m.previous = call
	return tokens, cached
}

// serialise writes a call as providers do: tools, system prompt, messages. A
// segment is a part with its role's mark; the call's bytes are the segments
// one after the other.
func (m *meter) serialise(messages []llms.MessageContent, offered []llms.Tool) []string {
	var tools, system, rest []string
	for _, t := range offered {
		data, err := json.Marshal(t)
		if err != nil {
			panic(err) // a tool of this package or of skillbay's
		}
		tools = append(tools, string(data)+"\n")
	}
	for _, msg := range messages {
		for _, part := range msg.Parts {
			if msg.Role == llms.ChatMessageTypeSystem {
				system = append(system, m.segment(string(msg.Role), textOf(part)))
			} else {
				rest = append(rest, m.segment(string(msg.Role), textOf(part)))
			}
		}
	}
	return append(append(tools, system...), rest...)
}

func (m *meter) segment(role, text string) string {
	s, known := m.segments[[2]string{role, text}]
	if !known {
		s = "\n<" + role + ">\n" + text
		m.segments[[2]string{role, text}] = s
	}
	return s
}

// textOf is a part as it goes over the wire, without the provider's dressing.
func textOf(part llms.ContentPart) string {
	switch p := part.(type) {
	case llms.TextContent:
		return p.Text
	case llms.ToolCall:
		return p.ID + " " + p.FunctionCall.Name + " " + p.FunctionCall.Arguments
	case llms.ToolCallResponse:
		return p.ToolCallID + " " + p.Content
	}
	panic("economy: a part that no strategy sends")
}

// human is the text of a human message without a reminder block in front.
func human(m llms.MessageContent) string {
	text := ""
	for _, part := range m.Parts {
		text += textOf(part)
	}
	const open, end = "<system-reminder>", "</system-reminder>\n"
	if strings.HasPrefix(text, open) {
		if _, after, found := strings.Cut(text, end); found {
			return after
		}
	}
	return text
}
