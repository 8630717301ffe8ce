package skillbay

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// toolInput is what a model's input to one of skillbay's tools says.
type toolInput struct {
	skill  string
	args   string // of skill; the reason of skill_dismiss; the path of skill_file
	given  bool   // args is present, even if empty
	offset int
	limit  int
	wrong  bool // the input is not of the expected form
}

// parse reads an input leniently (SPEC 7): the first JSON value, code fences
// trimmed and langchaingo's `__arg1` opened up to twice; else the first line:
// the longest skill name that it starts with, then the rest.
func (c *catalog) parse(input string) toolInput {
	return c.parseDepth(input, 2)
}

func (c *catalog) parseDepth(input string, depth int) toolInput {
	text := trimFences(strings.TrimSpace(input))
	if !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, `"`) && !strings.HasPrefix(text, "[") {
		return c.parseText(text)
	}
	object := make(map[string]any, 4)
	if plainObject(text, func(name, value string) { object[name] = value }) {
		return c.parseMembers(object, depth)
	}
	var value any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return toolInput{wrong: true}
	}
	switch value := value.(type) {
	case string:
		return c.parseText(strings.TrimSpace(value))
	case map[string]any:
		return c.parseMembers(value, depth)
	}
	return toolInput{wrong: true}
}

func (c *catalog) parseMembers(object map[string]any, depth int) toolInput {
	arg, wrapped := object["__arg1"]
	if !wrapped || object["skill"] != nil || object["name"] != nil {
		return parseObject(object)
	}
	inner, ok := arg.(string)
	if !ok {
		inner = jsonText(arg)
	}
	if depth == 0 || !ok && !strings.HasPrefix(inner, "{") {
		return toolInput{wrong: true}
	}
	return c.parseDepth(inner, depth-1)
}

func parseObject(object map[string]any) toolInput {
	var in toolInput
	name, present := object["skill"]
	if !present {
		name, present = object["name"]
	}
	text, ok := name.(string)
	if present && !ok {
		return toolInput{wrong: true}
	}
	in.skill = strings.TrimPrefix(strings.TrimSpace(text), "/")
	for _, key := range []string{"args", "reason", "path"} {
		if value := object[key]; value != nil && !in.given {
			in.args, in.given = jsonText(value), true
		}
	}
	in.offset, in.limit = number64(object["offset"]), number64(object["limit"])
	return in
}

// jsonText is a string as it is, and any other value as its JSON.
func jsonText(value any) string {
	if s, ok := value.(string); ok {
		return s
	}
	data, _ := encode(value)
	return string(data)
}

// number64 reads a number, also one in quotes; 0 for anything else.
func number64(value any) int {
	if value == nil {
		return 0
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(jsonText(value)), 64)
	if err != nil || !(n >= 0 && n <= 1<<40) {
		return 0
	}
	return int(n)
}

// parseText reads "name rest…". What a model made up after its stop word is
// not input.
func (c *catalog) parseText(text string) toolInput {
	text, _, _ = strings.Cut(text, "\nObservation:")
	text = strings.TrimPrefix(strings.TrimSpace(text), "/")
	line, _, _ := strings.Cut(text, "\n")
	longest := ""
	for _, f := range c.skills {
		n := f.Name
		if len(n) > len(longest) && len(line) >= len(n) && strings.EqualFold(line[:len(n)], n) && atWordEnd(line[len(n):]) {
			longest = line[:len(n)]
		}
	}
	if longest == "" {
		longest, _, _ = strings.Cut(strings.TrimSpace(line), " ")
	}
	rest := strings.TrimSpace(strings.TrimPrefix(text, longest))
	return toolInput{skill: strings.Trim(longest, `"'`+"`"), args: rest, given: rest != ""}
}

func atWordEnd(rest string) bool {
	return rest == "" || strings.ContainsRune(" \t\r\n,:;", rune(rest[0]))
}

// trimFences takes a code fence from around the text.
func trimFences(text string) string {
	if !strings.HasPrefix(text, "```") {
		return text
	}
	_, inner, found := strings.Cut(text, "\n")
	if !found {
		return strings.TrimSpace(strings.Trim(text, "`"))
	}
	inner, _, _ = strings.Cut(inner, "\n```")
	return strings.TrimSpace(strings.TrimSuffix(inner, "```"))
}

// isObject reports whether text is one JSON object and nothing else.
func isObject(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "{") && (plainObject(text, nil) || json.Valid([]byte(text)))
}

// plainObject reports whether text is one JSON object whose values are strings,
// without escapes, as most inputs of tools are, and nothing else. It calls
// member, unless that is nil, for each of them in order, and may have called it
// before it finds that text is something else.
func plainObject(text string, member func(name, value string)) bool {
	text, more := cutToken(text, '{')
	for more {
		name, rest, isName := cutString(text)
		rest, colon := cutToken(rest, ':')
		value, rest, isValue := cutString(rest)
		if !isName || !colon || !isValue {
			return false
		}
		if member != nil {
			member(name, value)
		}
		if text, more = cutToken(rest, ','); !more {
			rest, end := cutToken(rest, '}')
			return end && strings.TrimLeft(rest, jsonBlanks) == ""
		}
	}
	return false
}

const jsonBlanks = " \t\r\n"

// cutToken cuts a token of JSON off, with the blanks before it.
func cutToken(text string, token byte) (rest string, ok bool) {
	text = strings.TrimLeft(text, jsonBlanks)
	if text == "" || text[0] != token {
		return text, false
	}
	return text[1:], true
}

// cutString cuts a string of JSON off that holds no escape.
func cutString(text string) (value, rest string, ok bool) {
	text, ok = cutToken(text, '"')
	end := strings.IndexByte(text, '"')
	if !ok || end < 0 {
		return "", text, false
	}
	value, rest = text[:end], text[end+1:]
	for i := range len(value) {
		if value[i] < ' ' || value[i] == '\\' {
			return "", rest, false
		}
	}
	return value, rest, utf8.ValidString(value)
}
