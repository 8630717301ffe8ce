package integration

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"

	"github.com/skillbay/skillbay"
	"github.com/skillbay/skillbay/integration/wire"
)

// act is a turn of the conversation that every provider and agent goes through.
type act struct {
	says, wants string
	order       string // whose body is looked for
	// first and later are how often the body must be in the turn's first
	// request, and in the ones after it.
	first, later int
	// dismisses: in this turn the model dismisses the skill, which takes the
	// body out of the requests that follow (SPEC 10.5, 10.11).
	dismisses bool
}

// The conversation, up to the summary: listing, launch, allowed tool and
// blocked tool; the next turn, which has the body again; dismissal; after it;
// another launch; the same call twice, with an argument that is no JSON.
var acts = []act{
	{says: "Refund A1", wants: "Refunded A1.", order: "A1", first: 0, later: 1},
	{says: "Fee?", wants: "None.", order: "A1", first: 1, later: 1},
	{says: "Forget it", wants: "Forgotten.", order: "A1", first: 1, later: 0, dismisses: true},
	{says: "Fee?", wants: "I do not know.", order: "A1"},
	{says: "Twice", wants: "Noted twice.", order: "A1"},
	{says: "Refund A2", wants: "Refunded A2.", order: "A2", first: 0, later: 1},
}

// afterSummary and afterRestart have the second launch's body, once.
var afterSummary = act{says: "Fee?", wants: "None.", order: "A2", first: 1, later: 1}

// shift is one conversation between a worker and a provider.
type shift struct {
	t         testing.TB
	server    *wire.Server
	kind      kind
	stream    func(context.Context, []byte) error // nil: no streaming
	reference wire.Exchange                       // the same tools and mode by the bare client
	seen      int                                 // exchanges looked at
	tools     []byte                              // the tools as they first came
	problems  []string
}

// wrong notes a problem: what must hold and does not.
func (s *shift) wrong(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// converse holds the conversation and returns all that was wrong with it.
func converse(t testing.TB, p wire.Provider, k kind, streaming bool, options ...chains.ChainCallOption) []string {
	server := p.Serve(clerk)
	defer server.Close()
	s := &shift{t: t, server: server, kind: k}
	if streaming {
		s.stream = func(context.Context, []byte) error { return nil }
	}
	var events []string
	mw := newMiddleware(t, func(e skillbay.Event) { events = append(events, e.Type) })
	s.reference = bare(t, p, mw, k, s.stream)

	llm, err := server.Client()
	require.NoError(t, err)
	st := skillbay.NewState()
	ctx := skillbay.WithState(context.Background(), st)
	w, err := k.hire(t, mw, llm, options...)
	if err != nil {
		return []string{err.Error()}
	}
	for _, a := range acts {
		if s.play(ctx, w, a); len(s.problems) > 0 {
			return s.problems
		}
	}
	if err := w.summarise(ctx, "The customer had order A2 refunded."); err != nil {
		s.wrong("summarise: %v", err)
	}
	s.play(ctx, w, afterSummary)

	mw = newMiddleware(t, func(e skillbay.Event) { events = append(events, e.Type) })
	llm, err = server.Client()
	require.NoError(t, err)
	w, err = w.restart(t, mw, llm)
	require.NoError(t, err)
	s.play(skillbay.WithState(context.Background(), resume(t, st)), w, afterSummary)
	s.count(events)
	return s.problems
}

// bare is what the provider gets from the bare client when it is given the
// tools that must arrive: the measure of how they arrive. Its messages have the
// form of the kind's: langchaingo's Gemini client streams by it.
func bare(t testing.TB, p wire.Provider, mw *skillbay.Middleware, k kind, stream func(context.Context, []byte) error) wire.Exchange {
	server := p.Serve(func(wire.Prompt) wire.Reply { return wire.Reply{Text: "Hello."} })
	defer server.Close()
	llm, err := server.Client()
	require.NoError(t, err)
	messages := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "Hello")}
	if !k.react {
		messages = append([]llms.MessageContent{llms.TextParts(llms.ChatMessageTypeSystem, "Hello")}, messages...)
	}
	_, err = llm.GenerateContent(context.Background(), messages, llms.WithTools(deskTools(mw)), llms.WithStreamingFunc(stream))
	require.NoError(t, err)
	return server.Exchanges()[0]
}

// play is one turn, with all that must hold for its requests.
func (s *shift) play(ctx context.Context, w worker, a act) {
	answer, err := w.ask(ctx, a.says, s.stream)
	exchanges := s.server.Exchanges()[s.seen:]
	s.seen += len(exchanges)
	if err != nil {
		s.wrong("%q: %v", a.says, err)
	} else if got := strings.TrimSpace(answer); got != a.wants {
		s.wrong("%q: answered %q, not %q", a.says, got, a.wants)
	}
	for i, e := range exchanges {
		at := fmt.Sprintf("%q, request %d", a.says, i)
		if e.Refused != "" {
			s.wrong("%s: refused: %s", at, e.Refused)
			continue
		}
		read := e.Prompt.String()
		if n := strings.Count(read, listed); n != 1 {
			s.wrong("%s: the listing arrives %d times", at, n)
		}
		if n, want := strings.Count(read, bodyOf(a.order)), a.bodies(i); n != want {
			s.wrong("%s: the body of %s arrives %d times, not %d", at, a.order, n, want)
		}
		if strings.Contains(read, "key=") {
			s.wrong("%s: the key of a reminder is sent", at)
		}
		if e.Stream != s.reference.Stream {
			s.wrong("%s: streaming is %t, by the bare client %t", at, e.Stream, s.reference.Stream)
		}
		s.checkTools(at, e, read)
		if i > 0 && !a.dismisses {
			if why := grows(exchanges[i-1], e); why != "" {
				s.wrong("%s: %s", at, why)
			}
		}
	}
}

// bodies is how often the body must be in the turn's request i.
func (a act) bodies(i int) int {
	if i == 0 {
		return a.first
	}
	return a.later
}

// checkTools: the tools arrive as they do by the bare client, the same bytes
// throughout, and none twice; an agent of one prompt names them in its text.
func (s *shift) checkTools(at string, e wire.Exchange, read string) {
	if s.kind.react {
		if len(e.Prompt.Tools) > 0 {
			s.wrong("%s: tools on the wire of an agent that reads none", at)
		}
		for _, name := range []string{"lookup", "note", "skill", "skill_dismiss", "skill_file"} {
			if n := strings.Count(read, "- "+name+": "); n != 1 {
				s.wrong("%s: tool %s is described %d times", at, name, n)
			}
		}
		return
	}
	if !reflect.DeepEqual(e.Prompt.Tools, s.reference.Prompt.Tools) {
		s.wrong("%s: the tools are\n%v\nnot\n%v", at, e.Prompt.Tools, s.reference.Prompt.Tools)
	}
	if s.tools == nil {
		s.tools = e.Rest["tools"]
	}
	if !bytes.Equal(e.Rest["tools"], s.tools) {
		s.wrong("%s: the bytes of the tools changed", at)
	}
}

// grows tells why a request is not the one before it with something at its
// end; "" when it is.
func grows(before, now wire.Exchange) string {
	for key, value := range before.Rest {
		if !bytes.Equal(now.Rest[key], value) {
			return fmt.Sprintf("%s changed within the turn", key)
		}
	}
	if len(now.Rest) != len(before.Rest) {
		return "the request has other parameters than the one before"
	}
	if len(before.Messages) == 1 && len(now.Messages) == 1 { // one prompt, whose text grows
		// langchaingo's conversational agent ends every prompt with "Thought:",
		// which it does not repeat (agents/conversational.go:constructScratchPad).
		was, is := strings.TrimSuffix(before.Prompt.Items[0].Text, "\nThought:"), now.Prompt.Items[0].Text
		if strings.HasPrefix(is, was) {
			return ""
		}
		return "the prompt before is no prefix of this one"
	}
	for i, message := range before.Messages {
		if i >= len(now.Messages) || !bytes.Equal(now.Messages[i], message) {
			return fmt.Sprintf("message %d of the request before changed", i)
		}
	}
	return ""
}

// count checks the audit: everything once, the restart included.
func (s *shift) count(events []string) {
	for name, want := range map[string]int{
		skillbay.EventAnnounced: 1, skillbay.EventInvoked: 2, skillbay.EventBlocked: 2, skillbay.EventDismissed: 1,
	} {
		n := 0
		for _, e := range events {
			if e == name {
				n++
			}
		}
		if n != want {
			s.wrong("%s was audited %d times, not %d", name, n, want)
		}
	}
	if !slices.Contains(events, skillbay.EventReinjected) {
		s.wrong("nothing was re-injected")
	}
}
