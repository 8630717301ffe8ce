package skillbay

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// reading is what one pass over a model call's messages finds. Indexes are of
// messages; -1 is none.
type reading struct {
	ais         int  // AI messages
	first, last int  // human messages
	current     int  // the last real user message
	open        bool // it is the last message, trailing reminders skipped
	sightings   []sighting
	launching   []launching
	edits       []int // messages whose texts are to be defused, or reminders
	crooked     bool  // straighten has work
}

// sighting is a human message that was looked for.
type sighting struct {
	opener
	seen int // equal texts so far
	at   int // where it stands, or -1
}

// read makes the one pass over messages: it reads each text once, and hashes
// only human texts that are as long as one that is looked for.
func read(st *State, messages []llms.MessageContent, wanted []opener) reading {
	r := reading{first: -1, last: -1, current: -1, sightings: make([]sighting, len(wanted))}
	for i, o := range wanted {
		r.sightings[i] = sighting{opener: o, at: -1}
	}
	var p pairing
	trailing := -1 // the last message that is no reminder
	for i := range messages {
		m := &messages[i]
		edit, reminder := false, false
		switch m.Role {
		case llms.ChatMessageTypeHuman:
			if r.first < 0 {
				r.first = i
			}
			r.last = i
			if reminder = st.isReminder(*m); reminder {
				edit = true
				break
			}
			r.current = i
			r.meet(*m, i)
		case llms.ChatMessageTypeAI:
			r.ais++
			p.meet(*m)
		}
		if !reminder {
			trailing = i
		}
		for n, part := range m.Parts {
			switch part := part.(type) {
			case llms.ToolCallResponse:
				r.launching = p.appendLaunching(r.launching, i, n, part)
				edit = edit || tagged(part.Content)
			case llms.ToolCall:
				edit = edit || tagged(unescaped(inputOf(part)))
			case llms.TextContent:
				edit = edit || m.Role != llms.ChatMessageTypeSystem && tagged(part.Text)
			default:
				text, ok := partText(part)
				edit = edit || ok && m.Role != llms.ChatMessageTypeSystem && tagged(text)
			}
		}
		if edit {
			r.edits = append(r.edits, i)
		}
		r.crooked = r.crooked || crooked(*m)
	}
	r.open = r.current >= 0 && r.current == trailing
	return r
}

// meet compares a human message with what is looked for.
func (r *reading) meet(m llms.MessageContent, at int) {
	text, hash := "", ""
	for i := range r.sightings {
		s := &r.sightings[i]
		if s.Kind != byMessage {
			continue
		}
		if text == "" {
			text = textOf(m)
		}
		if len(text) != s.Len {
			continue
		}
		if hash == "" {
			hash = hashOf(text)
		}
		if hash != s.Hash {
			continue
		}
		if s.seen == s.Nth {
			s.at = at
		}
		s.seen++
	}
}

// at is where the message of o stands, or -1.
func (r *reading) at(o opener) int {
	for i := range r.sightings {
		if r.sightings[i].opener == o {
			return r.sightings[i].at
		}
	}
	return -1
}

// openerAt identifies a human message; the zero opener for -1.
func openerAt(st *State, messages []llms.MessageContent, at int) opener {
	if at < 0 {
		return opener{}
	}
	text, nth := textOf(messages[at]), 0
	for _, m := range messages[:at] {
		if isHuman(m) && textOf(m) == text && !st.isReminder(m) {
			nth++
		}
	}
	return opener{Kind: byMessage, Len: len(text), Hash: hashOf(text), Nth: nth}
}

// placement is a model call on its way: from the caller's messages to those
// that are sent.
type placement struct {
	mw       *Middleware
	ctx      context.Context //nolint:containedctx // lives as long as the call
	sc       scope
	st       *State
	messages []llms.MessageContent
	reading  reading
	opener   opener // of a loop's turn
	offers   bool   // the agent's call, or one that offers tools: listing, decisions
	target   int    // in a run: the message of its bodies; -1: none
	pinned   bool   // target is the message of the run's first model call
	client   client // that the messages go to
}

// place returns the messages to send: a copy with the listing, the bodies of
// active skills and all that SPEC 10 asks of what is sent.
func (p *placement) place() ([]llms.MessageContent, error) {
	var buf [4]head
	heads := buf[:0]
	none := len(p.messages) // the index of a human message that has to be added
	if p.offers {
		if l := p.mw.listingFor(p.ctx, p.st); l.text != "" {
			if err := p.announce(l); err != nil {
				return nil, err
			}
			heads = append(heads, head{orElse(p.reading.first, none), l.text})
		}
	}
	b := p.snapshot()
	visible := b.visible(p)
	if p.offers {
		p.decide(&b, visible)
		p.st.do(func() { p.st.seen = visible.names(p.st.seen[:0]) })
	}
	for _, a := range b.anchors {
		at, stands := p.standing(a)
		if !p.offers && !stands {
			continue
		}
		if text, ok := p.render(&b, a); ok {
			heads = append(heads, head{orElse(at, none), text})
		}
	}
	return p.write(heads, b.released(p, visible)), nil
}

func orElse(at, other int) int {
	if at < 0 {
		return other
	}
	return at
}

// announce enters the listing's names into the ledger and audits the new ones.
// A Store has them first, so that a crash announces nothing twice.
func (p *placement) announce(l *listing) error {
	var news []string
	p.st.do(func() {
		if p.st.told != l { // not told in this process: compare with the ledger
			news, p.st.told = p.st.announce(l.names), l
		}
	})
	if news == nil {
		return nil
	}
	if err := p.mw.saveKept(p.ctx, p.st); err != nil {
		p.st.do(func() { p.st.unannounce(news) })
		return err
	}
	if news = p.sc.kept.news(news); len(news) > 0 {
		p.mw.audit(p.ctx, p.st, Event{Type: EventAnnounced, Skills: news})
	}
	return nil
}

// bookView is a copy of what a model call needs of a State.
type bookView struct {
	turn       turn
	launches   []launch  // all recorded, in order
	active     []*launch // of launches, the last of every active skill
	anchors    []anchor
	dismissals []dismissal
}

func (p *placement) snapshot() (b bookView) {
	p.st.do(func() {
		book := &p.st.book
		b.turn = book.Turn
		b.launches = slices.Clone(book.Launches)
		b.anchors = slices.Clone(book.Anchors)
		b.dismissals = slices.Clone(book.Dismissals)
		for i := range b.launches {
			if p.st.active(&b.launches[i]) {
				if b.active == nil {
					b.active = make([]*launch, 0, len(b.launches)-i)
				}
				b.active = append(b.active, &b.launches[i])
			}
		}
	})
	return b
}

// visibles are the skills whose bodies are visible.
type visibles []visibleBody

type visibleBody struct {
	skill string
	at    int // the answer that shows it, in reading.launching; -1: an agent's own prompt
}

// find returns where the skill's body is visible, if it is.
func (v visibles) find(skill string) (at int, ok bool) {
	for i := len(v) - 1; i >= 0; i-- {
		if v[i].skill == skill {
			return v[i].at, true
		}
	}
	return -1, false
}

func (v visibles) names(to []string) []string {
	for i := range v {
		to = append(to, v[i].skill)
	}
	return to
}

// visible finds the bodies that the messages show (SPEC 10.4): the last answer
// to a call of that skill that equals the recorded observation, length first.
// In an executor, this run must have returned it.
func (b *bookView) visible(p *placement) visibles {
	var v visibles
	for i, l := range b.active {
		f := p.mw.catalog.byName[l.Skill]
		if f == nil || f.sum != l.Digest || p.sc.run != nil && !p.sc.run.returnedFull(l) {
			continue
		}
		at := p.reading.shows(l, p.mw)
		if at < 0 && p.sc.run == nil {
			continue
		}
		if v == nil {
			v = make(visibles, 0, len(b.active)-i)
		}
		v = append(v, visibleBody{l.Skill, at})
	}
	return v
}

// shows searches backwards for the answer that shows the launch's body.
func (r *reading) shows(l *launch, mw *Middleware) int {
	cat := mw.catalog
	for i := len(r.launching) - 1; i >= 0; i-- {
		a := &r.launching[i]
		if a.name == l.Skill && mw.delivered(l, a.content) {
			if f := cat.find(cat.parse(a.input).skill); f != nil && f.Name == l.Skill {
				return i
			}
		}
	}
	return -1
}

// seenIn reports whether a history shows the launch's body.
func seenIn(history []llms.MessageContent, l *launch, mw *Middleware) bool {
	r := reading{launching: launchingAnswers(history)}
	return r.shows(l, mw) >= 0
}

// released returns, by message and part, the line for every answer that
// launches a skill with a dismissal or an outdated body, but for the visible
// one: the tokens really come back.
func (b *bookView) released(p *placement, visible visibles) map[[2]int]string {
	var lines map[[2]int]string
	for i, a := range p.reading.launching {
		if at, ok := visible.find(a.name); ok && at == i || !b.outdated(a.name, p.mw.catalog) {
			continue
		}
		if lines == nil {
			lines = map[[2]int]string{}
		}
		lines[[2]int{a.message, a.part}] = fill(p.mw.texts.Released, "skill", a.name)
	}
	return lines
}

// outdated reports whether earlier launches of the skill no longer apply.
func (b *bookView) outdated(skill string, cat *catalog) bool {
	if slices.ContainsFunc(b.dismissals, func(d dismissal) bool { return d.Skill == skill }) {
		return true
	}
	f := cat.byName[skill]
	return slices.ContainsFunc(b.launches, func(l launch) bool {
		return l.Skill == skill && (l.Renewed || f != nil && f.sum != l.Digest)
	})
}

// standing tells where an anchor's text goes, and whether its message stands.
func (p *placement) standing(a anchor) (at int, stands bool) {
	if p.sc.run != nil {
		return p.target, a.At.Kind == byRun && a.At.Nth == p.sc.run.turn && (p.offers || p.pinned)
	}
	if at = p.reading.at(a.At); at >= 0 {
		return at, true
	}
	if p.reading.current < 0 && (a.At == p.opener || a.At == opener{}) {
		return p.reading.last, p.offers
	}
	return orElse(p.reading.current, p.reading.last), false
}

// decide settles what is injected: once a turn, at its first model call; later
// in the turn only for bodies found missing then, whose texts come at the end
// of the same block (SPEC 10.5).
func (p *placement) decide(b *bookView, visible visibles) {
	hang := b.turn.Opener
	if p.sc.run != nil {
		hang = opener{Kind: byRun, Nth: p.sc.run.turn}
	} else if hang.Kind != byMessage {
		hang = opener{}
	}
	var missing []*launch
	var refused []string
	used, before := 0, len(b.anchors)
	kept := b.anchors[:0:0]
	for _, a := range b.anchors {
		if _, stands := p.standing(a); stands {
			kept = append(kept, a)
			if l := b.launch(a); l != nil && a.Kind == anchorBody {
				used += l.Tokens
			}
		}
	}
	b.anchors = kept
	for _, l := range b.active {
		f := p.mw.catalog.byName[l.Skill]
		hostsOwn := l.Host && l.Turn == b.turn.N
		anchored := slices.ContainsFunc(b.anchors, func(a anchor) bool { return a.of(l) })
		_, shown := visible.find(l.Skill)
		switch {
		case f == nil || anchored || shown && !hostsOwn || slices.Contains(b.turn.Refused, l.Skill):
		case hostsOwn:
			missing = append(missing, l)
		case !p.mw.shows(p.ctx, p.st, f):
		default:
			if d := p.mw.permit(p.ctx, f, l.Args); !d.Allowed {
				refused = append(refused, l.Skill)
				p.mw.audit(p.ctx, p.st, Event{Type: EventDenied, Skill: l.Skill, Args: l.Args, Detail: d.Reason})
				continue
			}
			missing = append(missing, l)
		}
	}
	fresh := p.budget(b, missing, used, hang)
	if len(fresh) == 0 && len(refused) == 0 && len(kept) == before {
		return
	}
	b.anchors = append(b.anchors, fresh...)
	b.turn.Refused = append(b.turn.Refused, refused...)
	p.st.do(func() {
		if p.st.book.Turn.N != b.turn.N {
			return
		}
		p.st.book.Anchors = slices.Clone(b.anchors)
		p.st.book.Turn.Refused = slices.Clone(b.turn.Refused)
		p.st.changed()
	})
	for _, a := range fresh {
		if a.Kind == anchorBody {
			p.auditReinjected(b.launch(a))
		}
	}
}

// budget makes anchors of the missing launches: those of the current window
// first, then the newest; a body is whole or absent. The host's own are outside
// any budget. Anchors come in launch order.
func (p *placement) budget(b *bookView, missing []*launch, used int, hang opener) []anchor {
	if len(missing) == 0 {
		return nil
	}
	order := slices.Clone(missing)
	slices.SortStableFunc(order, func(x, y *launch) int {
		if x.Window != y.Window {
			if x.Window {
				return -1
			}
			return 1
		}
		return cmp.Compare(y.Seq, x.Seq)
	})
	kinds := map[int64]anchorKind{}
	for _, l := range order {
		switch {
		case l.Host && l.Turn == b.turn.N && !l.Lost:
			kinds[l.Seq] = anchorHost
		case l.Lost || used+l.Tokens > p.mw.cfg.ReinjectBudget:
			kinds[l.Seq] = anchorAbsent
		default:
			kinds[l.Seq] = anchorBody
			used += l.Tokens
		}
	}
	var anchors []anchor
	for _, l := range missing {
		anchors = append(anchors, anchor{Skill: l.Skill, Turn: l.Turn, Seq: l.Seq, Kind: kinds[l.Seq], At: hang})
	}
	return anchors
}

func (p *placement) auditReinjected(l *launch) {
	e := Event{Type: EventReinjected, Skill: l.Skill, Args: l.Args, ToolCallID: l.CallID}
	f := p.mw.catalog.byName[l.Skill]
	if was := hexDigest(l.Digest); was != f.Digest {
		e.Detail = "launched as " + was + ", now " + f.Digest
	}
	p.mw.audit(p.ctx, p.st, e)
}

// launch returns the launch whose body stands at the anchor, or nil.
func (b *bookView) launch(a anchor) *launch {
	for i := range b.launches {
		if l := &b.launches[i]; a.of(l) {
			return l
		}
	}
	return nil
}

// render words the text at an anchor.
func (p *placement) render(b *bookView, a anchor) (string, bool) {
	t, l, f := p.mw.texts, b.launch(a), p.mw.catalog.byName[a.Skill]
	if l == nil || f == nil || !p.mw.shows(p.ctx, p.st, f) {
		return "", false
	}
	switch {
	case a.Kind == anchorAbsent || l.Lost:
		return fill(t.Absent, "skills", a.Skill), true
	case a.Kind == anchorBody && f.constant(l):
		return p.mw.ready(f).again, true
	case a.Kind == anchorHost:
		return defuse(fill(t.Invoked, "skill", a.Skill) + "\n\n" + p.mw.instructions(p.st, f, l, nil)), true
	}
	return p.mw.again(p.st, f, l), true
}

// write returns the copy to send: only changed messages are copied.
func (p *placement) write(heads []head, released map[[2]int]string) []llms.MessageContent {
	out := make([]llms.MessageContent, len(p.messages), len(p.messages)+1)
	copy(out, p.messages)
	for _, i := range p.reading.edits {
		out[i] = p.defused(out[i])
	}
	for at, line := range released {
		m := &out[at[0]]
		m.Parts = slices.Clone(m.Parts)
		response := m.Parts[at[1]].(llms.ToolCallResponse)
		response.Content = line
		m.Parts[at[1]] = response
	}
	for i, h := range heads {
		switch {
		case slices.ContainsFunc(heads[:i], func(o head) bool { return o.at == h.at }): // in its block
		case h.at == len(p.messages):
			out = append(out, llms.TextParts(llms.ChatMessageTypeHuman, block(heads, h.at, "")))
		default:
			out[h.at] = headed(out[h.at], heads, h.at)
		}
	}
	if p.reading.crooked {
		return straighten(out, p.client.textFirst)
	}
	return out
}

// headed puts the block of a message in front of its first text, concatenated:
// the one form that every client delivers. A message without plain text gets a
// part.
func headed(m llms.MessageContent, heads []head, at int) llms.MessageContent {
	for i, part := range m.Parts {
		if first, ok := part.(llms.TextContent); ok {
			m.Parts = slices.Clone(m.Parts)
			m.Parts[i] = llms.TextContent{Text: block(heads, at, first.Text)}
			return m
		}
	}
	m.Parts = append([]llms.ContentPart{llms.TextContent{Text: block(heads, at, "")}}, m.Parts...)
	return m
}

// defused is the message as it may be sent: nobody speaks as the system, and
// the key of a reminder of the host's own stays here.
func (p *placement) defused(m llms.MessageContent) llms.MessageContent {
	m.Parts = slices.Clone(m.Parts)
	if p.st.isReminder(m) {
		_, text, _ := keyedReminder(m)
		m.Parts[0] = withText(m.Parts[0], reminderOpen+defuse(text)+reminderClose)
		return m
	}
	for i, part := range m.Parts {
		switch part := part.(type) {
		case llms.ToolCallResponse:
			part.Content = defuse(part.Content)
			m.Parts[i] = part
		case llms.ToolCall:
			if part.FunctionCall != nil {
				part.FunctionCall = &llms.FunctionCall{Name: nameOf(part), Arguments: defusedArguments(inputOf(part))}
			}
			m.Parts[i] = part
		default:
			if text, ok := partText(part); ok {
				m.Parts[i] = withText(part, defuse(text))
			}
		}
	}
	return m
}

// unescaped is JSON with its escapes of `<` undone, under which a tag may hide.
func unescaped(arguments string) string {
	if !strings.Contains(arguments, `\u003`) {
		return arguments
	}
	return strings.NewReplacer(`\u003c`, "<", `\u003C`, "<").Replace(arguments)
}

// defusedArguments defuses a call's arguments, changing them only if need be.
func defusedArguments(arguments string) string {
	if plain := unescaped(arguments); tagged(plain) {
		return defuse(plain)
	}
	return arguments
}

// withText returns the text part with another text.
func withText(part llms.ContentPart, text string) llms.ContentPart {
	if cached, ok := part.(llms.CachedContent); ok {
		cached.ContentPart = llms.TextContent{Text: text}
		return cached
	}
	return llms.TextContent{Text: text}
}
