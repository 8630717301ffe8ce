package skillbay

import "context"

// scope is the one value that skillbay keeps in a context: whose State, and
// where in a run or tool call the code under it stands. It is a value; every
// derivation makes a new one.
type scope struct {
	state   *State      // nil: none
	run     *run        // the Executor run of state; nil in a loop of the host's own
	plan    *plan       // set while that run's agent plans
	frame   *frame      // the innermost enclosing tool call, of any State
	handled *Middleware // the middleware whose wrapped model is already at work on this call
	bypass  bool        // model calls pass through

	conversation string // the id of a conversation that Config.Store keeps
	kept         *kept  // its State, once loaded
}

type scopeKey struct{}

func scopeOf(ctx context.Context) scope {
	sc, _ := ctx.Value(scopeKey{}).(scope)
	return sc
}

func (sc scope) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, scopeKey{}, sc)
}

// nested reports whether the code under sc runs inside a tool call of its own
// State: model calls there pass through, tool calls count as the parent's.
func (sc scope) nested() bool {
	return sc.frame != nil && sc.frame.state == sc.state
}

// usable reports whether the code under sc may use its State now: from inside
// the State's run, or when no run uses it.
func (sc scope) usable() error {
	if sc.state == nil {
		return ErrNoState
	}
	if running := sc.state.running(); running != nil && running != sc.run && !sc.nested() {
		return ErrBusy
	}
	return nil
}

// WithState returns a context under which skillbay keeps its books in st: one
// State per conversation. A nil st takes the State away. A tool that puts
// another State into the context of its call starts a conversation of its own
// there, which is still held to what the tool call itself was held to.
func WithState(ctx context.Context, st *State) context.Context {
	sc := scopeOf(ctx)
	if sc.state != st || st == nil {
		sc.enter(st)
	}
	return sc.in(ctx)
}

// enter goes to another State, outside any run of it, that no Store keeps.
func (sc *scope) enter(st *State) {
	sc.state, sc.run, sc.plan, sc.handled = st, nil, nil, nil
	sc.conversation, sc.kept = "", nil
}

// keep goes to the State of a conversation that a Store keeps.
func (sc *scope) keep(k *kept) {
	sc.enter(k.state)
	sc.conversation, sc.kept = k.id, k
}

// StateFrom returns the State that WithState put into ctx.
func StateFrom(ctx context.Context) (*State, bool) {
	st := scopeOf(ctx).state
	return st, st != nil
}

// Bypass returns a context under which calls of a wrapped model pass through
// unchanged: for summarisers, classifiers and other calls that share the model
// but not the conversation. It concerns model calls only: the gate ignores it,
// and Executor.Call and tool calls clear it.
func Bypass(ctx context.Context) context.Context {
	sc := scopeOf(ctx)
	sc.bypass = true
	return sc.in(ctx)
}

// frame is an enclosing tool call: what holds the calls made inside it, by the
// gate that judged the marked call, so that a nested middleware needs no
// knowledge of its parent. It is immutable.
type frame struct {
	outer *frame
	state *State
	mw    *Middleware // that the marked call belongs to
	held  trial       // what held the marked call

	conversation string // that a Store keeps; empty: none
}
