package skillbay_test

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/llms"
)

// This file says section 8 of the specification (the gate) a second time, and
// as much of sections 7, 9 and 10.1 as it stands on: slices, loops, and the
// number of the clause above each step, so that it can be read beside the text.
// It shares nothing with the implementation. Nothing here is fast.

// refSkill is a skill as the gate sees it.
type refSkill struct {
	name     string
	limits   bool     // allowed-tools is present
	allowed  []string // its entries
	banned   []string // disallowed-tools
	hostOnly bool     // disable-model-invocation
	hostNot  bool     // user-invocable: false
	hidden   bool     // Visible hides it
	denied   bool     // Permit denies it
}

// refRelease is one deployed Middleware: its skills and its Config.
type refRelease struct {
	skills                []refSkill
	guarded, always       []string
	exclusive, keepWindow bool
}

// skill finds a loaded skill by its exact name.
func (r *refRelease) skill(name string) (refSkill, bool) {
	for _, s := range r.skills {
		if s.name == name {
			return s, true
		}
	}
	return refSkill{}, false
}

// refFold makes two tool names that are one tool equal (8.7).
func refFold(name string) string { return strings.ToUpper(strings.TrimSpace(name)) }

// refNames tells whether the exact names in list hold the tool.
func refNames(list []string, tool string) bool {
	for _, name := range list {
		if refFold(name) == refFold(tool) {
			return true
		}
	}
	return false
}

// entryAllows matches one entry of an allowed-tools list (8.7).
func (r *refRelease) entryAllows(entry, tool, input string) bool {
	if name, pattern, ok := strings.Cut(entry, "("); ok {
		return refFold(name) == refFold(tool) && refFold(tool) != "SKILL" &&
			refPattern(strings.TrimSuffix(pattern, ")"), input)
	}
	if prefix, ok := strings.CutSuffix(entry, "*"); ok {
		// "in a limit never `skill` and never a guarded tool"; `*` alone matches nothing (4).
		return prefix != "" && refFold(tool) != "SKILL" && !refNames(r.guarded, tool) &&
			strings.HasPrefix(refFold(tool), refFold(prefix))
	}
	return refFold(entry) == refFold(tool)
}

// listAllows tells whether any entry of a list allows the call.
func (r *refRelease) listAllows(list []string, tool, input string) bool {
	for _, entry := range list {
		if r.entryAllows(entry, tool, input) {
			return true
		}
	}
	return false
}

// refBans tells whether a disallowed-tools list bans the tool (8.7: a trailing
// `*` bans any).
func refBans(list []string, tool string) bool {
	for _, entry := range list {
		prefix, ok := strings.CutSuffix(entry, "*")
		if ok && strings.HasPrefix(refFold(tool), refFold(prefix)) || !ok && refFold(entry) == refFold(tool) {
			return true
		}
	}
	return false
}

// refPattern matches the pattern of `Name(pattern)` against an input (8.7).
func refPattern(pattern, input string) bool {
	text, ok := refInput(input)
	if !ok {
		return false
	}
	command, ok := strings.CutSuffix(pattern, ":*")
	if !ok {
		return text == pattern
	}
	return text == command || strings.HasPrefix(text, command+" ") &&
		!strings.ContainsAny(text[len(command):], ";&|<>$()`\n\r")
}

// refInput is the text that a pattern is matched against: the raw input, or the
// string that is the only member of a JSON object. No other object and no array
// matches anything (8.7).
func refInput(input string) (string, bool) {
	trimmed := strings.TrimSpace(input)
	if !strings.HasPrefix(trimmed, "{") && !strings.HasPrefix(trimmed, "[") {
		return input, true
	}
	var tokens []json.Token
	decoder := json.NewDecoder(strings.NewReader(trimmed))
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return "", false
		}
		tokens = append(tokens, token)
	}
	if len(tokens) != 4 || tokens[0] != json.Delim('{') || tokens[3] != json.Delim('}') {
		return "", false
	}
	text, ok := tokens[2].(string)
	return text, ok
}

// refCall is one tool call.
type refCall struct{ id, name, input string }

// is compares the call's tool with one of skillbay's.
func (c refCall) is(tool string) bool { return refFold(c.name) == refFold(tool) }

// same tells whether both are one call.
func (c refCall) same(other refCall) bool {
	return c.id == other.id && c.is(other.name) && c.input == other.input
}

// among is the place of the call, or -1.
func (c refCall) among(calls []refCall) int { return slices.IndexFunc(calls, c.same) }

// skill is the name that a `skill` call launches (7, the forms that stories use).
func (c refCall) skill(r *refRelease) string {
	name := c.input
	var object struct{ Skill, Name string }
	if json.Unmarshal([]byte(c.input), &object) == nil {
		name = object.Skill + object.Name
	}
	name = strings.TrimPrefix(name, "/")
	if _, ok := r.skill(name); ok {
		return name
	}
	for _, s := range r.skills {
		if strings.EqualFold(s.name, name) {
			return s.name
		}
	}
	return name
}

// refCalls are the tool calls of a message, in order.
func refCalls(m llms.MessageContent) []refCall {
	var calls []refCall
	for _, part := range m.Parts {
		if call, ok := part.(llms.ToolCall); ok {
			calls = append(calls, refCall{call.ID, call.FunctionCall.Name, call.FunctionCall.Arguments})
		}
	}
	return calls
}

// refAnswers are the tool answers of a message, in order.
func refAnswers(m llms.MessageContent) []llms.ToolCallResponse {
	var answers []llms.ToolCallResponse
	for _, part := range m.Parts {
		if answer, ok := part.(llms.ToolCallResponse); ok && m.Role == llms.ChatMessageTypeTool {
			answers = append(answers, answer)
		}
	}
	return answers
}

// refText is the text of a message.
func refText(m llms.MessageContent) string {
	var text string
	for _, part := range m.Parts {
		if t, ok := part.(llms.TextContent); ok {
			text += t.Text
		}
	}
	return text
}

// lastAI is the place of the last AI message, or -1.
func lastAI(history []llms.MessageContent) int {
	for at := len(history) - 1; at >= 0; at-- {
		if history[at].Role == llms.ChatMessageTypeAI {
			return at
		}
	}
	return -1
}

// countAI is the number of AI messages.
func countAI(history []llms.MessageContent) int {
	n := 0
	for _, m := range history {
		if m.Role == llms.ChatMessageTypeAI {
			n++
		}
	}
	return n
}

// belongs finds the call that the n-th answer of the message at `at` belongs to
// (8.1).
func belongs(history []llms.MessageContent, at, n int) (refCall, bool) {
	// "the call with its id in the nearest AI message before it"
	nearest := lastAI(history[:at])
	if nearest < 0 {
		return refCall{}, false
	}
	calls := refCalls(history[nearest])
	id := refAnswers(history[at])[n].ToolCallID
	count := func(id string) (same int) {
		for _, call := range calls {
			if call.id == id {
				same++
			}
		}
		return same
	}
	if id != "" && count(id) == 1 {
		for _, call := range calls {
			if call.id == id {
				return call, true
			}
		}
	}
	// "where ids are empty or repeated in that message, to the call at the same
	// position": either the answer has no id, or the call there has none of its own.
	position := n
	for _, m := range history[nearest+1 : at] {
		position += len(refAnswers(m))
	}
	if position >= len(calls) {
		return refCall{}, false
	}
	call := calls[position]
	if id == "" || call.id == "" || count(call.id) > 1 {
		return call, true
	}
	return refCall{}, false
}

// refLaunch is one launch as the State records it (9).
type refLaunch struct {
	number  int    // sequence number
	skill   string // name
	turn    int
	host    bool
	batch   int // the batch it was a call of; 0: launched by the host
	place   int // its place in that batch
	release *refRelease
	window  bool     // it is in the current window
	limits  bool     // the lists as of the skill's first launch in the window
	allowed []string //
	banned  []string //
}

// refDismissal is one dismissal.
type refDismissal struct {
	skill  string
	covers int  // the last sequence number it covers
	batch  int  // the batch that was current
	host   bool // by mw.Dismiss
}

// refBatch is the current batch (8.6).
type refBatch struct {
	id      int
	key     string
	base    int
	last    int       // the last sequence number of its calls
	calls   []refCall // the model's, then each "one more call"
	numbers []int     // the sequence number of each
	claimed []bool    // it was delivered
	lone    bool      // no answer's: for one call that belongs to none
}

// refOpener is what is known of a message that opened a turn (10.1).
type refOpener struct {
	text  string
	equal int // how many equal human texts stand before it
}

// refState is one conversation's bookkeeping.
type refState struct {
	turn       int
	explicit   bool // BeginTurn was used
	opener     *refOpener
	answered   bool
	grantsFrom int // launches with a smaller number grant nothing
	number     int // the last sequence number
	launches   []refLaunch
	pending    []refLaunch // Invoked, and not yet part of a turn
	dismissals []refDismissal
	batch      *refBatch
	batches    int
	reminders  []string // texts that mw.Reminder made for this State
}

// real tells whether m is a real user message (1).
func (s *refState) real(m llms.MessageContent) bool {
	return m.Role == llms.ChatMessageTypeHuman && !slices.Contains(s.reminders, refText(m))
}

// openerAt describes the human message at `at`.
func openerAt(history []llms.MessageContent, at int) refOpener {
	o := refOpener{text: refText(history[at])}
	for _, m := range history[:at] {
		if m.Role == llms.ChatMessageTypeHuman && refText(m) == o.text {
			o.equal++
		}
	}
	return o
}

// stands tells whether the opener is among the messages.
func (o *refOpener) stands(history []llms.MessageContent) bool {
	for at, m := range history {
		if o != nil && m.Role == llms.ChatMessageTypeHuman && openerAt(history, at) == *o {
			return true
		}
	}
	return false
}

// offered does what a model call that offers tools does to the turn (10.1).
func (s *refState) offered(r *refRelease, history []llms.MessageContent) {
	last := len(history) - 1 // "trailing reminders skipped"
	for last >= 0 && history[last].Role == llms.ChatMessageTypeHuman && !s.real(history[last]) {
		last--
	}
	user := last // the last real user message
	for user >= 0 && !s.real(history[user]) {
		user--
	}
	switch {
	case s.explicit: // "model calls no longer begin turns there"
	case user >= 0 && user == last && (s.turn == 0 || s.answered || s.opener.stands(history[:last])):
		s.begin(r)
		opener := openerAt(history, user)
		s.opener = &opener
	case s.turn > 0 && user >= 0:
		// "goes on under another message than the one that opened it"
		if opener := openerAt(history, user); s.opener == nil || opener != *s.opener {
			s.opener = &opener
			s.grantsFrom = s.number + 1
		}
	}
	s.join()
}

// begin begins a turn: the window closes (8.3, 8.8).
func (s *refState) begin(r *refRelease) {
	for i, l := range s.launches {
		current, loaded := r.skill(l.skill)
		restricted := l.limits || len(l.banned) > 0 || loaded && (current.limits || len(current.banned) > 0)
		s.launches[i].window = l.window && r.keepWindow && restricted && !s.dismissed(l, nil)
	}
	s.turn++
	s.answered = false
	s.opener = nil
	s.grantsFrom = s.number + 1
	s.batch = nil // a batch belongs to its turn
}

// beginTurn is mw.BeginTurn outside a tool call.
func (s *refState) beginTurn(r *refRelease) {
	s.begin(r)
	s.explicit = true
	s.join()
}

// join puts pending launches into the turn that was begun or goes on (7). Where
// there is none yet they restrict all the same, and grant nothing (8.5).
func (s *refState) join() {
	for _, l := range s.pending {
		s.record(l)
	}
	s.pending = nil
}

// record appends a launch to the ledger.
func (s *refState) record(l refLaunch) {
	if l.number == 0 {
		s.number++
		l.number = s.number
	}
	l.turn = s.turn
	l.window = true
	for _, first := range s.launches { // the lists of the first launch in the window
		if first.window && first.skill == l.skill {
			l.limits, l.allowed, l.banned = first.limits, first.allowed, first.banned
			break
		}
	}
	s.launches = append(s.launches, l)
}

// invoked records a successful mw.Invoke (7): in a tool call it belongs to the
// current turn from the next batch on, otherwise it is pending.
func (s *refState) invoked(skill refSkill, inTool bool) {
	l := refLaunch{skill: skill.name, host: true, limits: skill.limits, allowed: skill.allowed, banned: skill.banned}
	if inTool {
		s.record(l)
	} else {
		s.pending = append(s.pending, l)
	}
}

// dismiss records a dismissal of the launches so far.
func (s *refState) dismiss(skill string, host bool) {
	d := refDismissal{skill: skill, covers: s.number, host: host}
	if s.batch != nil {
		d.batch = s.batch.id
	}
	s.dismissals = append(s.dismissals, d)
}

// dismissed tells whether the launch is dismissed: now (batch nil), or as the
// calls of a batch see it. "In one batch dismissals apply after launches" (7).
func (s *refState) dismissed(l refLaunch, batch *refBatch) bool {
	for _, d := range s.dismissals {
		covered := d.skill == l.skill && (l.number <= d.covers || l.batch != 0 && l.batch == d.batch && !d.host)
		if covered && (batch == nil || d.batch != batch.id) {
			return true
		}
	}
	return false
}

// answer takes the model's answer to a call that offered tools: it may end the
// turn (10.1), and it is the current batch (8.6). An answer that looks like the
// batch before it is that batch, unless the host launched a skill in between:
// what the ledger blocks stays blocked (8.3).
func (s *refState) answer(history []llms.MessageContent, calls []refCall) {
	if len(calls) == 0 && s.opener.stands(history) {
		s.answered = true
	}
	if s.batch != nil && s.number > s.batch.last {
		s.batch = nil
	}
	s.open(refKey(countAI(history)+1, calls), calls)
}

// refKey is a batch's key: "the number of AI messages and a hash of the calls".
func refKey(ai int, calls []refCall) string { return fmt.Sprintf("%d %q", ai, calls) }

// open makes the calls the current batch, unless they are it already.
func (s *refState) open(key string, calls []refCall) {
	if s.batch != nil && s.batch.key == key {
		return
	}
	s.batches++
	s.batch = &refBatch{id: s.batches, key: key, base: s.number, last: s.number}
	for _, call := range calls {
		s.more(call)
	}
	clear(s.batch.claimed)
}

// more makes the call one more call of the current batch, and returns its place.
func (s *refState) more(call refCall) int {
	s.number++
	b := s.batch
	b.last = s.number
	b.calls = append(b.calls, call)
	b.numbers = append(b.numbers, s.number)
	b.claimed = append(b.claimed, true) // by whoever made it
	return len(b.calls) - 1
}

// needBatch makes up a batch where there is none: a call without an answer that
// it belongs to is judged by the window as it stands.
func (s *refState) needBatch() {
	if s.batch == nil || s.batch.lone {
		s.batch = nil
		s.open("", nil)
		s.batch.lone = true
	}
}

// called finds the place of a call given to CallTool (8.6): the batch is that of
// the history's last AI message. A call that is none of its calls is one of the
// current batch, or one more of the last AI message's. A history without an AI
// message tells of no other batch than the current one.
func (s *refState) called(history []llms.MessageContent, call refCall) int {
	at := lastAI(history)
	if at < 0 {
		s.needBatch()
	} else if calls := refCalls(history[at]); s.batch == nil || s.batch.lone ||
		call.among(calls) >= 0 || call.among(s.batch.calls) < 0 {
		s.open(refKey(countAI(history), calls), calls)
	}
	for place, other := range s.batch.calls { // of equal calls, the next one
		if other.same(call) && !s.batch.claimed[place] {
			s.batch.claimed[place] = true
			return place
		}
	}
	if place := call.among(s.batch.calls); place >= 0 {
		return place
	}
	return s.more(call)
}

// claimed finds the place of a call that reached a tool wrapper (8.6): "the
// first unclaimed call of its name and input; one that fits none is judged as
// one more call of that batch, without id".
func (s *refState) claimed(name, input string) int {
	s.needBatch()
	for place, call := range s.batch.calls {
		if !s.batch.claimed[place] && call.is(name) && call.input == input {
			s.batch.claimed[place] = true
			return place
		}
	}
	return s.more(refCall{name: name, input: input})
}

// refContribution is what one skill adds to a limit: lists that must all allow
// a call (the recorded list and the current one).
type refContribution [][]string

// refLimit is a limit: one of its contributions must allow the call (8.2).
type refLimit []refContribution

// allows tells whether the limit contains the call.
func (l refLimit) allows(r *refRelease, tool, input string) bool {
	for _, contribution := range l {
		all := true
		for _, list := range contribution {
			all = all && r.listAllows(list, tool, input)
		}
		if all {
			return true
		}
	}
	return false
}

// refRules are limits and bans.
type refRules struct {
	limits []refLimit
	bans   [][]string
}

// bans tells whether any ban holds the tool.
func (rules refRules) banned(tool string) bool {
	for _, list := range rules.bans {
		if refBans(list, tool) {
			return true
		}
	}
	return false
}

// allow tells whether every limit and no ban holds the call.
func (rules refRules) allow(r *refRelease, call refCall) bool {
	for _, limit := range rules.limits {
		if !limit.allows(r, call.name, call.input) {
			return false
		}
	}
	return !rules.banned(call.name)
}

// rules are the limits and bans of launches that one witness holds (8.2).
func (r *refRelease) rules(launches []refLaunch) refRules {
	var rules refRules
	var union refLimit
	for _, l := range launches {
		current, loaded := r.skill(l.skill)
		switch {
		case l.limits && loaded && current.limits:
			union = append(union, refContribution{l.allowed, current.allowed})
		case l.limits:
			union = append(union, refContribution{l.allowed})
		case loaded && current.limits:
			// Launched without a list, and the release has one: a limit of its own.
			rules.limits = append(rules.limits, refLimit{{current.allowed}})
		}
		rules.bans = append(rules.bans, l.banned)
		if loaded {
			rules.bans = append(rules.bans, current.banned)
		}
	}
	if len(union) > 0 {
		rules.limits = append(rules.limits, union)
	}
	return rules
}

// refFrame is an enclosing tool call (8.9): what it had to pass, and the
// grants beside it.
type refFrame struct {
	release *refRelease
	rules   refRules
	grants  func(tool string) bool
}

// refGate is the gate of one call: everything that a verdict depends on.
type refGate struct {
	*refState
	release *refRelease
	history []llms.MessageContent // nil for a tool wrapper, which sees none
	frames  []refFrame
}

// window is the ledger's half of P (8.6): the launches of the window up to base,
// the first of each skill.
func (g refGate) window() []refLaunch {
	var window []refLaunch
	for _, l := range g.launches {
		if l.window && l.number <= g.batch.base && !refHolds(window, l.skill) {
			window = append(window, l)
		}
	}
	return window
}

// refHolds tells whether a skill is among launches.
func refHolds(launches []refLaunch, skill string) bool {
	return slices.ContainsFunc(launches, func(l refLaunch) bool { return l.skill == skill })
}

// shown is the history's half of P (8.1), without what the ledger's half holds.
func (g refGate) shown() []refLaunch {
	user := len(g.history) - 1 // the last real user message
	for user >= 0 && !g.real(g.history[user]) {
		user--
	}
	var shown []refLaunch
	// "Answers after the last AI message do not count yet" (8.6).
	for at := user + 1; at < lastAI(g.history); at++ {
		for n, answer := range refAnswers(g.history[at]) {
			call, ok := belongs(g.history, at, n)
			line, _, _ := strings.Cut(answer.Content, "\n")
			name, launching := strings.CutPrefix(line, "Launching skill: ")
			skill, loaded := g.release.skill(name)
			if ok && call.is("skill") && launching && loaded && !refHolds(g.window(), name) {
				shown = append(shown, refLaunch{
					skill:  name,
					limits: skill.limits, allowed: skill.allowed, banned: skill.banned,
				})
			}
		}
	}
	return shown
}

// blocking are the launches of the window that bar `skill`: "a dismissed launch
// of an earlier turn no longer blocks `skill`" (8.8).
func (g refGate) blocking() []refLaunch {
	return slices.DeleteFunc(slices.Clone(g.window()), func(first refLaunch) bool {
		for _, l := range g.launches {
			if l.skill == first.skill && l.window && l.number <= g.batch.base &&
				(l.turn == g.turn || !g.dismissed(l, g.batch)) {
				return false
			}
		}
		return true
	})
}

// windowPasses tells whether P lets a `skill` call through (8.4).
func (g refGate) windowPasses(call refCall) bool {
	name, window, shown := call.skill(g.release), g.window(), g.shown()
	// "Blocked inside a limit, unless listed by its exact name, or for a skill
	// that is already in the window". What only the history shows does not let
	// the ledger's limit grow.
	inLedger := refHolds(window, name)
	return g.release.rules(g.blocking()).allowSkill(g.release, inLedger) &&
		g.release.rules(shown).allowSkill(g.release, inLedger || refHolds(shown, name))
}

// allowSkill judges a `skill` call; known: for a skill in the window.
func (rules refRules) allowSkill(r *refRelease, known bool) bool {
	for _, limit := range rules.limits {
		if !known && !limit.allows(r, "skill", "") {
			return false
		}
	}
	return !rules.banned("skill")
}

// launching is S (8.6): the places of the batch's `skill` calls that P lets
// through and that name a loaded, model-invocable, visible skill. A call that
// has launched already belongs to it under any release.
func (g refGate) launching() []int {
	var places []int
	for place, call := range g.batch.calls {
		if !call.is("skill") {
			continue
		}
		skill, loaded := g.release.skill(call.skill(g.release))
		if g.launchedAt(place) || loaded && !skill.hostOnly && !skill.hidden && g.windowPasses(call) {
			places = append(places, place)
		}
	}
	return places
}

// launchedAt tells whether the call at that place of the batch has launched.
func (g refGate) launchedAt(place int) bool {
	return slices.ContainsFunc(g.launches, func(l refLaunch) bool {
		return l.batch == g.batch.id && l.place == place
	})
}

// outdated tells whether the call at that place launched under another release:
// no text says what its redelivery then returns.
func (g refGate) outdated(place int) bool {
	return slices.ContainsFunc(g.launches, func(l refLaunch) bool {
		return l.batch == g.batch.id && l.place == place && l.release != g.release
	})
}

// undelivered tells whether a `skill` call of the batch has not launched.
func (g refGate) undelivered() bool {
	for place, call := range g.batch.calls {
		if call.is("skill") && !g.launchedAt(place) {
			return true
		}
	}
	return false
}

// sibling are the limits and bans of the skill that the call at place launches.
func (g refGate) sibling(place int) refRules {
	name := g.batch.calls[place].skill(g.release)
	for _, l := range g.launches {
		if l.window && l.skill == name {
			return g.release.rules([]refLaunch{l}) // the lists of its first launch hold
		}
	}
	skill, _ := g.release.skill(name)
	return g.release.rules([]refLaunch{{skill: name, limits: skill.limits, allowed: skill.allowed, banned: skill.banned}})
}

// rules are the limits and bans that any call but `skill` must satisfy: P, "and
// the limit and bans of each skill in S" (8.6).
func (g refGate) rules() refRules {
	all := g.release.rules(g.window())
	add := func(more refRules) {
		all.limits = append(all.limits, more.limits...)
		all.bans = append(all.bans, more.bans...)
	}
	add(g.release.rules(g.shown()))
	for _, place := range g.launching() {
		add(g.sibling(place))
	}
	return all
}

// grants tells whether a launch of P grants a guarded tool (8.5).
func (g refGate) grants(tool string) bool {
	for _, l := range g.launches {
		if g.turn == 0 || !l.window || l.number > g.batch.base || l.number < g.grantsFrom {
			continue
		}
		// A skill_dismiss of this batch does not change what P grants; a
		// dismissal by the host ends the grant at once.
		dismissed := g.dismissed(l, g.batch) || slices.ContainsFunc(g.dismissals, func(d refDismissal) bool {
			return d.host && d.skill == l.skill && l.number <= d.covers
		})
		current, loaded := g.release.skill(l.skill)
		if !dismissed && loaded && refNames(current.allowed, tool) && refNames(l.allowed, tool) {
			return true
		}
	}
	return false
}

// allows is the verdict on a call of the batch: it may run, or not.
func (g refGate) allows(place int) bool {
	call := g.batch.calls[place]
	switch {
	case call.is("skill_dismiss"), call.is("skill_file"): // 8.4
		return true
	case call.is("skill"): // 8.9: "judged by the child's window alone"
		return g.skillPasses(place)
	}
	if !refNames(g.release.always, call.name) && // 8.4
		(!g.rules().allow(g.release, call) || // 8.2, 8.6
			refNames(g.release.guarded, call.name) && !g.grants(call.name)) { // 8.5
		return false
	}
	for _, frame := range g.frames { // 8.9: by the parent's middleware
		if !refNames(frame.release.always, call.name) &&
			(!frame.rules.allow(frame.release, call) ||
				refNames(frame.release.guarded, call.name) && !frame.grants(call.name)) {
			return false
		}
	}
	return true
}

// frame is what a call of the batch leaves around the calls nested in it.
func (g refGate) frame() refFrame {
	return refFrame{release: g.release, rules: g.rules(), grants: g.grants}
}

// skillPasses is the gate of the `skill` call at place: P, and "as if all
// earlier ones in S had succeeded" (8.6). Since Permit may yet refuse any of
// them, this must hold of every selection of them: the list of one never widens
// that of another, and what one brings into the window counts only where it
// holds this call itself. A limit of P that lists `skill` goes on doing so.
func (g refGate) skillPasses(place int) bool {
	call := g.batch.calls[place]
	if !g.windowPasses(call) {
		return false
	}
	name := call.skill(g.release)
	known := refHolds(g.window(), name)
	listed := false
	for _, l := range g.blocking() {
		listed = listed || l.limits // windowPasses: then that limit lists `skill`, or known
	}
	for _, earlier := range g.launching() {
		if earlier >= place {
			continue
		}
		// Where an earlier call of the same skill succeeds, it is in the window.
		same := g.batch.calls[earlier].skill(g.release) == name
		if !g.sibling(earlier).allowSkill(g.release, known || listed || same) {
			return false
		}
	}
	return true
}

// excluded tells whether Exclusive refuses the `skill` call at place (8.8).
func (g refGate) excluded(place int) bool {
	name := g.batch.calls[place].skill(g.release)
	if !g.release.exclusive {
		return false
	}
	for _, l := range g.launches {
		if l.window && l.number <= g.batch.base && l.skill != name && !g.dismissed(l, g.batch) {
			return true
		}
	}
	for _, earlier := range g.launching() {
		if earlier < place && g.batch.calls[earlier].skill(g.release) != name {
			return true
		}
	}
	return false
}

// launch runs the `skill` call at place through the checks of 7 in their order,
// records it, and tells whether it launched.
func (g refGate) launch(place int) bool {
	skill, loaded := g.release.skill(g.batch.calls[place].skill(g.release))
	if g.launchedAt(place) { // "redelivery"
		return loaded
	}
	for _, frame := range g.frames { // 8.9: "must be visible to it"
		if theirs, ok := frame.release.skill(skill.name); ok && theirs.hidden {
			return false
		}
	}
	if !g.allows(place) || !loaded || skill.hidden || skill.hostOnly || g.excluded(place) || skill.denied {
		return false
	}
	g.record(refLaunch{
		number: g.batch.numbers[place], skill: skill.name, batch: g.batch.id, place: place, release: g.release,
		limits: skill.limits, allowed: skill.allowed, banned: skill.banned,
	})
	return true
}

// refTalk is a conversation that only the reference knows.
type refTalk struct {
	refState
	release refRelease
	history []llms.MessageContent
	frames  []refFrame
}

// user says something.
func (c *refTalk) user(text string) {
	c.history = append(c.history, llms.TextParts(llms.ChatMessageTypeHuman, text))
}

// answer is a model call that answers with the calls: `skill name` launches,
// anything else is a tool and its input. It returns which of them launched or
// may run, judged in the given order (nil: their own).
func (c *refTalk) answer(order []int, texts ...string) []bool {
	c.offered(&c.release, c.history)
	var calls []refCall
	ai := llms.MessageContent{Role: llms.ChatMessageTypeAI}
	for i, text := range texts {
		name, input, _ := strings.Cut(text, " ")
		calls = append(calls, refCall{fmt.Sprint("c", i), name, input})
		ai.Parts = append(ai.Parts, calls[i].wire())
	}
	c.refState.answer(c.history, calls)
	c.history = append(c.history, ai)
	verdicts := make([]bool, len(calls))
	gate := refGate{refState: &c.refState, release: &c.release, history: c.history, frames: c.frames}
	if order == nil {
		order = []int{0, 1, 2, 3, 4, 5, 6}[:len(calls)]
	}
	for _, place := range order {
		if calls[place].is("skill") {
			verdicts[place] = gate.launch(place)
		} else {
			verdicts[place] = gate.allows(place)
		}
	}
	for i, call := range calls {
		text := "ok"
		if call.is("skill") && verdicts[i] {
			text = "Launching skill: " + call.input + "\n\nDo."
		}
		c.history = append(c.history, llms.MessageContent{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{
			llms.ToolCallResponse{ToolCallID: call.id, Name: call.name, Content: text},
		}})
	}
	return verdicts
}

// inside are the verdicts on calls inside the last answer's call, in a loop of
// its own with a new State.
func (c *refTalk) inside() *refTalk {
	gate := refGate{refState: &c.refState, release: &c.release, history: c.history, frames: c.frames}
	return &refTalk{release: c.release, frames: append(slices.Clip(c.frames), gate.frame())}
}

// TestReferenceModelExamples holds the reference itself to examples that the
// specification and reported faults give.
func TestReferenceModelExamples(t *testing.T) {
	skills := func(all ...*refSkill) (out []refSkill) {
		for _, s := range all {
			out = append(out, *s)
		}
		return out
	}
	banning := &refSkill{name: "ban", banned: []string{"Wri*", "Bash"}}
	open := &refSkill{name: "open"}
	ro, find := listed("ro", "Read"), listed("find", "Grep")
	meta := listed("meta", "skill")
	refund, wild := listed("refund", "RefundSubmit", "Read"), listed("wild", "Refund*", "Read")
	for _, test := range []struct {
		name, why string
		release   refRelease
		tell      func(c *refTalk) []bool
		want      []bool
	}{
		{"ae-02", "an unlisted tool is refused at execution", refRelease{skills: skills(ro)}, func(c *refTalk) []bool {
			c.answer(nil, "skill ro")
			return c.answer(nil, "Read", "Write", "skill_dismiss ro", "skill_file ro")
		}, []bool{true, false, true, true}},
		{
			"ae-04", "a wildcard never matches shell control characters",
			refRelease{skills: skills(listed("git", "Bash(git:*)"))},
			func(c *refTalk) []bool {
				c.answer(nil, "skill git")
				return c.answer(nil, "Bash git log $(id)", "Bash git log `id`", "Bash git log\nid", "Bash (id)",
					"Bash git log > /etc/x", "Bash git -c core.pager='!id' log", "Bash git")
			},
			[]bool{false, false, false, false, false, true, true},
		},
		{"ae-06", "quoting is not interpreted", refRelease{skills: skills(listed("git", "Bash(git commit:*)"))}, func(c *refTalk) []bool {
			c.answer(nil, "skill git")
			return c.answer(nil, `Bash git commit -m "a && b; c"`, "Bash git commit -m x 2>&1", `Bash git commit -m "unclosed && id`,
				"Bash git commit -m x", "Bash git commits")
		}, []bool{false, false, false, true, false}},
		{"one string member", "and no other object is an input", refRelease{skills: skills(listed("git", "Bash(git:*)"))}, func(c *refTalk) []bool {
			c.answer(nil, "skill git")
			return c.answer(nil, `Bash {"c":"git log"}`, `Bash {"c":"git log","d":"x"}`, `Bash {"c":"ls","c":"git log"}`, `Bash ["git log"]`,
				`Bash {"c":{"c":"git log"}}`)
		}, []bool{true, false, false, false, false}},
		{"ae-09", "lists of one witness add up", refRelease{skills: skills(ro, find, open)}, func(c *refTalk) []bool {
			c.answer(nil, "skill open")
			c.invoked(*ro, true)
			c.invoked(*find, true)
			return c.answer(nil, "Read", "Grep", "Write")
		}, []bool{true, true, false}},
		{"ae-09 union of listed skills", "one that lists skill lets others in", refRelease{skills: skills(meta, find)}, func(c *refTalk) []bool {
			c.answer(nil, "skill meta")
			c.answer(nil, "skill find")
			return c.answer(nil, "Grep", "Write")
		}, []bool{true, false}},
		{"ae-09 unrestricted", "adds nothing and lifts nothing", refRelease{skills: skills(ro, open)}, func(c *refTalk) []bool {
			c.answer(nil, "skill open")
			c.answer(nil, "skill ro")
			return c.answer(nil, "Read", "Write", "skill open", "skill unknown")
		}, []bool{true, false, true, false}},
		{
			"ae-09 dismissed", "dismissing changes no limit and ends the grant",
			refRelease{skills: skills(refund, ro), guarded: []string{"RefundSubmit"}},
			func(c *refTalk) []bool {
				c.answer(nil, "skill refund")
				before := c.answer(nil, "RefundSubmit", "Write")
				c.dismiss("refund", false)
				c.answer(nil, "skill_dismiss refund")
				return append(before, c.answer(nil, "RefundSubmit", "Read", "Write")...)
			},
			[]bool{true, false, false, true, false},
		},
		{"ae-10", "siblings are held to what the batch launches", refRelease{skills: skills(ro)}, func(c *refTalk) []bool {
			return c.answer(nil, "skill ro", "Write", "Read")
		}, []bool{true, false, true}},
		{"ae-10 reversed", "in every order", refRelease{skills: skills(ro)}, func(c *refTalk) []bool {
			return c.answer([]int{1, 0}, "skill ro", "Write")
		}, []bool{true, false}},
		{
			"ae-10 denied", "whatever Permit will say",
			refRelease{skills: skills(&refSkill{name: "no", limits: true, denied: true})},
			func(c *refTalk) []bool {
				return append(c.answer(nil, "skill no", "Write"), c.answer(nil, "Write")...)
			},
			[]bool{false, false, true},
		},
		{"ae-10 unknown", "no loaded skill: nothing is launching", refRelease{skills: skills(ro)}, func(c *refTalk) []bool {
			return c.answer(nil, "skill unknown", "Write")
		}, []bool{false, true}},
		{
			"ae-12", "a nested loop may use what both allow",
			refRelease{skills: skills(listed("plan", "Read", "Task"), listed("w", "Write"))},
			func(c *refTalk) []bool {
				c.answer(nil, "skill plan")
				c.answer(nil, "Task")
				child := c.inside()
				child.user("do")
				verdicts := child.answer(nil, "Write", "Read")
				verdicts = append(verdicts, child.answer(nil, "skill w")...)
				return append(verdicts, child.answer(nil, "Write", "Read")...)
			},
			[]bool{false, true, true, false, false},
		},
		{"ae-13 wider", "the list recorded at launch holds for the turn", refRelease{skills: skills(ro)}, func(c *refTalk) []bool {
			c.answer(nil, "skill ro")
			c.release = refRelease{skills: skills(listed("ro", "Read", "Write"))}
			return c.answer(nil, "Write", "Read")
		}, []bool{false, true}},
		{"ae-13 gone", "the recorded limits hold until the turn ends", refRelease{skills: skills(ro)}, func(c *refTalk) []bool {
			c.answer(nil, "skill ro")
			c.release = refRelease{}
			held := c.answer(nil, "Write", "Read")
			c.user("next")
			return append(held, c.answer(nil, "Write")...)
		}, []bool{false, true, true}},
		{"dm-02", "a dismissed skill leaves nothing in the next turn", refRelease{skills: skills(ro), keepWindow: true}, func(c *refTalk) []bool {
			c.answer(nil, "skill ro")
			c.dismiss("ro", false)
			held := c.answer(nil, "Write")
			c.user("next")
			return append(held, c.answer(nil, "Write")...)
		}, []bool{false, true}},
		{
			"KeepWindow", "a restricted launch spans turns, its grant does not",
			refRelease{skills: skills(refund), guarded: []string{"RefundSubmit"}, keepWindow: true},
			func(c *refTalk) []bool {
				c.answer(nil, "skill refund")
				c.user("next")
				held := c.answer(nil, "Write", "RefundSubmit", "Read")
				c.answer(nil, "skill refund")
				return append(held, c.answer(nil, "RefundSubmit")...)
			},
			[]bool{false, false, true, true},
		},
		{
			"kept and dismissed", "no longer blocks skill, and still limits",
			refRelease{skills: skills(ro, find), keepWindow: true},
			func(c *refTalk) []bool {
				c.answer(nil, "skill ro")
				c.user("next")
				held := c.answer(nil, "skill find")
				c.dismiss("ro", false)
				return append(held, append(c.answer(nil, "Write"), c.answer(nil, "skill find")...)...)
			},
			[]bool{false, false, true},
		},
		{"guarded", "needs a grant of an earlier step", refRelease{skills: skills(refund), guarded: []string{"RefundSubmit"}}, func(c *refTalk) []bool {
			verdicts := c.answer(nil, "RefundSubmit", "skill refund")
			return append(verdicts, c.answer(nil, "refundsubmit")...)
		}, []bool{false, true, true}},
		{
			"guarded by a pattern", "a pattern neither grants nor allows",
			refRelease{skills: skills(refund, wild), guarded: []string{"RefundSubmit"}},
			func(c *refTalk) []bool {
				c.answer(nil, "skill wild")
				return c.answer(nil, "RefundSubmit", "RefundQuery")
			},
			[]bool{false, true},
		},
		{
			"guarded and edited", "another message: limits stay and grants go",
			refRelease{skills: skills(refund), guarded: []string{"RefundSubmit"}},
			func(c *refTalk) []bool {
				c.answer(nil, "skill refund")
				c.history = nil
				c.user("summary")
				return c.answer(nil, "RefundSubmit", "Write", "Read")
			},
			[]bool{false, false, true},
		},
		{"ban", "in a ban a pattern matches any tool, and nothing else is limited", refRelease{skills: skills(banning, ro)}, func(c *refTalk) []bool {
			c.answer(nil, "skill ban")
			return c.answer(nil, "Write", "BASH", "Read", "skill ban")
		}, []bool{false, false, true, true}},
		{"always allowed", "inside a limit", refRelease{skills: skills(ro), always: []string{"handoff"}}, func(c *refTalk) []bool {
			c.answer(nil, "skill ro")
			return c.answer(nil, "Handoff")
		}, []bool{true}},
		{
			"inside an always allowed tool", "the limits around it hold",
			refRelease{skills: skills(ro), always: []string{"handoff"}},
			func(c *refTalk) []bool {
				c.answer(nil, "skill ro")
				c.answer(nil, "handoff")
				return c.inside().answer(nil, "Write", "Read")
			},
			[]bool{false, true},
		},
		{"Exclusive", "one at a time, also within a batch", refRelease{skills: skills(open, banning), exclusive: true}, func(c *refTalk) []bool {
			verdicts := c.answer(nil, "skill open", "skill ban")
			verdicts = append(verdicts, c.answer(nil, "skill ban")...)
			c.dismiss("open", false)
			return append(verdicts, c.answer(nil, "skill ban")...)
		}, []bool{true, false, false, true}},
		{"a skill twice in a batch", "cannot slip past a sibling's limit", refRelease{skills: skills(ro, find)}, func(c *refTalk) []bool {
			return c.answer(nil, "skill ro", "skill find", "skill find")
		}, []bool{true, false, false}},
		{
			"history", "a launch that only the history shows limits and grants nothing",
			refRelease{skills: skills(refund), guarded: []string{"RefundSubmit"}},
			func(c *refTalk) []bool {
				c.answer(nil, "skill refund")
				c.refState = refState{}
				return c.answer(nil, "Write", "RefundSubmit", "Read")
			},
			[]bool{false, false, true},
		},
		{"history before the user", "the window closes at a real user message", refRelease{skills: skills(ro)}, func(c *refTalk) []bool {
			c.answer(nil, "skill ro")
			c.refState = refState{}
			c.user("next")
			return c.answer(nil, "Write")
		}, []bool{true}},
		{"reminder", "does not close it", refRelease{skills: skills(ro)}, func(c *refTalk) []bool {
			c.answer(nil, "skill ro")
			c.user("nudge")
			c.reminders = []string{"nudge"}
			return c.answer(nil, "Write", "Read")
		}, []bool{false, true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &refTalk{release: test.release}
			c.user("go")
			require.Equal(t, test.want, test.tell(c), test.why)
		})
	}
}
