package skillbay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/memory"
	"github.com/tmc/langchaingo/prompts"
	"github.com/tmc/langchaingo/schema"
	"github.com/tmc/langchaingo/tools"
)

// Executor is a langchaingo executor with skills. It is a chains.Chain; one
// value serves any number of concurrent conversations, each with the State
// that WithState put into its context.
//
// langchaingo keeps memory in the executor: shared by two conversations it
// shows one customer the other's words. WithMemory is the remedy.
type Executor struct {
	*agents.Executor
	mw *Middleware
}

var _ chains.Chain = (*Executor)(nil)

// WrapExecutor returns a copy of existing whose agent has the skills of mw; it
// is not changed itself. It rewraps langchaingo's three agents and agents from
// WrapAgent; any other agent is an error (ErrAgent), as are a functions
// agent on a client that sends no tools (ErrAgent) and colliding tool names
// (ErrTool). Wrapping twice is wrapping once.
func (mw *Middleware) WrapExecutor(existing *agents.Executor) (*Executor, error) {
	if existing == nil || existing.Agent == nil {
		return nil, &Error{Op: "wrap executor", Err: fmt.Errorf("%w: no agent", ErrAgent)}
	}
	agent, err := mw.rewrap(existing.Agent, false)
	if err != nil {
		return nil, &Error{Op: "wrap executor", Err: err}
	}
	if inProcess(existing.Memory) {
		mw.log.Warn("skillbay: the executor's Memory is an in-process buffer that all conversations share: " +
			"use Executor.WithMemory for each conversation")
	}
	wrapped := *existing
	wrapped.Agent = agent
	return &Executor{Executor: &wrapped, mw: mw}, nil
}

// WrapAgent returns an agent with the skills of mw, for WrapExecutor: the only
// way for agents that are not langchaingo's own. Such an agent must call a
// model from WrapModel. Its Plan outside an Executor of mw returns ErrNoRun.
func (mw *Middleware) WrapAgent(agent agents.Agent) (agents.Agent, error) {
	if agent == nil {
		return nil, &Error{Op: "wrap agent", Err: fmt.Errorf("%w: no agent", ErrAgent)}
	}
	p, err := mw.rewrap(agent, true)
	if err != nil {
		return nil, &Error{Op: "wrap agent", Err: err}
	}
	return p, nil
}

// inProcess reports whether the memory is one of langchaingo's buffers over a
// history in this process.
func inProcess(m schema.Memory) bool {
	var history schema.ChatMessageHistory
	switch m := m.(type) {
	case *memory.ConversationBuffer:
		history = m.ChatHistory
	case *memory.ConversationWindowBuffer:
		history = m.ChatHistory
	case *memory.ConversationTokenBuffer:
		history = m.ChatHistory
	}
	_, ok := history.(*memory.ChatMessageHistory)
	return ok
}

// rewrap copies an agent shallowly, with its model wrapped and its tools gated.
func (mw *Middleware) rewrap(agent agents.Agent, custom bool) (*planner, error) {
	if p, ok := agent.(*planner); ok {
		if p.mw != mw {
			return nil, fmt.Errorf("%w: it has the skills of another Middleware", ErrAgent)
		}
		return p, nil
	}
	gated, err := mw.WrapTools(agent.GetTools()...)
	if err != nil {
		return nil, err
	}
	p := &planner{mw: mw, tools: gated, schemas: schemasOf(gated)}
	switch a := agent.(type) {
	case *agents.OpenAIFunctionsAgent:
		if c := clientOf(a.LLM); c.toolless {
			return nil, fmt.Errorf("%w: langchaingo's %s client sends no tools to its model; "+
				"use agents.NewOneShotAgent or agents.NewConversationalAgent", ErrAgent, c.name)
		}
		inner := *a
		inner.LLM, inner.Tools = mw.WrapModel(a.LLM), gated
		p.inner, p.kind, p.merges = &inner, offersNative, true
	case *agents.OneShotZeroAgent:
		inner := *a
		if inner.Chain, err = mw.rewrapChain(a.Chain, gated); err != nil {
			return nil, err
		}
		inner.Tools = gated
		p.inner, p.kind = &inner, onePrompt
	case *agents.ConversationalAgent:
		inner := *a
		if inner.Chain, err = mw.rewrapChain(a.Chain, gated); err != nil {
			return nil, err
		}
		inner.Tools = gated
		p.inner, p.kind = &inner, onePrompt
	default:
		if !custom {
			return nil, fmt.Errorf("%w: a %T is not one of langchaingo's agents; "+
				"give it a model from WrapModel and pass it through WrapAgent", ErrAgent, agent)
		}
		p.inner = agent
	}
	return p, nil
}

// rewrapChain copies a ReAct agent's chain with its model wrapped and the names
// of all tools in its prompt.
func (mw *Middleware) rewrapChain(chain chains.Chain, gated []tools.Tool) (chains.Chain, error) {
	var inner chains.LLMChain
	switch c := chain.(type) {
	case *chains.LLMChain:
		if c == nil {
			return nil, fmt.Errorf("%w: its chain is nil", ErrAgent)
		}
		inner = *c
	case chains.LLMChain:
		inner = c
	default:
		return nil, fmt.Errorf("%w: its chain is a %T, not an LLMChain", ErrAgent, chain)
	}
	inner.LLM = mw.WrapModel(inner.LLM)
	switch prompt := inner.Prompt.(type) {
	case prompts.PromptTemplate:
		inner.Prompt = namingTools(prompt, gated)
	case *prompts.PromptTemplate:
		if prompt != nil {
			inner.Prompt = namingTools(*prompt, gated)
		}
	}
	return &inner, nil
}

// namingTools puts the tools into the partial variables that langchaingo's own
// prompts have (agents/mrkl_prompt.go:33-45). Values are inserted, not parsed.
func namingTools(prompt prompts.PromptTemplate, gated []tools.Tool) prompts.PromptTemplate {
	var names []string
	var descriptions strings.Builder
	for _, t := range gated {
		names = append(names, t.Name())
		fmt.Fprintf(&descriptions, "- %s: %s\n", t.Name(), t.Description())
	}
	partials := maps.Clone(prompt.PartialVariables) // shared by copies of the template
	for key, value := range map[string]string{
		"tool_names": strings.Join(names, ", "), "tool_descriptions": descriptions.String(),
	} {
		if _, ok := partials[key]; ok {
			partials[key] = value
		}
	}
	prompt.PartialVariables = partials
	return prompt
}

// schemasOf collects the schemas of tools that have one, by upper-case name.
func schemasOf(list []tools.Tool) map[string]map[string]any {
	schemas := map[string]map[string]any{}
	for _, t := range list {
		if s, ok := t.(schemed); ok {
			if schema := s.Schema(); schema != nil {
				schemas[strings.ToUpper(strings.TrimSpace(t.Name()))] = schema
			}
		}
	}
	return schemas
}

// WithMemory returns a cheap copy of e that uses m: one for each conversation.
func (e *Executor) WithMemory(m schema.Memory) *Executor {
	inner := *e.Executor
	inner.Memory = m
	return &Executor{Executor: &inner, mw: e.mw}
}

// GetMemory implements chains.Chain. An executor without memory has an empty
// one: chains.Call would panic on nil (chains/chains.go:36).
func (e *Executor) GetMemory() schema.Memory {
	if e.Memory == nil {
		return memory.NewSimple()
	}
	return e.Memory
}

// Call implements chains.Chain: one turn of the conversation. It begins a turn
// unless the current one is unanswered and was opened by the same input; then
// it goes on, launches, limits and grants included. The turn is answered when
// Call returns without error, and not otherwise.
//
// Under WithConversation it first loads the State, and saves it at its end: see
// there. An answer whose State could not be saved comes beside the *SaveError;
// chains.Run drops it, as it does with every error, and saves no memory.
//
// Errors: ErrNoState, ErrBusy when another run uses the State, those of
// LoadState and SaveState, ctx's own, and those of langchaingo's executor.
func (e *Executor) Call(
	ctx context.Context, inputs map[string]any, options ...chains.ChainCallOption,
) (map[string]any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	sc := scopeOf(ctx)
	if sc.state == nil && sc.conversation != "" {
		k, err := e.mw.open(ctx, sc)
		if err != nil {
			return nil, err
		}
		sc.keep(k)
	}
	if sc.kept != nil && !sc.nested() {
		return e.callKept(ctx, sc, inputs, options)
	}
	return e.call(ctx, sc, inputs, options)
}

// callKept is a run on the State that a Store keeps. It is saved on every way
// out, also when the run panics.
func (e *Executor) callKept(
	ctx context.Context, sc scope, inputs map[string]any, options []chains.ChainCallOption,
) (out map[string]any, err error) {
	defer func() {
		if unsaved := sc.kept.save(context.WithoutCancel(ctx)); unsaved != nil {
			err = errors.Join(err, unsaved)
		}
	}()
	return e.call(ctx, sc, inputs, options)
}

func (e *Executor) call(
	ctx context.Context, sc scope, inputs map[string]any, options []chains.ChainCallOption,
) (map[string]any, error) {
	st := sc.state
	if st == nil {
		return nil, &Error{Op: "run", Err: ErrNoState}
	}
	if sc.nested() { // a run inside a tool call is a conversation of its own
		st = st.inner()
	}
	r := &run{mw: e.mw}
	if err := st.acquire(r); err != nil {
		return nil, &Error{Op: "run", Err: err}
	}
	defer st.release()

	text := e.inputText(ctx, inputs)
	o := opener{Kind: byRun, Len: len(text), Hash: hashOf(text)}
	inside := scope{state: st, run: r, frame: sc.frame, conversation: sc.conversation, kept: sc.kept}.in(ctx)
	err := e.mw.begin(inside, st, func(rules turnRules, now int64) (start turnStart) {
		if t := &st.book.Turn; t.N > 0 && !t.Answered && t.openedBy(o) {
			start = st.goOn(o)
		} else {
			start = st.begin(o, rules, now)
		}
		r.turn = st.book.Turn.N
		return start
	})
	if err != nil {
		return nil, &Error{Op: "run", Err: err}
	}

	out, err := e.Executor.Call(inside, inputs, options...)
	if err == nil {
		st.do(func() {
			st.book.Turn.Answered = true
			st.changed()
		})
	}
	return out, err
}

// inputText is what opens the turn: the value of `input`; where there is none,
// all inputs but memory variables.
func (e *Executor) inputText(ctx context.Context, inputs map[string]any) string {
	if text, ok := inputs["input"].(string); ok {
		return text
	}
	memories := e.GetMemory().MemoryVariables(ctx)
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(inputs)) {
		if !slices.Contains(memories, key) {
			fmt.Fprintf(&b, "%q=%q\n", key, fmt.Sprint(inputs[key]))
		}
	}
	return b.String()
}

// agentKind tells how an agent asks its model.
type agentKind int

const (
	unknownKind  agentKind = iota // a custom agent
	offersNative                  // offers tools to the model
	onePrompt                     // writes one prompt and reads a text (ReAct)
)

// planner is a wrapped agents.Agent.
type planner struct {
	mw      *Middleware
	inner   agents.Agent
	tools   []tools.Tool
	schemas map[string]map[string]any
	kind    agentKind
	merges  bool // it reads the first choice of an answer alone
}

var _ agents.Agent = (*planner)(nil)

// GetInputKeys implements agents.Agent.
func (p *planner) GetInputKeys() []string { return p.inner.GetInputKeys() }

// GetOutputKeys implements agents.Agent.
func (p *planner) GetOutputKeys() []string { return p.inner.GetOutputKeys() }

// GetTools implements agents.Agent: the gated tools, which the executor runs.
func (p *planner) GetTools() []tools.Tool { return p.tools }

// Plan implements agents.Agent. The model calls under it are the agent's; its
// actions become the current batch where the model's answers held no calls.
func (p *planner) Plan(
	ctx context.Context, steps []schema.AgentStep, inputs map[string]string, options ...chains.ChainCallOption,
) ([]schema.AgentAction, *schema.AgentFinish, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	sc := scopeOf(ctx)
	if sc.run == nil || sc.run.mw != p.mw || sc.nested() {
		return nil, nil, &Error{Op: "plan", Err: ErrNoRun}
	}
	sc.plan = &plan{agent: p, run: sc.run, steps: len(steps)}
	actions, finish, err := p.inner.Plan(sc.in(ctx), steps, inputs, options...)
	if err == nil && len(actions) > 0 {
		sc.plan.decided(ctx, sc.state, actions)
	}
	return actions, finish, err
}

// run is one Executor.Call.
type run struct {
	mw   *Middleware
	turn int

	mu     sync.Mutex
	full   map[string]bool // hashes of the full observations that were returned
	home   opener          // the message of the run's bodies
	native bool            // a model call of its agent offered tools
}

// returned notes that the observation of a launch goes into the agent's steps.
func (r *run) returned(st *State, seq int64) {
	l, ok := st.redelivered(seq)
	if !ok || l.Short {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full == nil {
		r.full = map[string]bool{}
	}
	r.full[l.Hash] = true
}

// returnedFull reports whether this run returned the launch's full observation.
func (r *run) returnedFull(l *launch) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.full[l.Hash]
}

// wanted is what a reading of the run's messages looks for.
func (r *run) wanted() opener {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.home
}

// pin finds the message of the run's bodies: the last human message of its
// first model call while it stands, so that an agent that appends human
// messages keeps its prefix; else the last human message.
func (r *run) pin(st *State, messages []llms.MessageContent, found *reading) (at int, pinned bool) {
	r.mu.Lock()
	home := r.home
	r.mu.Unlock()
	if at := found.at(home); home.Kind == byMessage && at >= 0 {
		return at, true
	}
	if found.last >= 0 {
		home = openerAt(st, messages, found.last)
		r.mu.Lock()
		r.home = home
		r.mu.Unlock()
	}
	return found.last, false
}

// plan is one Plan of a run's agent.
type plan struct {
	agent *planner
	run   *run
	steps int // steps taken before: what tells a batch delivered again

	mu    sync.Mutex
	calls []llms.ToolCall // of all model answers in this Plan
}

// offers reports whether a model call under the Plan is the agent's own: one
// that offers tools, or a one-prompt agent's.
func (p *plan) offers(tools bool) bool {
	p.run.mu.Lock()
	defer p.run.mu.Unlock()
	p.run.native = p.run.native || tools || p.agent.kind == offersNative
	return tools || p.agent.kind == onePrompt || p.agent.kind == unknownKind && !p.run.native
}

// answered adds an answer's calls to the batch of this Plan.
func (p *plan) answered(ctx context.Context, st *State, calls []llms.ToolCall) {
	if len(calls) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, calls...)
	p.open(ctx, st, p.calls)
}

// decided makes the agent's actions the batch when no answer held calls: a
// one-prompt agent reads them from text.
func (p *plan) decided(ctx context.Context, st *State, actions []schema.AgentAction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.calls) > 0 {
		return
	}
	calls := make([]llms.ToolCall, len(actions))
	for i, a := range actions {
		calls[i] = llms.ToolCall{ID: a.ToolID, FunctionCall: &llms.FunctionCall{Name: a.Tool, Arguments: a.ToolInput}}
	}
	p.open(ctx, st, calls)
}

func (p *plan) open(ctx context.Context, st *State, calls []llms.ToolCall) {
	described := make([]batchCall, len(calls))
	for i, call := range calls {
		described[i] = p.agent.mw.describe(ctx, st, call)
	}
	st.do(func() { st.open(p.steps, described, true) })
}
