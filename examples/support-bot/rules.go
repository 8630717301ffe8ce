package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// rule looks at a request and decides, or leaves it to the next rule.
type rule func(scripted, *request) (decision, bool)

// rules in the order in which they are asked.
var rules = []rule{
	scripted.summarises,
	scripted.obeysNamedSkill,
	scripted.obeysNamedTool,
	scripted.heedsGuard,
	scripted.acceptsDenial,
	scripted.answersFromBody,
	scripted.launches,
	scripted.releases,
	scripted.followsProcedure,
	scripted.usesPlainTool,
	scripted.reports,
}

// summarises: a request without tools asks for a summary. It keeps what a later
// turn needs: the numbers, in the order of their appearance.
func (m scripted) summarises(r *request) (decision, bool) {
	if len(r.offered) > 0 {
		return decision{}, false
	}
	var numbers []string
	for _, n := range reference.FindAllString(r.question, -1) {
		if !slices.Contains(numbers, n) {
			numbers = append(numbers, n)
		}
	}
	return decision{text: fmt.Sprintf(m.words.summary, strings.Join(numbers, ", "))}, true
}

// obeysNamedSkill: the customer names a skill outright; the model tries it.
func (m scripted) obeysNamedSkill(r *request) (decision, bool) {
	named := m.words.namedSkill.FindStringSubmatch(r.question)
	if named == nil {
		return decision{}, false
	}
	if _, done := r.tried(0, "skill", map[string]string{"skill": named[1]}); done {
		return decision{}, false
	}
	return m.launch(r, named[1])
}

// obeysNamedTool: the customer names a tool outright; the model runs it.
func (m scripted) obeysNamedTool(r *request) (decision, bool) {
	for _, name := range r.businessTools() {
		if _, done := r.tried(0, name, nil); !done && strings.Contains(r.question, name) {
			return one(name, m.plainArgs(r, name)), true
		}
	}
	return decision{}, false
}

// heedsGuard: a refusal names a listed skill that would be the way; the model
// takes it.
func (m scripted) heedsGuard(r *request) (decision, bool) {
	for _, s := range r.steps {
		for _, l := range r.listing {
			_, tried := r.tried(0, "skill", map[string]string{"skill": l.name})
			if s.refused() && !tried && strings.Contains(s.answer, l.name) {
				return m.launch(r, l.name)
			}
		}
	}
	return decision{}, false
}

// acceptsDenial: a launch was refused; the model says so, with the reason.
func (m scripted) acceptsDenial(r *request) (decision, bool) {
	for i, s := range r.steps {
		_, released := r.tried(i, "skill_dismiss", map[string]string{"skill": s.args["skill"]})
		if s.tool != "skill" || s.launch() != "" || released {
			continue
		}
		_, reason, found := strings.Cut(s.answer, "blocked by permission policy.")
		if !found {
			reason = m.words.notForMe
		}
		return decision{text: fmt.Sprintf(m.words.denied, strings.TrimSpace(reason))}, true
	}
	return decision{}, false
}

// faqLine is a question with its answer in a body.
var faqLine = regexp.MustCompile(`(?m)^- \*\*(.+?)\*\* (.+)$`)

// answersFromBody: a body that stands in the request answers the question.
func (m scripted) answersFromBody(r *request) (decision, bool) {
	if len(r.steps) > 0 {
		return decision{}, false
	}
	for _, b := range r.bodies {
		for _, entry := range faqLine.FindAllStringSubmatch(b.text, -1) {
			if m.shared(r.question, entry[1]) >= 3 {
				return decision{text: entry[2]}, true
			}
		}
	}
	return decision{}, false
}

// launches: the listing has a skill for the question that was not tried yet.
func (m scripted) launches(r *request) (decision, bool) {
	best, most := "", 0
	for _, l := range r.listing {
		if n := m.shared(r.question, l.description); n > most {
			best, most = l.name, n
		}
	}
	if best == "" {
		return decision{}, false
	}
	if _, done := r.tried(0, "skill", map[string]string{"skill": best}); done {
		return decision{}, false
	}
	return m.launch(r, best)
}

// launch calls the skill tool with the order and the customer's own words.
func (m scripted) launch(r *request, skill string) (decision, bool) {
	if _, ok := r.offered["skill"]; !ok {
		return decision{}, false
	}
	sentence := strings.TrimSpace(m.words.sentence.FindString(r.question))
	args := fmt.Sprintf("%s %q", m.order(r, r.question, false), strings.ReplaceAll(sentence, `"`, ""))
	return one("skill", map[string]string{"skill": skill, "args": strings.TrimSpace(args)}), true
}

// releases: the model has launched a skill for this question, so the bodies of
// earlier ones in the request are of another topic.
func (m scripted) releases(r *request) (decision, bool) {
	var d decision
	for _, b := range r.bodies {
		args := map[string]string{"skill": b.skill}
		_, done := r.tried(0, "skill_dismiss", args)
		launchedOther := slices.ContainsFunc(r.listing, func(l listed) bool { return r.launched(l.name) })
		if m.neverRelease || done || b.follow || r.launched(b.skill) || !launchedOther {
			continue
		}
		args["reason"] = m.words.movedOn
		d.calls = append(d.calls, call{"skill_dismiss", args})
	}
	if len(d.calls) == 0 {
		return decision{}, false
	}
	next, _ := m.followsProcedure(r) // in the same answer, to save a call
	d.calls = append(d.calls, next.calls...)
	return d, true
}

// A numbered line of a body is a step; an indented "- `text`: …" under it says
// what to do when its tool answers that text. “Quoted” words are the answer.
var (
	stepLine    = regexp.MustCompile(`(?m)^\d+\. (.+(?:\n   .+)*)`)
	branchStart = regexp.MustCompile("^\\s*- `([^`]+)`(.*)$")
	codeSpan    = regexp.MustCompile("`([^`]+)`")
	quoted      = regexp.MustCompile(`“([^”]+)”`)
	slot        = regexp.MustCompile(`\{(\w+)\}`)
)

// followsProcedure: a body is to be followed; the model takes its next step.
func (m scripted) followsProcedure(r *request) (decision, bool) {
	for _, b := range r.bodies {
		if !b.follow {
			continue
		}
		if next, found := m.nextStep(r, b); found {
			return next, true
		}
	}
	return decision{}, false
}

// nextStep returns the first call that the body asks for and that is not made.
func (m scripted) nextStep(r *request, b body) (decision, bool) {
	for _, text := range stepLine.FindAllStringSubmatch(b.text, -1) {
		lines := strings.Split(text[1], "\n")
		tool, want := r.toolIn(lines[0], b)
		if tool == "" {
			continue
		}
		made, done := r.tried(b.from, tool, want)
		if !done {
			return one(tool, m.stepArgs(r, tool, b, want)), true
		}
		for _, line := range lines[1:] {
			branch := branchStart.FindStringSubmatch(line)
			if branch == nil || !strings.Contains(made.answer, branch[1]) {
				continue
			}
			tool, want := r.toolIn(branch[2], b)
			if _, done := r.tried(b.from, tool, want); tool != "" && !done {
				return one(tool, m.stepArgs(r, tool, b, want)), true
			}
			return decision{}, false // the branch ends the procedure
		}
	}
	return decision{}, false
}

// toolIn returns the offered tool that a step names, and the arguments that the
// step itself fixes: a file's path belongs to skill_file.
func (r *request) toolIn(line string, b body) (tool string, want map[string]string) {
	spans := codeSpan.FindAllStringSubmatch(line, -1)
	for _, s := range spans {
		if _, ok := r.offered[s[1]]; ok && s[1] != "skill" {
			tool = s[1]
			break
		}
	}
	if tool != "skill_file" {
		return tool, nil
	}
	for _, s := range spans {
		if s[1] != tool {
			return tool, map[string]string{"skill": b.skill, "path": s[1]}
		}
	}
	return tool, nil
}

// usesPlainTool: no skill is left to follow; a tool whose description fits the
// question, and that no followed body names, may serve.
func (m scripted) usesPlainTool(r *request) (decision, bool) {
	for _, name := range r.businessTools() {
		_, done := r.tried(0, name, nil)
		named := slices.ContainsFunc(r.bodies, func(b body) bool {
			return b.follow && slices.ContainsFunc(stepLine.FindAllString(b.text, -1), func(line string) bool {
				return strings.Contains(line, "`"+name+"`")
			})
		})
		if !done && !named && m.shared(r.question, r.offered[name].Description) >= 2 {
			return one(name, m.plainArgs(r, name)), true
		}
	}
	return decision{}, false
}

// reports: nothing is left to do; the model says what came of it.
func (m scripted) reports(r *request) (decision, bool) {
	var sentences []string
	say := func(text string) {
		if text != "" && !slices.Contains(sentences, text) {
			sentences = append(sentences, text)
		}
	}
	for _, b := range r.bodies {
		if b.follow {
			say(m.closing(r, b))
		}
	}
	for i, s := range r.steps {
		if s.refused() {
			mended := slices.ContainsFunc(r.steps[i:], func(later step) bool { return later.launch() != "" })
			if !mended {
				say(fmt.Sprintf(m.words.refused, s.tool))
			}
			continue
		}
		say(fillSlots(m.words.plain[s.tool], s.fields()))
	}
	switch {
	case len(sentences) > 0:
		return decision{text: strings.Join(sentences, m.words.space)}, true
	case m.words.thanks.MatchString(r.question):
		return decision{text: m.words.farewell}, true
	}
	names := make([]string, len(r.listing))
	for i, l := range r.listing {
		names[i] = l.name
	}
	return decision{text: fmt.Sprintf(m.words.fallback, strings.Join(names, ", "))}, true
}

// closing returns the words with which a body ends its procedure: those of the
// branch taken, else those of its last step. It is silent as long as a value
// for them is missing.
func (m scripted) closing(r *request, b body) string {
	for _, text := range stepLine.FindAllStringSubmatch(b.text, -1) {
		lines := strings.Split(text[1], "\n")
		for i, line := range lines {
			answer := quoted.FindStringSubmatch(line)
			if answer == nil {
				continue
			}
			if i > 0 {
				branch := branchStart.FindStringSubmatch(line)
				tool, want := r.toolIn(lines[0], b)
				made, done := r.tried(b.from, tool, want)
				if branch == nil || !done || !strings.Contains(made.answer, branch[1]) {
					continue
				}
			}
			return fillSlots(answer[1], r.known(b))
		}
	}
	return ""
}
