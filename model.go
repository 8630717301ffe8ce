package skillbay

import (
	"context"
	"slices"
	"sync"

	"github.com/tmc/langchaingo/llms"
)

// WrapModel returns a model that announces skills, re-injects the bodies of
// active ones, adds skillbay's tools to calls that offer any, and defuses what
// would speak as the system. It works on copies: the caller's messages, options
// and tools are never changed, and a history of the caller's stays clean.
// Wrapping twice is wrapping once.
//
// Calls need a State in ctx (ErrNoState), unless they run inside a tool call,
// inside a run but not by its agent, or under Bypass: those pass unchanged.
func (mw *Middleware) WrapModel(inner llms.Model) llms.Model {
	if m, ok := inner.(*model); ok && m.mw == mw {
		return inner
	}
	return &model{mw: mw, inner: inner, client: clientOf(inner)}
}

// model is a wrapped llms.Model.
type model struct {
	mw       *Middleware
	inner    llms.Model
	client   client
	toolless sync.Once // the log line about a client that sends no tools
}

var _ llms.ReasoningModel = (*model)(nil)

// Call implements llms.Model.
func (m *model) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, m, prompt, options...)
}

// SupportsReasoning implements llms.ReasoningModel as the inner model does.
func (m *model) SupportsReasoning() bool { return llms.SupportsReasoningModel(m.inner) }

// GenerateContent implements llms.Model.
func (m *model) GenerateContent(
	ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption,
) (*llms.ContentResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	sc := scopeOf(ctx)
	if m.mw.passes(sc) {
		return m.inner.GenerateContent(ctx, messages, options...)
	}
	var o llms.CallOptions
	for _, option := range options {
		option(&o)
	}
	p, err := m.mw.prepare(ctx, sc, messages, offersTools(&o))
	if err != nil {
		return nil, &Error{Op: "generate", Err: err}
	}
	p.client = m.client
	if m.client.toolless && offersTools(&o) {
		m.toolless.Do(func() {
			m.mw.log.Warn("skillbay: langchaingo's client sends no tools to its model, and skills need them: "+
				"use a ReAct agent", "client", m.client.name)
		})
	}
	inside := sc
	inside.handled = m.mw
	schemas := m.mw.schemas
	if sc.plan != nil {
		schemas = sc.plan.agent.schemas
	}
	rewritten := append(slices.Clone(options), rewriteOptions(schemas, m.mw.definitions))
	sent, err := p.place()
	if err != nil {
		return nil, &Error{Op: "generate", Err: err}
	}
	resp, err := m.inner.GenerateContent(inside.in(ctx), sent, rewritten...)
	if err != nil {
		return resp, err
	}
	if p.offers && lostCalls(resp) {
		return nil, &Error{Op: "generate", Err: ErrLostCalls}
	}
	if sc.plan != nil {
		if sc.plan.agent.merges && o.N <= 1 && o.CandidateCount <= 1 {
			resp = mergeChoices(resp)
		}
		if p.offers {
			sc.plan.answered(ctx, sc.state, choiceCalls(resp))
		}
		return resp, nil
	}
	if p.offers {
		p.answered(choiceCalls(resp))
	}
	return resp, nil
}

// passes reports whether a model call is none of the conversation's: SPEC 10.2.
func (mw *Middleware) passes(sc scope) bool {
	inTool := sc.frame != nil && (sc.state == nil || sc.nested())
	return sc.bypass || sc.handled == mw || inTool || sc.run != nil && (sc.plan == nil || sc.run.mw != mw)
}

// BeforeModel returns the messages to send instead of messages, for a loop that
// calls its model by itself: like a wrapped model's call that offers tools. It
// begins turns by the same rule but never learns that one was answered. Inside
// a tool call, and under Bypass, it returns messages as they are.
func (mw *Middleware) BeforeModel(ctx context.Context, messages []llms.MessageContent) ([]llms.MessageContent, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	sc := scopeOf(ctx)
	if mw.passes(sc) {
		return messages, nil
	}
	p, err := mw.prepare(ctx, sc, messages, true)
	if err != nil {
		return nil, &Error{Op: "before model", Err: err}
	}
	sent, err := p.place()
	if err != nil {
		return nil, &Error{Op: "before model", Err: err}
	}
	return sent, nil
}

// BeginTurn begins a turn: for loops whose messages do not show when one
// begins. Once used on a State, model calls begin no turns there. Errors:
// ErrNoState, ErrBusy inside a run or a tool call, and ctx's own.
func (mw *Middleware) BeginTurn(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	sc := scopeOf(ctx)
	err := sc.usable()
	if err == nil && (sc.run != nil || sc.nested()) {
		err = ErrBusy
	}
	if err != nil {
		return &Error{Op: "begin turn", Err: err}
	}
	err = mw.begin(ctx, sc.state, func(rules turnRules, now int64) turnStart {
		sc.state.book.Turn.Explicit = true
		return sc.state.begin(opener{Kind: byHost}, rules, now)
	})
	if err != nil {
		return &Error{Op: "begin turn", Err: err}
	}
	return nil
}

// begin begins a turn of st, or goes on with it. What that brought about is
// audited, and skills that are gone from this release are logged, once st is
// unlocked. A release of idle skills is a change to save, and so are launches
// that waited for the turn.
func (mw *Middleware) begin(ctx context.Context, st *State, turn func(rules turnRules, now int64) turnStart) error {
	var start turnStart
	var gone []string
	now := mw.now().UnixMilli()
	rules := turnRules{keepWindow: mw.cfg.KeepWindow, idleTurns: mw.cfg.IdleTurns, current: func(name string) *policy {
		p := mw.catalog.policy(name)
		if p == nil && !slices.Contains(gone, name) {
			gone = append(gone, name)
		}
		return p
	}}
	st.do(func() { start = turn(rules, now) })
	for _, name := range gone {
		mw.log.Warn("skillbay: an active skill is gone from this release", "skill", name, "session", st.SessionID())
	}
	for i := range start.joined {
		mw.auditLaunch(ctx, st, &start.joined[i])
	}
	for _, d := range start.released {
		mw.audit(ctx, st, Event{Type: EventDismissed, Skill: d.Skill, Detail: d.Reason})
	}
	switch {
	case len(start.released) > 0:
		return mw.onChange(ctx, st)
	case start.waited: // else another machine would let them join once more
		return mw.saveKept(ctx, st)
	}
	return nil
}

// prepare reads the messages of a model call and sees whether they begin a
// turn: the one place where turns of a loop begin or go on (SPEC 10.1).
func (mw *Middleware) prepare(
	ctx context.Context, sc scope, messages []llms.MessageContent, tools bool,
) (*placement, error) {
	if err := sc.usable(); err != nil {
		return nil, err
	}
	st := sc.state
	p := &placement{mw: mw, ctx: ctx, sc: sc, st: st, messages: messages, offers: tools, target: -1}
	var buf [4]opener
	wanted := buf[:0]
	if sc.run != nil {
		p.offers = sc.plan.offers(tools)
		wanted = append(wanted, sc.run.wanted())
	} else {
		st.do(func() {
			wanted = append(wanted, st.book.Turn.Opener)
			for i := range st.book.Anchors {
				if at := st.book.Anchors[i].At; !slices.Contains(wanted, at) {
					wanted = append(wanted, at)
				}
			}
		})
	}
	p.reading = read(st, messages, wanted)
	switch {
	case sc.run != nil:
		p.target, p.pinned = sc.run.pin(st, messages, &p.reading)
	case p.offers:
		if err := mw.see(ctx, p); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// see begins a loop's turn or goes on with it.
func (mw *Middleware) see(ctx context.Context, p *placement) error {
	st, r := p.st, &p.reading
	var was turn
	pending := false
	st.do(func() { was, pending = st.book.Turn, len(st.book.Pending) > 0 })
	stands := r.at(was.Opener)
	opens := was.Opener // without any user message the turn goes on under none
	if r.current >= 0 && (stands < 0 || stands != r.current) {
		opens = openerAt(st, p.messages, r.current)
	}
	begins := r.open && !was.Explicit && (was.N == 0 || was.Answered || stands >= 0 && stands != r.current)
	var err error
	if begins || pending || opens != was.Opener { // else the turn goes on as it is
		err = mw.begin(ctx, st, func(rules turnRules, now int64) (none turnStart) {
			switch {
			case st.book.Turn.N != was.N:
				return none // another call of this State saw the turn first
			case begins:
				return st.begin(opens, rules, now)
			}
			return st.goOn(opens)
		})
	}
	if opens.Kind == byMessage && r.current >= 0 && r.at(opens) < 0 {
		r.sightings = append(r.sightings, sighting{opener: opens, at: r.current})
	}
	p.opener = opens
	return err
}

// answered notes a loop's answer: its calls become the batch, or, without any,
// the turn is answered if the call held its opener.
func (p *placement) answered(calls []llms.ToolCall) {
	described := make([]batchCall, len(calls))
	for i, call := range calls {
		described[i] = p.mw.describe(p.ctx, p.st, call)
	}
	p.st.do(func() {
		p.st.open(p.reading.ais+1, described, true)
		if t := &p.st.book.Turn; len(calls) == 0 && p.reading.current >= 0 && !t.Answered && p.reading.at(t.Opener) >= 0 {
			t.Answered = true
			p.st.changed()
		}
	})
}
