package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/skillbay/skillbay"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/prompts"
)

// skillFiles are the skills of both languages, inside the binary: it runs from
// any directory.
//
//go:embed skills skills-zh
var skillFiles embed.FS

// setup is what a bot is made from; all fields are required, save oneShot.
type setup struct {
	store        *store
	words        *words
	model        llms.Model
	oneShot      bool // the model's client sends no tools: langchaingo's conversational agent
	conversation string
	clock        *clock
	out          io.Writer
}

// bot is one customer's conversation with the shop. It serves one turn at a
// time; the middleware inside would serve any number of conversations.
type bot struct {
	store        *store
	words        *words
	model        llms.Model // without skillbay and uncounted
	clock        *clock
	transcript   *transcript
	mw           *skillbay.Middleware
	executor     *skillbay.Executor
	conversation *conversation
	state        *skillbay.State
}

// newBot wraps langchaingo's executor and takes the conversation up where the
// database left it.
func newBot(ctx context.Context, s setup) (*bot, error) {
	b := &bot{store: s.store, words: s.words, model: s.model, clock: s.clock}
	b.transcript = &transcript{words: s.words, out: s.out}
	b.conversation = &conversation{store: s.store, id: s.conversation, render: rowsAsJSON}
	if s.oneShot {
		b.conversation.render = rowsAsText
	}
	var err error
	b.mw, err = skillbay.New(skillbay.Config{
		Skills:        []skillbay.Source{skillbay.FS(skillFiles, s.words.skillsDir)},
		Permit:        permit(s.words),
		Visible:       visible,
		Audit:         b.transcript.audit,
		GuardedTools:  []string{"RefundSubmit", "CreditGrant"},
		AlwaysAllowed: []string{"handoff_to_human"},
		Texts:         s.words.texts,
		Now:           s.clock.now,
		OnChange: func(ctx context.Context, st *skillbay.State) error {
			return s.store.saveState(ctx, s.conversation, st)
		},
	})
	if err != nil {
		return nil, err
	}
	b.executor, err = b.mw.WrapExecutor(b.plainExecutor(s.oneShot))
	if err != nil {
		return nil, err
	}
	b.state, err = s.store.state(ctx, s.conversation)
	if err != nil {
		return nil, fmt.Errorf("the State of conversation %q: %w", s.conversation, err)
	}
	return b, nil
}

// plainExecutor is langchaingo as it is, without a word of skillbay.
func (b *bot) plainExecutor(oneShot bool) *agents.Executor {
	business := &shop{store: b.store, now: b.clock.now, words: b.words, ran: b.transcript.ran}
	model := meter{b.model, b.transcript}
	options := []agents.Option{
		agents.WithMaxIterations(16),
		agents.WithCallbacksHandler(calls{transcript: b.transcript}),
	}
	if oneShot {
		return agents.NewExecutor(agents.NewConversationalAgent(model, business.tools()), options...)
	}
	functions := agents.NewOpenAIOption()
	return agents.NewExecutor(agents.NewOpenAIFunctionsAgent(model, business.tools(),
		functions.WithSystemMessage(b.words.system),
		functions.WithExtraMessages([]prompts.MessageFormatter{history{}}),
	), options...)
}

// say plays one turn: the customer's words in, the agent's answer out.
func (b *bot) say(ctx context.Context, text string) (record, error) {
	turn := b.state.Turn() + 1
	b.clock.set(turn)
	b.transcript.begin(turn, b.clock.now(), text)
	ctx = skillbay.WithState(ctx, b.state)
	answer, err := chains.Run(ctx, b.executor.WithMemory(b.conversation), text)
	r := b.transcript.end(strings.TrimSpace(answer))
	if err != nil {
		// SaveContext was not called; what was launched counts all the same.
		err = errors.Join(err, b.store.saveState(context.WithoutCancel(ctx), b.conversation.id, b.state))
		return r, err
	}
	return r, b.store.addUsage(ctx, b.conversation.id, usage{turn: b.state.Turn(), calls: len(r.requests), tokens: r.tokens})
}

// click invokes a skill as a supervisor does with a button in the back office;
// it joins the customer's next turn.
func (b *bot) click(ctx context.Context, skill, args string) error {
	return b.mw.Invoke(skillbay.WithState(ctx, b.state), skill, args)
}

// release dismisses a skill on the shop's behalf: the model may not dismiss
// what the shop has invoked.
func (b *bot) release(ctx context.Context, skill, reason string) error {
	return b.mw.Dismiss(skillbay.WithState(ctx, b.state), skill, reason)
}

// printSkills prints what was loaded, what was refused, and why.
func (b *bot) printSkills() {
	b.transcript.line("%s", b.words.notes.skills)
	for _, s := range b.mw.Skills() {
		var marks []string
		if s.AllowedTools != nil {
			marks = append(marks, "allowed-tools: "+strings.Join(s.AllowedTools, ", "))
		}
		if s.DisallowedTools != nil {
			marks = append(marks, "disallowed-tools: "+strings.Join(s.DisallowedTools, ", "))
		}
		if s.DisableModelInvocation {
			marks = append(marks, "disable-model-invocation")
		}
		b.transcript.line("  %-16s %s", s.Name, strings.Join(marks, "; "))
	}
	for _, d := range b.mw.Diagnostics() {
		if d.Skill != "" {
			b.transcript.line("  %-16s %s, line %d: %s", d.Skill, d.Severity, d.Line, d.Message)
		}
	}
}

// printLedgers prints the State's bookkeeping.
func (b *bot) printLedgers() {
	n, t := b.words.notes, b.transcript
	none := func(names []string) string {
		if len(names) == 0 {
			return "–"
		}
		return strings.Join(names, ", ")
	}
	t.line("\n%s", n.ledgers)
	t.line("  %s%s", n.active, none(b.state.Active()))
	t.line("  %s%s", n.announced, none(b.state.Announced()))
	for _, l := range b.state.Invoked() {
		by := n.byModel
		if l.Host {
			by = n.byHost
		}
		t.line("  %s%-16s %s, %s, %d tokens, sha256 %.8s…", n.invoked, l.Skill, fmt.Sprintf(b.words.turn, l.Turn), by, l.Tokens, l.Digest)
	}
	for _, d := range b.state.Dismissed() {
		t.line("  %s%-16s %s, %s", n.dismissed, d.Skill, fmt.Sprintf(b.words.turn, d.Turn), d.Reason)
	}
}
