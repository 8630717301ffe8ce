package skillbay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tmc/langchaingo/llms"
)

// Config says what a Middleware serves and how strictly. New copies it.
// Functions may be called from many goroutines at once; one that panics fails
// closed: Permit denies, Visible hides, CountTokens falls back to the default,
// Audit is logged.
type Config struct {
	// Skills are read in order; a later skill replaces an earlier one of the
	// same name.
	Skills []Source
	// ContextWindow is the model's, in tokens; 0 means 200000.
	ContextWindow int
	// CountTokens estimates the tokens of a text; New too calls it from several
	// goroutines. Nil: 4 ASCII characters are one token, any other character is
	// one.
	CountTokens func(string) int
	// Permit decides a launch of the skill with these arguments. Nil allows
	// all. It is asked at every launch, and once a turn before a body is
	// re-injected.
	Permit func(ctx context.Context, skill Skill, args string) Decision
	// Visible shows a skill to this conversation: per tenant, role or flag. Nil
	// shows all. It is asked once a turn and skill.
	Visible func(ctx context.Context, skill Skill) bool
	// Audit receives every event, after the fact. Nil: none.
	Audit func(context.Context, Event)
	// OnChange is called after each launch and dismissal, before its observation
	// returns: the place to save a State that no Store keeps. Its error ends the call with that
	// error; what happened stays recorded.
	OnChange func(context.Context, *State) error
	// Store keeps the States of conversations: see WithConversation. Nil: the host
	// keeps them, and puts them into the context by WithState.
	Store Store
	// StoreTimeout bounds one call of the Store; 0 means 10 seconds.
	StoreTimeout time.Duration
	// Logger receives what an operator should know. Nil is silent.
	Logger *slog.Logger
	// Strict makes New fail when any skill is refused; the error joins all
	// refusals.
	Strict bool
	// AlwaysAllowed tools run under every limit; GuardedTools run only under a
	// launched skill that lists them by name. Exact tool names.
	AlwaysAllowed, GuardedTools []string
	// Exclusive allows one active skill at a time in a window.
	Exclusive bool
	// KeepWindow keeps restricted launches as limits into the next turns, until
	// they are dismissed: for procedures that ask the user back.
	KeepWindow bool
	// IdleTurns releases an active skill at the start of a turn if it was not
	// launched in that many turns before: a dismissal with the reason "idle". One
	// that KeepWindow still keeps as a limit stays. 0 releases none.
	IdleTurns int
	// ReinjectBudget bounds re-injected bodies, in tokens. 0 means the smaller
	// of 25000 and a quarter of ContextWindow; negative re-injects none.
	ReinjectBudget int
	// EnableShellBlocks runs the commands in skill bodies at launch.
	EnableShellBlocks bool
	// ShellTimeout bounds one command; 0 means 30 seconds.
	ShellTimeout time.Duration
	// Models names the header's `model` values that the service knows: others are
	// reported. No model is switched by it yet.
	Models map[string]string
	// Texts are the words said to the model. Nil: English.
	Texts *Texts
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
}

// Decision is the answer of Config.Permit. The zero value denies.
type Decision struct {
	Allowed bool   // the launch may happen
	Reason  string // of a denial; the model sees it
}

// Allow lets a launch happen.
var Allow = Decision{Allowed: true}

// Deny refuses a launch for a reason that the model sees.
func Deny(reason string) Decision { return Decision{Reason: reason} }

// Defaults of Config.
const (
	defaultContextWindow  = 200_000
	defaultReinjectBudget = 25_000
	defaultShellTimeout   = 30 * time.Second
	defaultStoreTimeout   = 10 * time.Second
	maxVisibleSets        = 64 // listings kept, one per set of visible skills
)

// Middleware gives langchaingo agents the skills of one Config. It is
// immutable and safe for any number of goroutines and conversations; what
// belongs to a conversation is in its State.
type Middleware struct {
	cfg         Config
	catalog     *catalog
	texts       *Texts
	listing     *listing
	definitions []llms.Tool
	schemas     map[string]map[string]any // of skillbay's tools, by upper-case name
	diagnostics []Diagnostic
	log         *slog.Logger

	listings sync.Map     // by visible set: *listing, at most maxVisibleSets
	listed   atomic.Int64 // listings built
}

// New reads the skills of cfg and freezes them. It fails when cfg contradicts
// itself (ErrConfig), when a source cannot be listed (ErrSource), and under
// Strict when a skill is refused (ErrRefused).
func New(cfg Config) (*Middleware, error) {
	mw, err := build(cfg)
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			err = &Error{Op: "new", Err: err}
		}
		return nil, err
	}
	return mw, nil
}

func build(cfg Config) (*Middleware, error) {
	if err := cfg.settle(); err != nil {
		return nil, err
	}
	texts, err := cfg.Texts.complete()
	if err != nil {
		return nil, err
	}
	mw := &Middleware{cfg: cfg, texts: texts, log: cfg.Logger}
	if mw.log == nil {
		mw.log = slog.New(slog.DiscardHandler)
	}
	skills, diagnostics, err := load(cfg.Skills, limits{
		bodyTokens:     max(1, cfg.ContextWindow/2),
		reinjectTokens: cfg.ReinjectBudget,
		count:          mw.count,
		shell:          cfg.EnableShellBlocks,
	})
	if err != nil {
		return nil, err
	}
	mw.catalog = newCatalog(skills)
	mw.diagnostics = append(diagnostics, mw.review()...)
	l := buildListing(skills, texts, cfg.ContextWindow, mw.count)
	mw.listing = &l
	if l.diag != "" {
		mw.diagnostics = append(mw.diagnostics, Diagnostic{Severity: Warning, Message: l.diag})
	}
	refused := 0
	for _, d := range mw.diagnostics {
		level := slog.LevelWarn
		if d.Severity == Refused {
			level = slog.LevelError
			refused++
		}
		mw.log.Log(context.Background(), level, "skillbay: "+d.Message,
			"severity", d.Severity.String(), "skill", d.Skill, "path", d.Path, "line", d.Line)
	}
	if err := mw.checkGuarded(refused > 0); err != nil {
		return nil, err
	}
	if cfg.Strict {
		for _, d := range mw.diagnostics {
			if d.Severity == Refused {
				return nil, &Error{
					Op: "new", Skill: d.Skill, Path: d.Path, Line: d.Line,
					Err: fmt.Errorf("%w: %s", ErrRefused, d.Message),
				}
			}
		}
	}
	mw.definitions = mw.define()
	mw.schemas = map[string]map[string]any{}
	for _, d := range mw.definitions {
		mw.schemas[strings.ToUpper(d.Function.Name)] = d.Function.Parameters.(map[string]any)
	}
	return mw, nil
}

// settle copies cfg's slices and fills its defaults, or says what contradicts.
func (cfg *Config) settle() error {
	cfg.Skills = slices.Clone(cfg.Skills)
	cfg.AlwaysAllowed = slices.Clone(cfg.AlwaysAllowed)
	cfg.GuardedTools = slices.Clone(cfg.GuardedTools)
	cfg.Models = maps.Clone(cfg.Models)
	switch {
	case cfg.ContextWindow < 0:
		return fmt.Errorf("%w: ContextWindow is negative", ErrConfig)
	case cfg.ShellTimeout < 0:
		return fmt.Errorf("%w: ShellTimeout is negative", ErrConfig)
	case cfg.IdleTurns < 0:
		return fmt.Errorf("%w: IdleTurns is negative", ErrConfig)
	case cfg.StoreTimeout < 0:
		return fmt.Errorf("%w: StoreTimeout is negative", ErrConfig)
	}
	for _, list := range []struct {
		field string
		tools []string
	}{{"AlwaysAllowed", cfg.AlwaysAllowed}, {"GuardedTools", cfg.GuardedTools}} {
		for i, tool := range list.tools {
			tool = strings.TrimSpace(tool)
			list.tools[i] = tool
			switch {
			case tool == "":
				return fmt.Errorf("%w: %s holds an empty name", ErrConfig, list.field)
			case strings.ContainsAny(tool, "*()"):
				return fmt.Errorf("%w: %s holds %q: an exact tool name is needed", ErrConfig, list.field, tool)
			case isOwnTool(tool):
				return fmt.Errorf("%w: %s holds %q, a tool of skillbay's", ErrConfig, list.field, tool)
			}
		}
	}
	for _, tool := range cfg.GuardedTools {
		if hasTool(cfg.AlwaysAllowed, tool) {
			return fmt.Errorf("%w: %q is in both AlwaysAllowed and GuardedTools", ErrConfig, tool)
		}
	}
	if cfg.ContextWindow == 0 {
		cfg.ContextWindow = defaultContextWindow
	}
	switch {
	case cfg.ReinjectBudget == 0:
		cfg.ReinjectBudget = min(defaultReinjectBudget, cfg.ContextWindow/4)
	case cfg.ReinjectBudget < 0:
		cfg.ReinjectBudget = 0
	case cfg.ReinjectBudget > cfg.ContextWindow:
		return fmt.Errorf("%w: ReinjectBudget is greater than ContextWindow", ErrConfig)
	}
	if cfg.ShellTimeout == 0 {
		cfg.ShellTimeout = defaultShellTimeout
	}
	if cfg.StoreTimeout == 0 {
		cfg.StoreTimeout = defaultStoreTimeout
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return nil
}

// now is the clock of ledgers and events, in UTC and whole milliseconds; where
// the host's panics, the machine's.
func (mw *Middleware) now() (t time.Time) {
	defer func() {
		if r := recover(); r != nil {
			mw.log.Error("skillbay: Now panicked", "panic", r)
			t = time.Now().UTC().Truncate(time.Millisecond)
		}
	}()
	return mw.cfg.Now().UTC().Truncate(time.Millisecond)
}

// review reports entries of loaded skills that the configuration makes moot.
func (mw *Middleware) review() (diagnostics []Diagnostic) {
	for _, f := range mw.catalog.skills {
		report := func(format string, args ...any) {
			diagnostics = append(diagnostics, Diagnostic{
				Skill: f.Name, Path: f.path, Severity: Warning, Message: fmt.Sprintf(format, args...),
			})
		}
		for _, tool := range slices.Concat([]string{toolDismiss, toolFile}, mw.cfg.AlwaysAllowed) {
			if f.policy.bans(tool) {
				report("disallowed-tools: %s is always allowed and cannot be banned", tool)
			}
		}
		if _, mapped := mw.cfg.Models[f.Model]; f.Model != "" && !mapped {
			report("model: %q is not mapped by Config.Models and is ignored", f.Model)
		}
	}
	return diagnostics
}

// checkGuarded refuses a guarded tool that no skill lists: it could never run.
// When skills were refused it may be theirs.
func (mw *Middleware) checkGuarded(someRefused bool) error {
	for _, tool := range mw.cfg.GuardedTools {
		listed := slices.ContainsFunc(mw.catalog.skills, func(f *frozen) bool { return f.policy.lists(tool) })
		switch {
		case listed:
		case someRefused:
			d := Diagnostic{Severity: Warning, Message: fmt.Sprintf("GuardedTools: no loaded skill lists %q by name", tool)}
			mw.diagnostics = append(mw.diagnostics, d)
			mw.log.Warn("skillbay: " + d.Message)
		default:
			return fmt.Errorf("%w: GuardedTools holds %q, which no skill in Skills lists by name", ErrConfig, tool)
		}
	}
	return nil
}

// Skills returns the loaded skills in name order.
func (mw *Middleware) Skills() []Skill {
	skills := make([]Skill, len(mw.catalog.skills))
	for i, f := range mw.catalog.skills {
		skills[i] = f.clone()
	}
	return skills
}

// Skill returns the skill of that exact name.
func (mw *Middleware) Skill(name string) (Skill, bool) {
	if f := mw.catalog.byName[name]; f != nil {
		return f.clone(), true
	}
	return Skill{}, false
}

// Listing is what a model sees of all skills when Visible hides none; empty
// when there is nothing to list.
func (mw *Middleware) Listing() string { return mw.listing.text }

// Diagnostics returns what New found, in the order of its finding.
func (mw *Middleware) Diagnostics() []Diagnostic { return slices.Clone(mw.diagnostics) }

// hasTool reports whether the list holds the tool's name.
func hasTool(list []string, tool string) bool {
	for _, name := range list {
		if sameTool(name, tool) {
			return true
		}
	}
	return false
}

func isOwnTool(name string) bool {
	return sameTool(name, toolSkill) || sameTool(name, toolDismiss) || sameTool(name, toolFile)
}

// count is Config.CountTokens, or the default where it is nil, panics or is
// negative.
func (mw *Middleware) count(text string) (n int) {
	if mw.cfg.CountTokens == nil {
		return defaultTokens(text)
	}
	defer func() {
		if r := recover(); r != nil {
			mw.log.Error("skillbay: CountTokens panicked", "panic", r)
			n = defaultTokens(text)
		}
	}()
	if n = mw.cfg.CountTokens(text); n < 0 {
		n = defaultTokens(text)
	}
	return n
}

// permit asks Config.Permit; a panic denies.
func (mw *Middleware) permit(ctx context.Context, f *frozen, args string) (d Decision) {
	if mw.cfg.Permit == nil {
		return Allow
	}
	defer func() {
		if r := recover(); r != nil {
			mw.log.Error("skillbay: Permit panicked", "skill", f.Name, "panic", r)
			d = Decision{}
		}
	}()
	return mw.cfg.Permit(ctx, f.clone(), args)
}

// visible asks Config.Visible; a panic hides.
func (mw *Middleware) visible(ctx context.Context, f *frozen) (shown bool) {
	if mw.cfg.Visible == nil {
		return true
	}
	defer func() {
		if r := recover(); r != nil {
			mw.log.Error("skillbay: Visible panicked", "skill", f.Name, "panic", r)
			shown = false
		}
	}()
	return mw.cfg.Visible(ctx, f.clone())
}

// audit completes and emits an event; a panic of the host's is logged.
func (mw *Middleware) audit(ctx context.Context, st *State, e Event) {
	if mw.cfg.Audit == nil {
		return
	}
	e.Time, e.SessionID, e.Turn = mw.now(), st.SessionID(), st.Turn()
	if f := mw.catalog.byName[e.Skill]; f != nil {
		e.Version = f.Version
		if e.Digest == "" {
			e.Digest = f.Digest
		}
	}
	defer func() {
		if r := recover(); r != nil {
			mw.log.Error("skillbay: Audit panicked", "event", e.Type, "panic", r)
		}
	}()
	mw.cfg.Audit(ctx, e)
}

// onChange saves the State after a launch or dismissal: in the Store, and by the
// host; a panic is an error.
func (mw *Middleware) onChange(ctx context.Context, st *State) (err error) {
	if err := mw.saveKept(ctx, st); err != nil {
		return err
	}
	if mw.cfg.OnChange == nil || st.child {
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("OnChange panicked: %v", r)
		}
	}()
	return mw.cfg.OnChange(ctx, st)
}
