package wire

import (
	"encoding/json"
	"strings"
)

// Kind tells what an Item of a Prompt is.
type Kind string

// The kinds of items.
const (
	User   Kind = "user"   // the user said Text
	Model  Kind = "model"  // the model said Text
	Call   Kind = "call"   // the model called tool Name with the JSON object Text
	Result Kind = "result" // tool Name returned Text; Name is empty where the format has none
)

// Item is one thing that was said or done in a conversation. A message of a
// provider's may be several.
type Item struct {
	Kind       Kind
	Name, Text string
}

// Tool is a tool's definition as it arrived. Schema is decoded JSON, with the
// provider's spelling of types made JSON Schema's.
type Tool struct {
	Name, Description string
	Schema            any
}

// Prompt is what a provider passes to its model.
type Prompt struct {
	System string
	Items  []Item
	Tools  []Tool
	Stop   []string // stop sequences
}

// String is all that the model reads, but for the tools.
func (p Prompt) String() string {
	var b strings.Builder
	b.WriteString(p.System)
	for _, item := range p.Items {
		b.WriteString("\n" + item.Text)
	}
	return b.String()
}

// tokens is a rough count, for usage figures.
func (p Prompt) tokens() int { return 1 + len(p.String())/4 }

// ToolCall is a call that a model makes. Arguments is a JSON object.
type ToolCall struct {
	Name      string
	Arguments json.RawMessage
}

// Reply is a model's answer: a text, calls, or a text beside calls. More than
// one call are parallel calls.
type Reply struct {
	Text  string
	Calls []ToolCall
}

// Script is a model: its reply to a prompt. It must be safe for concurrent use.
type Script func(Prompt) Reply

// cutAt ends the text before the first stop sequence in it, as the service
// does.
func (r Reply) cutAt(stop []string) Reply {
	for _, s := range stop {
		if before, _, found := strings.Cut(r.Text, s); found && s != "" {
			r.Text = before
		}
	}
	return r
}

// tokens is a rough count, for usage figures.
func (r Reply) tokens() int {
	n := len(r.Text)
	for _, call := range r.Calls {
		n += len(call.Arguments)
	}
	return 1 + n/4
}

// pieces are the parts of a text that is streamed: words with the blanks
// before them.
func pieces(text string) []string {
	var out []string
	for text != "" {
		end := len(text)
		if i := strings.IndexAny(text[1:], " \n"); i >= 0 {
			end = i + 1
		}
		out = append(out, text[:end])
		text = text[end:]
	}
	return out
}

// halves splits arguments, so that a stream delivers them in two parts.
func halves(arguments json.RawMessage) []string {
	middle := len(arguments) / 2
	return []string{string(arguments[:middle]), string(arguments[middle:])}
}
