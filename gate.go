package skillbay

import (
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// Names of skillbay's tools.
const (
	toolSkill   = "skill"
	toolDismiss = "skill_dismiss"
	toolFile    = "skill_file"
)

// Reasons of a Block, and details of a tool_call_blocked event.
const (
	reasonNotListed = "not listed"
	reasonBanned    = "banned"
	reasonGuarded   = "guarded"
	reasonParent    = "parent"
)

// Block says why a tool call does not run. The zero Block means nothing.
type Block struct {
	Tool, CallID string   // the call: its tool's name, and its id if it has one
	Reason       string   // "not listed", "banned", "guarded" or "parent"
	Skills       []string // the skills that restrict; for a guarded tool, those that list it
	Allowed      []string // the entries of the limit that the call missed

	texts *Texts
}

// String is the observation that the model gets instead of the tool's.
func (b *Block) String() string {
	t := b.texts
	if t == nil {
		t = English
	}
	skills, allowed := strings.Join(b.Skills, ", "), strings.Join(b.Allowed, ", ")
	if skills == "" {
		skills = t.NoSkills
	}
	if allowed == "" {
		allowed = t.NothingAllowed
	}
	tool := cut(clean(b.Tool), 64)
	switch b.Reason {
	case reasonBanned:
		return fill(t.Banned, "tool", tool, "skills", skills)
	case reasonGuarded:
		return fill(t.Guarded, "tool", tool, "skills", skills)
	case reasonParent:
		return fill(t.Parent, "tool", tool, "skills", skills, "allowed", allowed)
	}
	return fill(t.NotListed, "tool", tool, "skills", skills, "allowed", allowed)
}

// hold is what one launched skill holds tool calls to. Both lists bind: the
// recorded one, so that a release cannot widen a turn, and the current one, so
// that it can tighten it (SPEC 8.2).
type hold struct {
	skill  string
	rec    *policy // as of the skill's first launch in the window; nil: only the history or the batch shows it
	cur    *policy // of the loaded skill; nil: the release has it no more
	grants bool    // its launch may grant guarded tools
	live   bool    // launched in the current window and not dismissed
	yields bool    // a dismissed launch of an earlier turn: no bar to `skill` (8.8)
}

// base is the list that makes the skill a part of a union.
func (h *hold) base() *policy {
	if h.rec != nil {
		return h.rec
	}
	return h.cur
}

// released reports whether the loaded skill has lists of its own to hold to,
// not the recorded ones again.
func (h *hold) released() bool { return h.cur != nil && h.cur != h.rec }

// limits reports whether the skill belongs to the union of lists.
func (h *hold) limits() bool { b := h.base(); return b != nil && b.limits }

// narrowed reports whether a release gave the skill a list that its launch did
// not have: a limit of its own, since in a union it could only widen.
func (h *hold) narrowed() bool { return !h.limits() && h.cur != nil && h.cur.limits }

func (h *hold) bans(tool string) bool {
	return h.rec != nil && h.rec.bans(tool) || h.released() && h.cur.bans(tool)
}

// allows reports whether every list that the skill has contains the call.
func (h *hold) allows(c *trial) bool {
	missed := func(p *policy) bool { return p.limits && !p.allows(c) }
	return !(h.rec != nil && missed(h.rec) || h.released() && missed(h.cur))
}

// lists reports whether every list names the tool exactly.
func (h *hold) lists(tool string) bool {
	return h.base() != nil && (h.rec == nil || h.rec.lists(tool)) && (!h.released() || h.cur.lists(tool))
}

// allowed are the entries to tell the model.
func (h *hold) allowed() []string {
	p := h.base()
	if h.narrowed() {
		p = h.cur
	}
	var texts []string
	for i := range p.allow {
		e := &p.allow[i]
		agreed := h.cur == nil || !h.cur.limits || e.exact() && h.cur.allows(&trial{tool: e.name()}) ||
			slices.ContainsFunc(h.cur.allow, func(o entry) bool { return o.String() == e.String() })
		if agreed {
			texts = append(texts, e.String())
		}
	}
	return texts
}

// allows reports whether an entry contains the call. In a limit a pattern never
// contains `skill` or a guarded tool (8.7).
func (p *policy) allows(c *trial) bool {
	for i := range p.allow {
		e := &p.allow[i]
		if e.isPattern() && (c.skillCall || c.guarded) {
			continue
		}
		if e.allows(c.tool, c.input) {
			return true
		}
	}
	return false
}

func (p *policy) lists(tool string) bool {
	for i := range p.allow {
		if e := &p.allow[i]; e.exact() && sameTool(e.name(), tool) {
			return true
		}
	}
	return false
}

func (p *policy) bans(tool string) bool {
	for i := range p.ban {
		if p.ban[i].bans(tool) {
			return true
		}
	}
	return false
}

// trial is a tool call and all that its judge looks at: SPEC 8 as data.
type trial struct {
	tool, input string
	skillCall   bool   // the call is of the skill tool
	named       string // the loaded skill that a skill call names
	guarded     bool
	always      bool

	witnesses
}

// witnesses are the launches that hold a call.
type witnesses struct {
	ledger    []hold // P's launches in the ledger, a skill once
	history   []hold // P's launches that only the history shows
	siblings  []hold // S; for a skill call, those before it in the batch
	contested bool   // every restricted launch is a limit of its own, and nothing grants
}

// verdict is a refusal: the reason, who restricts, and what they allow.
type verdict struct {
	reason          string
	skills, allowed []string
}

// judge is the one judge of tool calls; nil lets the call run. It is a pure
// function, and allocates only to refuse.
func (c *trial) judge() *verdict {
	if c.always || sameTool(c.tool, toolDismiss) || sameTool(c.tool, toolFile) {
		return nil
	}
	groups := [...][]hold{c.ledger, c.history, c.siblings}
	for _, group := range groups {
		for i := range group {
			if group[i].bans(c.tool) && !(c.skillCall && group[i].yields) {
				return &verdict{reason: reasonBanned, skills: []string{group[i].skill}}
			}
		}
	}
	if c.skillCall {
		return c.judgeSkill()
	}
	for n, group := range groups {
		alone := n == 2 || n == 0 && c.contested // each a limit of its own
		if v := c.within(group, alone); v != nil {
			return v
		}
	}
	if c.guarded && !c.granted() {
		return &verdict{reason: reasonGuarded}
	}
	return nil
}

// judgeSkill judges a call of `skill` (8.4): blocked inside a limit, unless
// listed by its exact name or for a skill that is already in the window. It
// must pass whichever of the batch's earlier skill calls succeed (8.6): policy
// may yet refuse any of them, and then what it lists or launches does not count.
func (c *trial) judgeSkill() *verdict {
	inLedger := !c.contested && c.named != "" && among(c.ledger, c.named)
	listed := false // a limit of P lists `skill`, and so does every union with it
	if !inLedger {
		if v := c.within(c.ledger, c.contested); v != nil {
			return v
		}
		for i := range c.ledger {
			h := &c.ledger[i]
			listed = listed || !c.contested && !h.yields && h.limits() && h.lists(toolSkill)
		}
		for i := range c.siblings {
			h := &c.siblings[i]
			if h.skill == c.named && !c.contested || listed && h.limits() {
				continue
			}
			if v := c.within(c.siblings[i:i+1], true); v != nil {
				return v
			}
		}
	}
	if inLedger || !c.contested && c.named != "" && among(c.history, c.named) {
		return nil // known from the history alone it passes the history's limit, never the ledger's
	}
	return c.within(c.history, false)
}

// within judges the call by one witness: the union of its skills' lists, or
// each list alone.
func (c *trial) within(group []hold, alone bool) *verdict {
	limited, allowed := false, false
	for i := range group {
		h := &group[i]
		if c.skillCall && h.yields {
			continue
		}
		ok := func() bool {
			if c.skillCall {
				return h.lists(toolSkill)
			}
			return h.allows(c)
		}
		switch {
		case h.narrowed() || alone && h.limits():
			if !ok() {
				return refuse(group[i : i+1])
			}
		case h.limits():
			limited = true
			allowed = allowed || ok()
		}
	}
	if limited && !allowed {
		return refuse(group)
	}
	return nil
}

// refuse names the limits of a group.
func refuse(group []hold) *verdict {
	v := &verdict{reason: reasonNotListed}
	for i := range group {
		if h := &group[i]; h.limits() || h.narrowed() {
			v.skills = append(v.skills, h.skill)
			v.allowed = append(v.allowed, h.allowed()...)
		}
	}
	slices.Sort(v.allowed)
	v.allowed = slices.Compact(v.allowed)
	return v
}

// granted reports whether a launch grants the guarded tool (8.5): only one of
// the ledger, of a loaded skill that lists the tool by its exact name.
func (c *trial) granted() bool {
	if c.contested {
		return false
	}
	for i := range c.ledger {
		if h := &c.ledger[i]; h.grants && h.cur != nil && h.lists(c.tool) {
			return true
		}
	}
	return false
}

// snapshot returns what holds the calls nested in c: a copy, since c and its
// holds stay on the stack of the call's judge.
func (c *trial) snapshot() trial {
	all := slices.Concat(c.ledger, c.history, c.siblings)
	n, m := len(c.ledger), len(c.ledger)+len(c.history)
	return trial{skillCall: c.skillCall, witnesses: witnesses{
		ledger: all[:n], history: all[n:m], siblings: all[m:], contested: c.contested,
	}}
}

// holds appends the launches of the window that hold batch b, a skill once, in
// launch order: those up to its base. s.mu is held.
func (s *State) holds(to []hold, b *batch, cat *catalog) []hold {
	t := &s.book.Turn
	for i := range s.book.Launches {
		l := &s.book.Launches[i]
		if !l.Window || l.Seq > b.base {
			continue
		}
		over := s.dismissedBy(l, b.base)
		grants := !over && !s.withdrawn(l) && !t.Contested && t.N > 0 && l.Turn == t.N && l.Seq > t.Grants && !l.Inert
		yields := over && l.Turn < t.N && !t.Contested && s.dismissal(l.Skill).Turn == t.N
		at := indexOf(to, l.Skill)
		if at < 0 {
			cur := cat.policy(l.Skill)
			to = append(to, hold{skill: l.Skill, rec: l.lists(cur), cur: cur, grants: grants, live: !over, yields: yields})
			continue
		}
		to[at].grants, to[at].live = to[at].grants || grants, to[at].live || !over
		to[at].yields = to[at].yields && yields
	}
	return to
}

// dismissedBy reports whether a dismissal up to number base covers the launch:
// in one batch, dismissals apply after launches. s.mu is held.
func (s *State) dismissedBy(l *launch, base int64) bool {
	d := s.dismissal(l.Skill)
	return d != nil && d.covers(l) && d.Covers <= base
}

// withdrawn reports whether the host dismissed the launch: that ends its grants
// at once, also for calls under way. s.mu is held.
func (s *State) withdrawn(l *launch) bool {
	d := s.dismissal(l.Skill)
	return d != nil && d.Host && d.covers(l)
}

// shownBy appends to the ledger's holds the loaded skills of names that are not
// among them: the history's witness (8.1).
func shownBy(to []hold, names []string, cat *catalog) []hold {
	for _, name := range names {
		if p := cat.policy(name); p != nil && !among(to, name) {
			to = append(to, hold{skill: name, cur: p})
		}
	}
	return to
}

// gather finds what holds a call of batch b: in the ledger of s (nil: an empty
// one), in the names that the history shows, and among the batch's skill calls.
// The holds share buf's memory, as far as it goes. s.mu is held.
func gather(s *State, b *batch, call *batchCall, names []string, cat *catalog, buf []hold) (w witnesses) {
	if s != nil {
		buf = s.holds(buf, b, cat)
		w.contested = s.book.Turn.Contested
	}
	w.ledger = buf
	buf = shownBy(buf, names, cat)
	w.history, w.siblings = buf[len(w.ledger):], buf[len(buf):]
	skillCall := sameTool(call.tool, toolSkill)
	counts := func(seq int64, skill string) bool {
		return skill != "" && seq != call.seq && (!skillCall || seq < call.seq) && !among(w.siblings, skill)
	}
	for i := range b.calls {
		sib := &b.calls[i]
		if !counts(sib.seq, sib.target) {
			continue
		}
		p := trial{tool: toolSkill, skillCall: true, named: sib.target}
		p.ledger, p.history, p.contested = w.ledger, w.history, w.contested
		if cur := cat.policy(sib.target); cur != nil && p.judge() == nil {
			w.siblings = append(w.siblings, hold{skill: sib.target, rec: s.recordedPolicy(sib.target, cur), cur: cur})
		}
	}
	if s != nil { // what launched in this batch holds it under any release
		for i := range s.book.Launches {
			l := &s.book.Launches[i]
			if l.Window && !l.Host && l.Seq > b.base && l.Turn == s.book.Turn.N && counts(l.Seq, l.Skill) {
				cur := cat.policy(l.Skill)
				w.siblings = append(w.siblings, hold{skill: l.Skill, rec: s.recordedPolicy(l.Skill, cur), cur: cur})
			}
		}
	}
	return w
}

// recordedPolicy is the list of the skill's first launch in the window, or nil;
// current is that of the loaded skill. s.mu is held.
func (s *State) recordedPolicy(skill string, current *policy) *policy {
	if s == nil {
		return nil
	}
	if first := s.first(skill); first != nil {
		return first.lists(current)
	}
	return nil
}

// indexOf is where a skill stands among the holds, or -1.
func indexOf(holds []hold, skill string) int {
	for i := range holds {
		if holds[i].skill == skill {
			return i
		}
	}
	return -1
}

// among reports whether a skill is among the holds.
func among(holds []hold, skill string) bool { return indexOf(holds, skill) >= 0 }

// CheckAllowedTools judges a tool call by its history alone: the gate as the
// package's documentation has it, with an empty State, a pure function. It returns nil when the
// call may run. A Middleware judges more strictly: it also knows the State,
// guarded tools and who may see a skill.
func CheckAllowedTools(history []llms.MessageContent, call llms.ToolCall, skills []Skill) *Block {
	cat := catalogOf(skills)
	chap := readChapter(history, nil)
	calls := make([]batchCall, len(chap.calls))
	for i, other := range chap.calls {
		calls[i] = cat.describe(other, nil)
	}
	b, own := new(State).place(&chap, calls, cat.describe(call, nil))
	c := trial{tool: strings.TrimSpace(nameOf(call)), input: inputOf(call), skillCall: isSkillCall(call), named: own.named}
	c.witnesses = gather(nil, b, &own, chap.names, cat, nil)
	v := c.judge()
	if v == nil {
		return nil
	}
	return &Block{Tool: c.tool, CallID: call.ID, Reason: v.reason, Skills: v.skills, Allowed: v.allowed}
}

func nameOf(call llms.ToolCall) string {
	if call.FunctionCall == nil {
		return ""
	}
	return call.FunctionCall.Name
}

func inputOf(call llms.ToolCall) string {
	if call.FunctionCall == nil {
		return ""
	}
	return call.FunctionCall.Arguments
}
