package skillbay

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// maxConcurrentCalls bounds how many calls CallTools runs at once.
const maxConcurrentCalls = 8

// errNoNext is the error of a call that only a nil next could run.
var errNoNext = errors.New("no function to run the host's own tools")

// Next runs a tool call of the host's own and returns its observation.
type Next = func(ctx context.Context, call llms.ToolCall) (string, error)

// ticket is a tool call on its way: whose, and its place in a batch.
type ticket struct {
	state       *State
	tool, input string
	id          string
	seq, base   int64
	within      bool   // inside a run or a tool call
	exclusive   string // another skill that bars a launch under Config.Exclusive
	frames      *frame
	// sees reports whether a launch's body is visible in the conversation as
	// far as the caller knows it; nil: unknown.
	sees func(*launch) bool
}

// judge returns why a call inside the marked one may not run, or nil.
func (f *frame) judge(tool, input string) *verdict {
	if sameTool(tool, toolSkill) { // judged by the child's window alone
		return nil
	}
	inner := f.held
	inner.tool, inner.input = tool, input
	inner.guarded, inner.always = hasTool(f.mw.cfg.GuardedTools, tool), hasTool(f.mw.cfg.AlwaysAllowed, tool)
	return inner.judge()
}

// shows reports whether a skill of that name is either unknown to the marked
// call's middleware or visible to it.
func (f *frame) shows(ctx context.Context, name string) bool {
	known := f.mw.catalog.byName[name]
	return known == nil || f.mw.showsHere(ctx, f.state, known)
}

// show reports whether every enclosing tool call's middleware shows the skill.
func (f *frame) show(ctx context.Context, name string) bool {
	for ; f != nil; f = f.outer {
		if !f.shows(ctx, name) {
			return false
		}
	}
	return true
}

// callWrapped is a call of a wrapped tool: it sees only ctx and input. A nil
// run means one of skillbay's own tools.
func (mw *Middleware) callWrapped(
	ctx context.Context, tool, input string, run func(context.Context) (string, error),
) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	sc := scopeOf(ctx)
	switch err := sc.usable(); {
	case errors.Is(err, ErrNoState):
		return fill(mw.texts.NoState, "tool", tool), nil
	case err != nil:
		return "", &Error{Op: "call tool", Err: err}
	}
	call := mw.describe(ctx, sc.state, llms.ToolCall{FunctionCall: &llms.FunctionCall{Name: tool, Arguments: input}})
	c := &ticket{state: sc.state, tool: tool, input: input, within: sc.run != nil || sc.nested(), frames: sc.frame}
	switch {
	case run != nil: // it launches nothing
	case sc.run != nil:
		c.sees = sc.run.returnedFull
	default:
		c.sees = sc.state.showed
	}
	return mw.pass(ctx, sc, c, nil, func() (*batch, batchCall) {
		return sc.state.claim(call, sc.nested())
	}, run)
}

// showed reports whether the last model call showed the launch's body.
func (s *State) showed(l *launch) (seen bool) {
	s.do(func() { seen = slices.Contains(s.seen, l.Skill) })
	return seen
}

// describe makes a batch call as this conversation sees it.
func (mw *Middleware) describe(ctx context.Context, st *State, call llms.ToolCall) batchCall {
	return mw.catalog.describe(call, func(f *frozen) bool { return mw.showsHere(ctx, st, f) })
}

// pass leads a call through the gate and, if it may run, runs it. place finds
// its batch, with the State locked; names are the launches that the history
// shows.
func (mw *Middleware) pass(
	ctx context.Context, sc scope, c *ticket, names []string,
	place func() (*batch, batchCall), run func(context.Context) (string, error),
) (string, error) {
	st := c.state
	t := trial{
		tool: c.tool, input: c.input, skillCall: sameTool(c.tool, toolSkill),
		guarded: hasTool(mw.cfg.GuardedTools, c.tool), always: hasTool(mw.cfg.AlwaysAllowed, c.tool),
	}
	var v *verdict
	var buf [8]hold
	st.do(func() {
		b, call := place()
		c.seq, c.base, t.named = call.seq, b.base, call.named
		if c.id == "" {
			c.id = call.id
		}
		t.witnesses = gather(st, b, &call, names, mw.catalog, buf[:0])
		v = t.judge()
		if t.skillCall {
			c.exclusive = st.exclusiveAt(&t)
		}
	})
	if run == nil && t.skillCall {
		if l, ok := st.redelivered(c.seq); ok {
			if f := mw.catalog.byName[l.Skill]; f != nil {
				switch { // the model learns of nothing that is not kept
				case l.unsaved:
					if err := mw.save(ctx, st, &l); err != nil {
						return "", err
					}
				default:
					if err := mw.saveKept(ctx, st); err != nil {
						return "", &Error{Op: "launch", Skill: l.Skill, Err: err}
					}
				}
				if l.Lost { // a Store does not keep arguments: they are the call's
					l.Args = clean(mw.catalog.parse(c.input).args)
				}
				return mw.answer(st, f, &l), nil
			}
		}
	}
	for f := c.frames; f != nil && v == nil; f = f.outer {
		if outer := f.judge(c.tool, c.input); outer != nil {
			v = &verdict{reason: reasonParent, skills: outer.skills, allowed: outer.allowed}
		}
	}
	if v != nil {
		return mw.blocked(ctx, c, v), nil
	}
	defer st.finish(c.seq)
	if run == nil {
		obs, err := mw.runOwn(ctx, c)
		if sc.run != nil && t.skillCall {
			sc.run.returned(c.state, c.seq)
		}
		return obs, err
	}
	inside := sc
	inside.plan, inside.handled, inside.bypass = nil, nil, false
	inside.frame = &frame{outer: sc.frame, state: sc.state, conversation: sc.conversation, mw: mw, held: t.snapshot()}
	return run(inside.in(ctx))
}

// exclusiveAt returns another skill that was launched in the window up to the
// call's batch, or by an earlier call of the batch, and is not dismissed.
// s.mu is held.
func (s *State) exclusiveAt(t *trial) string {
	for _, h := range t.siblings {
		if h.skill != t.named {
			return h.skill
		}
	}
	for _, h := range t.ledger {
		if h.live && h.skill != t.named {
			return h.skill
		}
	}
	return ""
}

// blocked audits a refused call and words its observation.
func (mw *Middleware) blocked(ctx context.Context, c *ticket, v *verdict) string {
	if v.reason == reasonGuarded {
		for _, f := range mw.shownSkills(ctx, c.state) {
			if !f.DisableModelInvocation && f.policy.lists(c.tool) {
				v.skills = append(v.skills, f.Name)
			}
		}
	}
	if c.state.refuse(c.seq) {
		mw.audit(ctx, c.state, Event{
			Type: EventBlocked, Skills: v.skills, Tool: c.tool, ToolCallID: c.id, Detail: v.reason,
		})
	}
	b := &Block{Tool: c.tool, CallID: c.id, Reason: v.reason, Skills: v.skills, Allowed: v.allowed, texts: mw.texts}
	return b.String()
}

// runOwn runs one of skillbay's tools.
func (mw *Middleware) runOwn(ctx context.Context, c *ticket) (string, error) {
	switch {
	case sameTool(c.tool, toolSkill):
		return mw.runSkill(ctx, c)
	case sameTool(c.tool, toolDismiss):
		return mw.runDismiss(ctx, c)
	}
	return mw.runFile(ctx, c)
}

// owns reports whether the name is that of a tool this Middleware offers.
func (mw *Middleware) owns(tool string) bool {
	return slices.ContainsFunc(mw.definitions, func(d llms.Tool) bool { return sameTool(d.Function.Name, tool) })
}

// CallTool runs one tool call of a loop of the host's own: the gate first, then
// skillbay's own tool or next. history is the host's own, ending with the AI
// message that holds the call. The ctx that next gets is marked with the call:
// calls nested in it are held to what this one was held to.
//
// It returns the tool message for the history, also beside an error. Errors:
// ErrNoState, ErrBusy, ctx's own, an error of OnChange, and next's error as it
// is. A refusal is no error: the message tells the model.
func (mw *Middleware) CallTool(
	ctx context.Context, history []llms.MessageContent, call llms.ToolCall, next Next,
) (llms.MessageContent, error) {
	d, err := mw.dispatcher(ctx, history)
	if err != nil {
		return mw.failed(call), err
	}
	calls := d.describe(d.chapter.calls)
	own, known := batchCall{}, false
	for i, other := range d.chapter.calls {
		if other.ID == call.ID && nameOf(other) == nameOf(call) && inputOf(other) == inputOf(call) {
			own, known = calls[i], true
		}
	}
	if !known {
		own = mw.describe(ctx, d.sc.state, call)
	}
	return d.run(call, next, func() (*batch, batchCall) { return d.sc.state.place(&d.chapter, calls, own) })
}

// CallTools runs the calls of one model answer like CallTool, at most 8 at
// once. It always returns one tool message a call, in call order; a failed one
// says so, and the errors come joined. A panic of next is raised again in the
// caller's goroutine once its siblings have ended.
func (mw *Middleware) CallTools(
	ctx context.Context, history []llms.MessageContent, calls []llms.ToolCall, next Next,
) ([]llms.MessageContent, error) {
	results := make([]llms.MessageContent, len(calls))
	d, err := mw.dispatcher(ctx, history)
	if err != nil || len(calls) == 0 {
		for i, call := range calls {
			results[i] = mw.failed(call)
		}
		return results, err
	}
	b, at := d.open(d.describe(calls))
	errs := make([]error, len(calls))
	each := func(i int) {
		results[i], errs[i] = d.run(calls[i], next, func() (*batch, batchCall) { return b, d.sc.state.deliver(b, at[i]) })
	}
	var first, last []int // in one batch, dismissals apply after launches
	for i, call := range calls {
		if sameTool(nameOf(call), toolDismiss) {
			last = append(last, i)
		} else {
			first = append(first, i)
		}
	}
	concurrently(first, maxConcurrentCalls, each)
	concurrently(last, 1, each)
	return results, errors.Join(errs...)
}

// dispatcher is what the calls of one CallTool or CallTools share.
type dispatcher struct {
	mw      *Middleware
	ctx     context.Context //nolint:containedctx // lives as long as the call
	sc      scope
	history []llms.MessageContent
	chapter chapter
}

func (mw *Middleware) dispatcher(ctx context.Context, history []llms.MessageContent) (*dispatcher, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	sc := scopeOf(ctx)
	if err := sc.usable(); err != nil {
		return nil, &Error{Op: "call tool", Err: err}
	}
	return &dispatcher{mw: mw, ctx: ctx, sc: sc, history: history, chapter: readChapter(history, sc.state.isReminder)}, nil
}

func (d *dispatcher) describe(calls []llms.ToolCall) []batchCall {
	described := make([]batchCall, len(calls))
	for i, call := range calls {
		described[i] = d.mw.describe(d.ctx, d.sc.state, call)
	}
	return described
}

// open opens the batch of CallTools before any call runs, and returns where in
// it each of calls stands. The batch is the State's, if it waits for all of
// them; else the last AI message's, if it holds them all, so that it does not
// matter how the host divides an answer; else calls themselves.
func (d *dispatcher) open(calls []batchCall) (b *batch, at []int) {
	st := d.sc.state
	if d.sc.nested() {
		return nil, nil // each is one more call of the parent's batch
	}
	siblings := calls
	if all := d.describe(d.chapter.calls); len(all) > len(calls) && holdsAll(all, calls) {
		siblings = all
	}
	st.do(func() {
		b = st.batch
		if b == nil || !waitsForAll(b.calls, calls) {
			b = st.open(d.chapter.ais(), siblings, false)
		}
		for i := range calls { // of equal calls the next one
			n := 0
			for n = range b.calls {
				if calls[i].same(b.calls[n]) && !slices.Contains(at, n) {
					break
				}
			}
			at = append(at, n)
		}
	})
	return b, at
}

// holdsAll reports whether each of calls is among all, to the letter of its name.
func holdsAll(all, calls []batchCall) bool {
	for i := range calls {
		exact := func(o batchCall) bool { return o.tool == calls[i].tool && calls[i].same(o) }
		if !slices.ContainsFunc(all, exact) {
			return false
		}
	}
	return true
}

// waitsForAll reports whether each of calls has an id and is among all, not yet
// delivered.
func waitsForAll(all, calls []batchCall) bool {
	for i := range calls {
		if !slices.ContainsFunc(all, calls[i].waiting) {
			return false
		}
	}
	return true
}

func (d *dispatcher) run(
	call llms.ToolCall, next Next, place func() (*batch, batchCall),
) (llms.MessageContent, error) {
	mw, st := d.mw, d.sc.state
	if err := d.ctx.Err(); err != nil {
		return mw.failed(call), err
	}
	if call.FunctionCall == nil {
		t := mw.texts
		return toolMessage(call, fill(t.BadInput, "problem", t.ProblemForm, "form", `{"name": "tool", "arguments": "{}"}`)), nil
	}
	fc := *call.FunctionCall // next gets the name that was judged
	fc.Name = strings.TrimSpace(fc.Name)
	call.FunctionCall = &fc
	c := &ticket{
		state: st, tool: fc.Name, input: fc.Arguments, id: call.ID,
		within: d.sc.run != nil || d.sc.nested(), frames: d.sc.frame,
	}
	if d.sc.nested() {
		own := mw.describe(d.ctx, st, call)
		place = func() (*batch, batchCall) { return st.extra(own, true) }
	}
	run := func(ctx context.Context) (string, error) {
		if next == nil {
			return "", &Error{Op: "call tool", Err: errNoNext}
		}
		return next(ctx, call)
	}
	if mw.owns(fc.Name) {
		run = nil
		c.sees = func(l *launch) bool { return st.showed(l) || seenIn(d.history, l, mw) }
	}
	obs, err := mw.pass(d.ctx, d.sc, c, d.chapter.names, place, run)
	if err != nil {
		return mw.failed(call), err
	}
	return toolMessage(call, obs), nil
}

// concurrently runs f for each of indexes, at most n at once, and raises a
// panic again when all have ended.
func concurrently(indexes []int, n int, f func(int)) {
	if len(indexes) == 1 || n == 1 {
		for _, i := range indexes {
			f(i)
		}
		return
	}
	panics := make(chan any, len(indexes))
	slots, done := make(chan struct{}, n), make(chan struct{})
	for _, i := range indexes {
		go func() {
			slots <- struct{}{}
			defer func() {
				if r := recover(); r != nil {
					panics <- r
				}
				<-slots
				done <- struct{}{}
			}()
			f(i)
		}()
	}
	for range indexes {
		<-done
	}
	select {
	case r := <-panics:
		panic(r)
	default:
	}
}

// failed is the tool message of a call that ended in an error.
func (mw *Middleware) failed(call llms.ToolCall) llms.MessageContent {
	return toolMessage(call, fill(mw.texts.Failed, "tool", nameOf(call)))
}

func toolMessage(call llms.ToolCall, content string) llms.MessageContent {
	return llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{
		llms.ToolCallResponse{ToolCallID: call.ID, Name: nameOf(call), Content: content},
	}}
}

// Answer returns all choices of a model's answer as one AI message, and its
// tool calls: the message to append to a history before CallTools. A nil resp
// is an empty answer.
func Answer(resp *llms.ContentResponse) (llms.MessageContent, []llms.ToolCall) {
	ai := llms.MessageContent{Role: llms.ChatMessageTypeAI}
	var text []string
	if resp != nil {
		for _, choice := range resp.Choices {
			if choice != nil && choice.Content != "" {
				text = append(text, choice.Content)
			}
		}
	}
	if len(text) > 0 {
		ai.Parts = append(ai.Parts, llms.TextContent{Text: strings.Join(text, "\n")})
	}
	calls := choiceCalls(resp)
	for _, call := range calls {
		ai.Parts = append(ai.Parts, call)
	}
	return ai, calls
}
