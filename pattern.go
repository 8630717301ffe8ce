package skillbay

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// entryKind is the form of an entry in a list of tools.
type entryKind uint8

const (
	unknownEntry entryKind = iota // outside the grammar: allows nothing
	exactEntry                    // Name
	prefixEntry                   // Name*
	inputEntry                    // Name(pattern)
)

// entry is one compiled entry of allowed-tools or disallowed-tools. It is
// immutable, and the zero entry allows and bans nothing.
//
// The grammar: a name is letters, digits and `_ - . / : @`, beginning with a
// letter, a digit or `_`. A `*` right after it makes it a prefix; a pattern in
// parentheses after it, blanks between them allowed, also asks the input to
// match. Everything else is unknown.
type entry struct {
	text  string     // as the author wrote it
	tool  string     // the name, without `*` and parentheses
	kind  entryKind  // what allows and bans do with it
	globs [][]string // of an inputEntry: its patterns, each cut at its `*`
}

// parseAllow compiles an entry of a limit. One that the grammar does not know
// (`*` alone among them) is returned too, with known false: it allows nothing.
func parseAllow(text string) (e entry, known bool) {
	e.text = strings.TrimSpace(text)
	if name, pattern, ok := cutPattern(e.text); ok {
		if !isToolName(name) {
			return e, false
		}
		e.tool, e.kind, e.globs = name, inputEntry, compilePattern(pattern)
		return e, true
	}
	name, star := strings.CutSuffix(e.text, "*")
	if !isToolName(name) {
		return e, false
	}
	e.tool, e.kind = name, exactEntry
	if star {
		e.kind = prefixEntry
	}
	return e, true
}

// parseBan compiles an entry of a ban. One with parentheses bans its bare name
// whatever the input is, and bare says so: a ban that looked at the input
// would be evaded by wording it differently. `*` alone, and what the grammar
// does not know, is an error: such a ban cannot be honoured.
func parseBan(text string) (e entry, bare bool, err error) {
	name, _, bare := cutPattern(strings.TrimSpace(text))
	if !bare {
		name = text
	}
	e, known := parseAllow(name)
	if !known {
		return entry{}, bare, errors.New("neither a tool's name nor a prefix of names")
	}
	e.text = strings.TrimSpace(text)
	return e, bare, nil
}

// cutPattern cuts `Name (pattern)` into its two parts. The parentheses must be
// balanced and end the entry.
func cutPattern(text string) (name, pattern string, ok bool) {
	open := strings.IndexByte(text, '(')
	if open < 0 {
		return "", "", false
	}
	depth := 0
	for i := open; i < len(text); i++ {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			ok = i == len(text)-1
			break
		}
	}
	if !ok {
		return "", "", false
	}
	return strings.TrimSpace(text[:open]), text[open+1 : len(text)-1], true
}

// isToolName reports whether s is a name of the grammar that entry describes.
// Letters of every script are allowed, since a ReAct agent's tools may have
// any name.
func isToolName(s string) bool {
	for i, r := range s {
		word := unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '_'
		if !word && (i == 0 || !strings.ContainsRune("-./:@", r)) {
			return false
		}
	}
	return s != ""
}

// compilePattern cuts a pattern at every `*`. `x:*` is two patterns: `x`, and
// `x` with a blank and anything after it.
func compilePattern(pattern string) [][]string {
	if command, ok := strings.CutSuffix(pattern, ":*"); ok {
		return [][]string{strings.Split(command, "*"), strings.Split(command+" *", "*")}
	}
	return [][]string{strings.Split(pattern, "*")}
}

// allows reports whether e permits a call of tool with this input.
//
// The tool `skill` is allowed by its exact name only: it launches other
// skills, and a prefix or a pattern never meant that. Matching a pattern is no
// sandbox: `git -c core.pager='!id' log` matches `git:*`.
func (e *entry) allows(tool, input string) bool {
	switch e.kind {
	case exactEntry:
		return sameTool(e.tool, tool)
	case prefixEntry:
		return hasToolPrefix(tool, e.tool) && !sameTool(tool, toolSkill)
	case inputEntry:
		return sameTool(e.tool, tool) && !sameTool(tool, toolSkill) && e.matches(input)
	default:
		return false
	}
}

// bans reports whether e, of parseBan, forbids every call of tool.
func (e *entry) bans(tool string) bool {
	switch e.kind {
	case exactEntry:
		return sameTool(e.tool, tool)
	case prefixEntry:
		return hasToolPrefix(tool, e.tool)
	default:
		return false
	}
}

// exact reports whether e is a name alone: only such an entry grants a guarded
// tool or allows `skill`.
func (e *entry) exact() bool { return e.kind == exactEntry }

// isPattern reports whether e names its tools by a prefix.
func (e *entry) isPattern() bool { return e.kind == prefixEntry }

// name returns the tool's name as the author wrote it, without parentheses and
// with the `*` of a prefix. An unknown entry has none.
func (e *entry) name() string {
	if e.kind == prefixEntry {
		return e.tool + "*"
	}
	return e.tool
}

// String returns the entry as the author wrote it.
func (e *entry) String() string { return e.text }

// shellControl are the characters that a `*` never stands for. They could end
// the command that was allowed and begin another one; quoting is not
// interpreted, so they are refused wherever they stand.
const shellControl = ";&|<>$()`\n\r\v\f\u0085\u2028\u2029"

// matches reports whether the input is one of e's patterns.
func (e *entry) matches(input string) bool {
	text, ok := inputText(input)
	if !ok {
		return false
	}
	for _, glob := range e.globs {
		if matchGlob(glob, text) {
			return true
		}
	}
	return false
}

// matchGlob matches a whole text against a pattern that was cut at its `*`.
// The leftmost place of each part is enough to try: if any later one would do,
// all that lies between the two is free of control characters, and so this
// one does as well.
func matchGlob(parts []string, text string) bool {
	text, ok := strings.CutPrefix(text, parts[0])
	if !ok || len(parts) == 1 {
		return ok && text == ""
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		gap, rest, found := strings.Cut(text, part)
		if !found || strings.ContainsAny(gap, shellControl) {
			return false
		}
		text = rest
	}
	gap, ok := strings.CutSuffix(text, parts[last])
	return ok && !strings.ContainsAny(gap, shellControl)
}

// inputText returns what a pattern is compared with: the input itself, or the
// string of a JSON object that has no other member. What begins as an object
// or an array and is not that, broken JSON included, has no such text: tools
// differ in what they read out of it.
func inputText(input string) (string, bool) {
	start := strings.TrimLeft(input, " \t\r\n")
	if start == "" || start[0] != '{' && start[0] != '[' {
		return input, true
	}
	// Of a copy, so that nothing a judge looks at has to be on the heap.
	dec := json.NewDecoder(bytes.NewReader([]byte(input)))
	var tokens [4]json.Token // of `{`, name, value, `}`
	for i := range tokens {
		token, err := dec.Token()
		if err != nil {
			return "", false
		}
		tokens[i] = token
	}
	value, isString := tokens[2].(string)
	_, err := dec.Token()
	whole := tokens[0] == json.Delim('{') && tokens[3] == json.Delim('}') && errors.Is(err, io.EOF)
	return value, isString && whole
}

// sameTool compares two names of tools as langchaingo's executor resolves them
// (agents/executor.go: strings.ToUpper), blanks around them aside.
func sameTool(a, b string) bool {
	a, b = strings.TrimSpace(a), strings.TrimSpace(b)
	for i := range min(len(a), len(b)) {
		if a[i]|b[i] >= utf8.RuneSelf { // EqualFold takes more for equal: U+212A for k
			upper := strings.ToUpper(a)
			return upper == strings.ToUpper(b)
		}
		if upperASCII(a[i]) != upperASCII(b[i]) { // what follows cannot make up for it
			return false
		}
	}
	return len(a) == len(b)
}

func upperASCII(c byte) byte {
	if 'a' <= c && c <= 'z' {
		c -= 'a' - 'A'
	}
	return c
}

// hasToolPrefix is sameTool for the beginning of a name.
func hasToolPrefix(tool, prefix string) bool {
	tool = strings.TrimSpace(tool)
	if isASCII(tool) && isASCII(prefix) {
		return len(tool) >= len(prefix) && strings.EqualFold(tool[:len(prefix)], prefix)
	}
	return strings.HasPrefix(strings.ToUpper(tool), strings.ToUpper(prefix))
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// splitTools splits a string of tools at commas and white space outside
// parentheses. Blanks before a parenthesis belong to the entry, and one that
// never closes takes the rest.
func splitTools(s string) []string {
	var entries []string
	for {
		s = strings.TrimLeftFunc(s, isToolSeparator)
		if s == "" {
			return entries
		}
		n := firstTool(s)
		entries = append(entries, strings.TrimSpace(s[:n]))
		s = s[n:]
	}
}

// firstTool returns the length of the entry that s begins with; white space at
// the end of s may be a part of it.
func firstTool(s string) int {
	depth, blanks := 0, -1 // blanks: where white space after the entry so far begins
	for i, r := range s {
		switch {
		case r == '(':
			depth++
			blanks = -1
		case depth > 0:
			if r == ')' {
				depth--
			}
		case unicode.IsSpace(r):
			if blanks < 0 {
				blanks = i
			}
		case blanks >= 0:
			return blanks
		case r == ',':
			return i
		}
	}
	return len(s)
}

func isToolSeparator(r rune) bool { return r == ',' || unicode.IsSpace(r) }

// policy is what one skill's header says about tools. The zero policy limits
// and bans nothing.
type policy struct {
	limits bool    // allowed-tools is present, even if empty
	allow  []entry // of allowed-tools
	ban    []entry // of disallowed-tools
}

// is reports whether newPolicy would compile the two lists to p; allowed is nil
// when they limit nothing.
func (p *policy) is(allowed, disallowed []string) bool {
	same := func(e entry, text string) bool { return e.text == text }
	return p.limits == (allowed != nil) &&
		slices.EqualFunc(p.allow, allowed, same) && slices.EqualFunc(p.ban, disallowed, same)
}

// newPolicy compiles the two lists of a skill. They come from a header that
// was checked, or from a State; what a State might hold beyond that is read in
// the tightest way: an unknown entry of a limit allows nothing, one of a ban
// bans every tool.
func newPolicy(allowed, disallowed []string, limits bool) policy {
	p := policy{limits: limits}
	for _, text := range allowed {
		e, _ := parseAllow(text)
		p.allow = append(p.allow, e)
	}
	for _, text := range disallowed {
		e, _, err := parseBan(text)
		if err != nil {
			e = entry{text: text, kind: prefixEntry}
		}
		p.ban = append(p.ban, e)
	}
	return p
}
