package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// orderNumber is the form of order numbers; reference that of what tools issue.
var (
	orderNumber = regexp.MustCompile(`\b[A-Z]\d{4}\b`)
	reference   = regexp.MustCompile(`\b[A-Z]-?\d{4}\b`)
)

// stepArgs returns the arguments of a step of a body: what the step fixes;
// else, for every parameter, what the work under the body or the question tells.
func (m scripted) stepArgs(r *request, tool string, b body, fixed map[string]string) map[string]string {
	if fixed != nil {
		return fixed
	}
	return r.fill(tool, func(name string) string {
		if v := r.fromWork(b, name); v != "" {
			return v
		}
		return m.fromQuestion(r, name)
	})
}

// plainArgs returns the arguments of a tool that no body asked for: what the
// customer wrote.
func (m scripted) plainArgs(r *request, tool string) map[string]string {
	return r.fill(tool, func(name string) string { return m.fromQuestion(r, name) })
}

// fill asks for a value of every parameter in a tool's schema.
func (r *request) fill(tool string, value func(string) string) map[string]string {
	args := map[string]string{}
	schema, _ := r.offered[tool].Parameters.(map[string]any)
	properties, _ := schema["properties"].(map[string]any)
	for name := range properties {
		if v := value(name); v != "" {
			args[name] = v
		}
	}
	return args
}

// fromWork looks a value up in the work done under a body: in what tools
// answered, in the body itself, and in a table of its files.
func (r *request) fromWork(b body, name string) string {
	known := r.known(b)
	if v := known[name]; v != "" {
		return v
	}
	for _, line := range strings.Split(b.text, "\n") {
		if v, ok := strings.CutPrefix(line, "- "+name+": "); ok {
			return strings.TrimSpace(v)
		}
	}
	for _, s := range r.steps[b.from:] {
		if s.tool != "skill_file" {
			continue
		}
		if v := tableCell(s.answer, name, known); v != "" {
			return v
		}
	}
	return ""
}

// known returns all values that tools answered under a body.
func (r *request) known(b body) map[string]string {
	known := map[string]string{}
	for _, s := range r.steps[b.from:] {
		maps.Copy(known, s.fields())
	}
	return known
}

// tableCell reads a Markdown table: the cell of the named column in the row
// whose first cell is a known value.
func tableCell(text, column string, known map[string]string) string {
	at := -1
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if at < 0 {
			at = slices.Index(cells, column)
			continue
		}
		for _, v := range known {
			if v == cells[0] && at < len(cells) {
				return cells[at]
			}
		}
	}
	return ""
}

// fromQuestion reads a value out of what the customer wrote.
func (m scripted) fromQuestion(r *request, name string) string {
	switch name {
	case "order":
		return m.order(r, r.question, true)
	case "amount":
		return m.words.money.FindString(r.question)
	case "address":
		if found := m.words.address.FindStringSubmatch(r.question); found != nil {
			return strings.TrimSpace(found[1])
		}
		return ""
	case "query", "reason":
		return r.question
	}
	return ""
}

// order returns an order number of the question, the last or the first; failing
// that, the newest one in the conversation.
func (m scripted) order(r *request, question string, last bool) string {
	if found := orderNumber.FindAllString(question, -1); len(found) > 0 {
		if last {
			return found[len(found)-1]
		}
		return found[0]
	}
	for _, message := range slices.Backward(r.messages) {
		if found := orderNumber.FindAllString(textOf(message), -1); len(found) > 0 {
			return found[len(found)-1]
		}
	}
	return ""
}

// fillSlots puts values into "{name}" slots; "" when one is missing.
func fillSlots(text string, fields map[string]string) string {
	missing := false
	out := slot.ReplaceAllStringFunc(text, func(s string) string {
		v, ok := fields[s[1:len(s)-1]]
		missing = missing || !ok
		return v
	})
	if missing {
		return ""
	}
	return out
}
