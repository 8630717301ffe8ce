package skillbay

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// errNoRoom is a launch over a limit of SPEC 9; it never leaves the package.
var errNoRoom = errors.New("over a limit of the State")

// launch records a launch that every check let through and returns its
// observation: the one way in which skills become active. The order is record,
// audit, OnChange, so that an event states a fact and a failed save loses none.
func (mw *Middleware) launch(ctx context.Context, c *ticket, o launchOrder) (string, error) {
	st, f := c.state, o.f
	l := launch{
		Seq: o.seq, CallID: identifier(o.callID), Skill: f.Name, Args: clean(o.args), Given: o.given,
		Time: mw.now().UnixMilli(), Digest: f.sum, Host: o.host,
		Allowed: f.AllowedTools, Banned: f.DisallowedTools,
	}
	if f.policy.limits && l.Allowed == nil {
		l.Allowed = []string{}
	}
	if len(l.Args) > maxArgsLaunch {
		return "", errNoRoom
	}
	var obs string
	if earlier, ok := st.standing(&l, c.sees); ok && !o.host && !mw.runsShell(f) {
		l.Len, l.Hash, l.Tokens, l.Short = earlier.Len, earlier.Hash, earlier.Tokens, true
		obs = mw.answer(st, f, &l)
	} else {
		if mw.runsShell(f) {
			l.Shell = mw.runShell(ctx, st, f, &l)
			if err := ctx.Err(); err != nil {
				return "", err // their output is no part of the skill then: nothing is recorded
			}
		}
		if f.constant(&l) {
			ready := mw.ready(f)
			obs, l.Hash, l.Tokens = ready.observation, ready.hash, ready.tokens
		} else {
			obs = mw.observation(st, f, &l)
			l.Hash, l.Tokens = hashOf(obs), mw.count(obs)
		}
		l.Len = len(obs)
	}
	recorded, before := false, false
	st.do(func() {
		if twin := st.launched(o.seq); twin != nil && !o.host { // the call is being delivered twice at once
			l, before = *twin, true
			return
		}
		if o.host && !c.within { // waits for the next turn
			recorded = st.room(&l)
			if recorded {
				l.Unaudited = !st.book.Turn.Answered && st.hostLaunched(l.Skill, l.Args)
				st.number(&l) // join gives it another; until then a dismissal can be compared with it
				st.book.Pending = append(st.book.Pending, l)
				st.changed()
			}
			return
		}
		l.Turn = st.book.Turn.N
		if recorded = st.room(&l); !recorded {
			return
		}
		if o.host {
			st.book.Seq++
			l.Seq = st.book.Seq
		}
		if l.Short {
			st.repoint(&l)
		}
		if last := st.last(l.Skill); last != nil {
			l.Renewed = last.Renewed || last.Digest != l.Digest
		}
		st.enter(l)
		st.coverLate(&l)
		st.changed()
	})
	if before {
		return mw.answer(st, f, &l), nil
	}
	if !recorded {
		return "", errNoRoom
	}
	if !l.Unaudited {
		mw.auditLaunch(ctx, st, &l)
	}
	if err := mw.save(ctx, st, &l); err != nil {
		return "", err
	}
	return obs, nil
}

// save lets the host save the State after a launch. Where that fails, the same
// call delivered again tries once more.
func (mw *Middleware) save(ctx context.Context, st *State, l *launch) error {
	err := mw.onChange(ctx, st)
	st.do(func() {
		if recorded := st.launched(l.Seq); recorded != nil {
			recorded.unsaved = err != nil
		}
	})
	if err != nil {
		return &Error{Op: "launch", Skill: l.Skill, Err: err}
	}
	return nil
}

func (mw *Middleware) auditLaunch(ctx context.Context, st *State, l *launch) {
	if mw.cfg.Audit == nil {
		return
	}
	e := Event{Type: EventInvoked, Skill: l.Skill, Args: l.Args, Digest: hexDigest(l.Digest), ToolCallID: l.CallID, Tool: toolSkill}
	if l.Host {
		e.Tool, e.Detail = "", "host"
	}
	mw.audit(ctx, st, e)
}

// hexDigest turns a recorded digest into the form of Skill.Digest.
func hexDigest(digest string) string {
	raw, _ := base64.RawStdEncoding.DecodeString(digest)
	return hex.EncodeToString(raw)
}

// answer is the observation of a recorded launch: also when its call is
// delivered again.
func (mw *Middleware) answer(st *State, f *frozen, l *launch) string {
	if l.Short {
		return launchLine + f.Name + "\n\n" + mw.texts.LaunchedAgain
	}
	return mw.observation(st, f, l)
}

// constant reports whether the launch says the same in every conversation.
func (f *frozen) constant(l *launch) bool { return !l.Given && l.Shell == nil && !f.body.private }

// ready returns the texts of constant launches of the skill. They are made at
// its first launch, since most skills of a large set are never launched.
func (mw *Middleware) ready(f *frozen) *texts {
	f.made.Do(func() {
		if l := (&launch{Skill: f.Name}); f.constant(l) {
			obs := mw.observation(nil, f, l)
			f.texts = texts{observation: obs, hash: hashOf(obs), tokens: mw.count(obs), again: mw.again(nil, f, l)}
		}
	})
	return &f.texts
}

// delivered reports whether content is the launch's full observation: length
// first, then hash.
func (mw *Middleware) delivered(l *launch, content string) bool {
	if len(content) != l.Len {
		return false
	}
	if f := mw.catalog.byName[l.Skill]; f != nil && f.constant(l) {
		if ready := mw.ready(f); ready.hash == l.Hash {
			return content == ready.observation
		}
	}
	return hashOf(content) == l.Hash
}

// again is the text of a body that is put back.
func (mw *Middleware) again(st *State, f *frozen, l *launch) string {
	past := func(args string) string {
		return "\n\n" + fill(mw.texts.ReinjectedArguments, "args", args)
	}
	return defuse(fill(mw.texts.Reinjected, "skill", f.Name) + "\n\n" + mw.instructions(st, f, l, past))
}

// observation is the full text of a launch. A constant one needs no State.
func (mw *Middleware) observation(st *State, f *frozen, l *launch) string {
	text := launchLine + f.Name + "\n\n" + mw.texts.Launched + "\n\n" + mw.instructions(st, f, l, nil)
	if len(f.Files) == 0 {
		return text
	}
	named := f.Files[:min(len(f.Files), maxNamedFiles)]
	files := strings.Join(named, ", ")
	if more := len(f.Files) - len(named); more > 0 {
		files += ", " + fill(mw.texts.FilesMore, "count", strconv.Itoa(more))
	}
	return strings.TrimRight(text, "\n") + "\n\n" + fill(mw.texts.Files, "files", files)
}

// instructions is the skill's expanded body below its base directory. appended
// words arguments that nothing in the body takes; nil: as at a launch.
func (mw *Middleware) instructions(st *State, f *frozen, l *launch, appended func(string) string) string {
	session := ""
	if st != nil {
		session = st.SessionID()
	}
	header := baseHeader(f.Dir)
	if !f.onDisk && len(f.Files) > 0 {
		header += mw.texts.FilesByTool + "\n\n"
	}
	return header + f.body.expand(values{
		dir: f.Dir, args: l.Args, given: l.Given, session: session, shell: l.Shell, appended: appended,
	})
}

// runsShell reports whether launches of the skill run commands.
func (mw *Middleware) runsShell(f *frozen) bool {
	return mw.cfg.EnableShellBlocks && f.onDisk && f.body.shellBlocks() > 0
}

// runShell runs the skill's shell blocks, unless its directory changed since
// New: then the scripts are not those that were reviewed.
func (mw *Middleware) runShell(ctx context.Context, st *State, f *frozen, l *launch) []string {
	if f.changedOnDisk() {
		mw.log.Error("skillbay: the skill's directory changed since New; its shell blocks do not run", "skill", f.Name)
		outputs := make([]string, f.body.shellBlocks())
		for i := range outputs {
			outputs[i] = shellFailed("the skill's directory changed since it was loaded")
		}
		return outputs
	}
	outputs := f.body.runShell(ctx, shellRun{
		interpreter: f.Shell, dir: f.Dir, timeout: mw.cfg.ShellTimeout, args: l.Args, given: l.Given, session: st.SessionID(),
	})
	for i := range outputs {
		outputs[i] = clean(outputs[i])
	}
	return outputs
}

// standing returns the active launch of the same skill, arguments and release
// whose body stands in the conversation: visible, as sees tells, or anchored.
func (s *State) standing(l *launch, sees func(*launch) bool) (found launch, ok bool) {
	var last *launch
	anchored := false
	s.do(func() {
		if p := s.last(l.Skill); p != nil && s.active(p) && !p.Lost {
			copied := *p
			last = &copied
			anchored = slices.ContainsFunc(s.book.Anchors, func(a anchor) bool {
				return a.of(p) && a.Kind != anchorAbsent
			})
		}
	})
	if last == nil || last.Args != l.Args || last.Given != l.Given || last.Digest != l.Digest {
		return found, false
	}
	return *last, anchored || sees != nil && sees(last)
}

// repoint hangs the anchor of an earlier launch with the same text on this one.
// What the launch found standing may have been overtaken by a sibling call.
// s.mu is held.
func (s *State) repoint(l *launch) {
	for i := range s.book.Anchors {
		a := &s.book.Anchors[i]
		if a.Skill != l.Skill || a.Kind == anchorAbsent || a.Turn == l.Turn && a.Seq > l.Seq {
			continue
		}
		same := func(o launch) bool {
			return a.of(&o) && o.Args == l.Args && o.Given == l.Given && o.Digest == l.Digest
		}
		if slices.ContainsFunc(s.book.Launches, same) {
			a.Turn, a.Seq = l.Turn, l.Seq
		}
	}
}

// coverLate lets a dismissal of the current batch apply after a launch that
// joins the batch later: in one batch, dismissals apply after launches (SPEC 7).
// s.mu is held.
func (s *State) coverLate(l *launch) {
	d := s.dismissal(l.Skill)
	if d != nil && !d.Host && !l.Host && s.batch != nil && d.Turn == l.Turn && d.Covers > s.batch.base {
		d.Covers = max(d.Covers, l.Seq)
	}
}

// launched returns the launch that the model's call of that number made in the
// current turn, or nil. s.mu is held.
func (s *State) launched(seq int64) *launch {
	for i := range s.book.Launches {
		if l := &s.book.Launches[i]; l.Window && l.Seq == seq && l.Turn == s.book.Turn.N && !l.Host {
			return l
		}
	}
	return nil
}

// redelivered returns the launch that the call of that number made before.
func (s *State) redelivered(seq int64) (found launch, ok bool) {
	s.do(func() {
		if l := s.launched(seq); l != nil {
			found, ok = *l, true
		}
	})
	return found, ok
}

// Invoke launches a skill for the host: a click of the user's, a router's
// choice. It passes the checks of the skill tool but the gate and
// disable-model-invocation. Inside a run or a tool call the launch belongs to
// the current turn from the next batch on; otherwise it waits and joins the
// turn that the next run, BeginTurn or tool-offering model call begins or goes
// on with. Empty args means that no arguments are given.
//
// Errors: ErrNoState, ErrUnknownSkill (also for a skill that Visible hides),
// ErrNotUserInvocable, ErrDenied, those of OnChange, LoadState and SaveState, and
// ctx's own.
func (mw *Middleware) Invoke(ctx context.Context, name, args string) error {
	fail := func(err error) error { return &Error{Op: "invoke", Skill: name, Err: err} }
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, err := mw.loaded(ctx)
	if err != nil {
		return err
	}
	sc := scopeOf(ctx)
	st := sc.state
	if st == nil {
		return fail(ErrNoState)
	}
	c := &ticket{state: st, within: sc.run != nil || sc.nested()}
	f := mw.catalog.find(strings.TrimPrefix(strings.TrimSpace(name), "/"))
	args = clean(args)
	deny := func(detail string, err error) error {
		mw.audit(ctx, st, Event{Type: EventDenied, Skill: f.Name, Args: cut(args, maxArgsLaunch), Detail: detail})
		if err == ErrDenied && detail != "" {
			err = fmt.Errorf("%w: %s", err, detail)
		}
		return fail(err)
	}
	switch {
	case f == nil:
		return fail(ErrUnknownSkill)
	case c.within && !mw.showsHere(ctx, st, f), !c.within && !mw.visible(ctx, f):
		return deny("hidden", ErrUnknownSkill)
	case !f.UserInvocable:
		return deny("user-invocable", ErrNotUserInvocable)
	}
	if other := st.exclusive(f.Name, c.within || mw.cfg.KeepWindow); mw.cfg.Exclusive && other != "" {
		return deny(fill(mw.texts.ReasonExclusive, "skills", other), ErrDenied)
	}
	if d := mw.permit(ctx, f, args); !d.Allowed {
		return deny(d.Reason, ErrDenied)
	}
	if st.invokedBefore(f.Name, args, c.within) {
		return mw.saveKept(ctx, st) // perhaps it could not be saved
	}
	_, err = mw.launch(ctx, c, launchOrder{f: f, args: args, given: args != "", host: true})
	if err == errNoRoom {
		return deny(mw.texts.ReasonLimit, ErrDenied)
	}
	return err
}

// invokedBefore reports whether the host launched the same already: in this
// turn if it goes on, or among the launches that wait for the next.
func (s *State) invokedBefore(skill, args string, within bool) (before bool) {
	s.do(func() {
		if within {
			before = s.hostLaunched(skill, args)
			return
		}
		before = slices.ContainsFunc(s.book.Pending, func(l launch) bool { return l.Skill == skill && l.Args == args })
	})
	return before
}

// exclusive returns another skill that bars the host's launch of this one: it
// was launched in the window that the launch will join and is not dismissed,
// or waits to join it. With keep, an answered turn's window counts too.
func (s *State) exclusive(skill string, keep bool) (other string) {
	s.do(func() {
		for i := range s.book.Launches {
			l := &s.book.Launches[i]
			if l.Window && l.Skill != skill && !s.dismissed(l) && (keep || !s.book.Turn.Answered) {
				other = l.Skill
			}
		}
		for _, l := range s.book.Pending {
			if l.Skill != skill {
				other = l.Skill
			}
		}
	})
	return other
}

// Dismiss releases an active skill for the host, also one that the host
// launched. Like skill_dismiss it concerns the context, never the limit.
// Errors: ErrNoState, ErrNotActive, those of OnChange, LoadState and SaveState,
// and ctx's own.
func (mw *Middleware) Dismiss(ctx context.Context, name, reason string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, err := mw.loaded(ctx)
	if err != nil {
		return err
	}
	st := scopeOf(ctx).state
	if st == nil {
		return &Error{Op: "dismiss", Skill: name, Err: ErrNoState}
	}
	if recorded := st.recorded(name); recorded != "" {
		name = recorded
	}
	d := dismissal{Skill: name, Reason: cut(clean(reason), maxReason), Time: mw.now().UnixMilli(), Host: true}
	done := false
	st.do(func() {
		last := st.last(name)
		waiting := slices.ContainsFunc(st.book.Pending, func(l launch) bool { return l.Skill == name })
		if done = waiting || last != nil && st.active(last); done {
			st.book.Seq++ // an event of its own: a batch from before is not taken for a later one
			d.Turn, d.Covers = st.book.Turn.N, st.book.Seq
			st.dismiss(d)
		}
	})
	if !done {
		return &Error{Op: "dismiss", Skill: name, Err: cmp.Or(mw.saveKept(ctx, st), ErrNotActive)}
	}
	mw.audit(ctx, st, Event{Type: EventDismissed, Skill: name, Detail: d.Reason})
	if err := mw.onChange(ctx, st); err != nil {
		return &Error{Op: "dismiss", Skill: name, Err: err}
	}
	return nil
}
