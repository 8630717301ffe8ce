package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/skillbay/skillbay"
	"github.com/tmc/langchaingo/callbacks"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/schema"
)

// record is what happened in one turn: what the story's expectations look at.
type record struct {
	turn     int
	ran      []string         // business tools that really ran
	events   []skillbay.Event // audit events
	requests []string         // the texts of every request, as the model got them
	tokens   int              // of all requests, tool definitions included
	answer   string
}

// transcript prints a conversation with its audit events inline, and keeps the
// record of the current turn. Safe for any number of goroutines.
type transcript struct {
	words *words

	mu     sync.Mutex
	out    io.Writer
	record record
	shown  int // answers of tools already printed in this turn
}

// margin indents all that is neither the customer's nor the agent's.
const margin = "          "

// begin opens a turn.
func (t *transcript) begin(turn int, at time.Time, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.record, t.shown = record{turn: turn}, 0
	head := fmt.Sprintf("── %s · %s ", fmt.Sprintf(t.words.turn, turn), at.Format("15:04"))
	t.print("\n%s%s\n%s%s\n", head, strings.Repeat("─", 72-utf8.RuneCountInString(head)), t.words.customer, text)
}

// end closes the turn with the agent's answer and returns its record.
func (t *transcript) end(answer string) record {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.record.answer = answer
	if answer != "" {
		t.print("%s%s\n", t.words.agent, answer)
	}
	return t.record
}

// host prints something that the shop itself did.
func (t *transcript) host(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.print("\n%s%s\n", t.words.host, fmt.Sprintf(format, args...))
}

// line prints a line as it is.
func (t *transcript) line(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.print(format+"\n", args...)
}

// prompt asks for the next line of a chat.
func (t *transcript) prompt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.print("\n> ")
}

// print writes to the output; the lock is held. A broken pipe is not worth a
// failed conversation.
func (t *transcript) print(format string, args ...any) {
	_, _ = fmt.Fprintf(t.out, format, args...)
}

// audit is skillbay's Config.Audit.
func (t *transcript) audit(_ context.Context, e skillbay.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.record.events = append(t.record.events, e)
	words := []string{e.Type, subject(e)}
	if e.Type == skillbay.EventBlocked && len(e.Skills) > 0 {
		words = append(words, strings.Join(e.Skills, ", "))
	}
	if e.Args != "" && e.Type == skillbay.EventInvoked {
		words = append(words, "args="+cut(e.Args, 48))
	}
	if e.Detail != "" {
		words = append(words, "("+cut(e.Detail, 72)+")")
	}
	t.print("%s⇒ %s\n", margin, strings.Join(words, "  "))
}

// ran records that a business tool ran.
func (t *transcript) ran(tool string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.record.ran = append(t.record.ran, tool)
}

// calls is a langchaingo callback handler that prints the agent's tool calls,
// of whatever kind the agent is.
type calls struct {
	callbacks.SimpleHandler
	transcript *transcript
}

// HandleAgentAction prints one tool call before it is judged.
func (c calls) HandleAgentAction(_ context.Context, a schema.AgentAction) {
	c.transcript.mu.Lock()
	defer c.transcript.mu.Unlock()
	c.transcript.print("%s→ %s %s\n", margin, a.Tool, cut(a.ToolInput, 96))
}

// meter is the innermost model: it sees what is really sent. It counts it,
// prints the answers of tools, and passes everything on.
type meter struct {
	llms.Model
	transcript *transcript
}

// GenerateContent records the request and calls the model.
func (m meter) GenerateContent(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	m.transcript.sent(messages, options)
	return m.Model.GenerateContent(ctx, messages, options...)
}

// sent records a request.
func (t *transcript) sent(messages []llms.MessageContent, options []llms.CallOption) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var texts, answers []string
	for _, m := range messages {
		if m.Role == llms.ChatMessageTypeHuman {
			answers = nil
		}
		for _, part := range m.Parts {
			switch p := part.(type) {
			case llms.TextContent:
				texts = append(texts, p.Text)
			case llms.ToolCall:
				if p.FunctionCall != nil {
					texts = append(texts, p.FunctionCall.Name+p.FunctionCall.Arguments)
				}
			case llms.ToolCallResponse:
				texts, answers = append(texts, p.Content), append(answers, p.Content)
			}
		}
	}
	for _, a := range answers[min(t.shown, len(answers)):] {
		t.print("%s← %s\n", margin, brief(a))
	}
	t.shown = len(answers)
	request := strings.Join(texts, "\n")
	if t.record.turn == 1 && len(t.record.requests) == 0 {
		t.print("%s%s\n", margin, t.words.notes.listing)
		for _, l := range listingLine.FindAllString(request, -1) {
			t.print("%s  %s\n", margin, cut(l, 100))
		}
	}
	t.record.requests = append(t.record.requests, request)
	t.record.tokens += tokens(request) + tokens(definitions(options))
}

// definitions returns the tool definitions of a request as they go on the wire.
func definitions(options []llms.CallOption) string {
	var o llms.CallOptions
	for _, option := range options {
		option(&o)
	}
	text, err := json.Marshal(struct {
		Tools     []llms.Tool
		Functions []llms.FunctionDefinition
	}{o.Tools, o.Functions})
	if err != nil {
		return ""
	}
	return string(text)
}

// tokens estimates a text as skillbay does: four ASCII characters are a token,
// any other character is one.
func tokens(text string) int {
	ascii, other := 0, 0
	for _, c := range text {
		if c < utf8.RuneSelf {
			ascii++
		} else {
			other++
		}
	}
	return (ascii+3)/4 + other
}

// brief returns a tool's answer on one line, with its size when it is long.
func brief(text string) string {
	first, rest, _ := strings.Cut(text, "\n")
	if strings.TrimSpace(rest) == "" {
		return cut(first, 160)
	}
	return fmt.Sprintf("%s … (%d tokens)", cut(first, 96), tokens(text))
}

// cut shortens a text to n characters, on one line.
func cut(text string, n int) string {
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}
