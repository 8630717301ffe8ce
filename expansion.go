package skillbay

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// template is the body of a skill, compiled once at load. It is immutable and
// safe for any number of goroutines.
//
// Which places of the body are placeholders depends on the body and on the
// declared argument names alone: never on the arguments, and not on whether
// shell blocks are enabled.
//
//   - `$ARGUMENTS`, unless an identifier character follows, is the raw text;
//     `$ARGUMENTS[N]` is its N-th word, from 0.
//   - `$name` is the word of a declared name, unless an identifier character
//     or `[` follows. The longest declared name that fits is meant.
//   - `$N`, the longest run of digits and no leading zero, is the N-th word if
//     N is below the number of declared names; if none is declared, if it
//     belongs to the unbroken run `$0`, `$1`, … that the body itself uses,
//     shell blocks included. An amount or a cell reference is neither a
//     placeholder nor part of the run: `$N` before `.` or `,` and a digit, or
//     after a letter or digit of the text (in `$0$1` the 0 is no text).
//   - `\$` before a digit, `ARGUMENTS` or a declared name loses its backslash
//     and is that text.
//   - `${SKILL_DIR}` and `${SESSION_ID}`, also with CLAUDE_ in front.
//   - Shell blocks, see findShellBlocks. Where they are not run they are
//     ordinary text, placeholders included.
//
// Everything else is literal text.
type template struct {
	body  string // as the author wrote it
	fixed string // the whole text, where parts is empty: the body without its escapes

	parts []bodyPart // the body with shell blocks as ordinary text; empty: no placeholder
	live  []bodyPart // the body with each shell block as one part; empty: no shell block
	code  []string   // the commands of the shell blocks, in order

	takes     bool // a placeholder of parts takes the arguments
	liveTakes bool // a placeholder of live, or a command of code, takes them
	private   bool // a placeholder of parts takes the session id

	declared []string // the argument names: environment variables of the commands
	notes    []note
}

// bodyPart is a piece of a compiled body: literal text or a placeholder.
type bodyPart struct {
	kind partKind
	text string // the piece as the author wrote it
	n    int    // partWord: the word's index; partShell: the block's
}

// partKind tells what is inserted for a bodyPart.
type partKind int

const (
	partLiteral   partKind = iota
	partArguments          // the raw argument text
	partWord               // one word of it
	partDir                // the skill's directory
	partSession            // the conversation's id
	partShell              // the output of a shell block
	partEscape             // nothing: the backslash of an escape; in marks only
)

// values is what one launch puts into a template.
type values struct {
	dir     string // base directory, forward slashes
	args    string
	given   bool   // false: no arguments at all, their placeholders stay as written
	session string // the conversation's session id
	// shell has the outputs of the shell blocks, in order. Nil: the blocks are
	// ordinary text.
	shell []string
	// appended words the arguments that nothing in the body took, separators
	// included. Nil: "\n\nARGUMENTS: " and the arguments.
	appended func(args string) string
}

// baseHeader returns the header that stands above a body: the skill's
// directory and a blank line. It is not part of the template, so that nothing
// in a directory's name is ever scanned.
func baseHeader(dir string) string {
	return "Base directory for this skill: " + dir + "\n\n"
}

// compileTemplate compiles a body whose header declares these argument names.
// It never fails: what is no placeholder is text.
func compileTemplate(body string, declared []string) *template {
	g := newGrammar(body, declared)
	t := &template{body: body, declared: slices.Clone(declared)}
	t.parts = g.parts(body)
	t.takes = takeArguments(t.parts)
	t.private = slices.ContainsFunc(t.parts, func(p bodyPart) bool { return p.kind == partSession })
	if !slices.ContainsFunc(t.parts, func(p bodyPart) bool { return p.kind != partLiteral }) {
		if t.fixed = t.expand(values{}); t.fixed == body {
			t.fixed = body // one text, not two
		}
		t.parts = nil
	}
	blocks := findShellBlocks(body)
	if len(blocks) == 0 {
		return t
	}
	if t.notes = variableNotes(declared); len(t.notes) > 0 {
		return t
	}
	end := 0
	for i, block := range blocks {
		code, takes := g.command(block.code)
		t.liveTakes = t.liveTakes || takes
		t.code = append(t.code, code)
		t.live = append(t.live, g.parts(body[end:block.start])...)
		t.live = append(t.live, bodyPart{kind: partShell, n: i})
		end = block.end
	}
	t.live = append(t.live, g.parts(body[end:])...)
	t.liveTakes = t.liveTakes || takeArguments(t.live)
	return t
}

// takeArguments reports whether a placeholder of parts takes the arguments.
func takeArguments(parts []bodyPart) bool {
	return slices.ContainsFunc(parts, func(p bodyPart) bool {
		return p.kind == partArguments || p.kind == partWord
	})
}

// constant reports whether the body holds no placeholder, escape or shell
// block: without arguments, expand returns it unchanged.
func (t *template) constant() bool {
	return len(t.parts) == 0 && len(t.code) == 0 && len(t.fixed) == len(t.body)
}

// shellBlocks returns the number of shell blocks that can be run.
func (t *template) shellBlocks() int { return len(t.code) }

// shellNotes returns the diagnostics about argument names that cannot be
// variables of a command. If there are any, all blocks of the skill stay
// ordinary text.
func (t *template) shellNotes() []note { return t.notes }

// expand puts v into the body, in one pass: an inserted value is never scanned
// again. A template without placeholders costs no allocation.
//
// Arguments that nothing takes are appended, so that a user's input is never
// silently dropped.
func (t *template) expand(v values) string {
	parts, takes := t.parts, t.takes
	if v.shell != nil && len(t.code) > 0 {
		parts, takes = t.live, t.liveTakes
	}
	var tail string
	switch {
	case !v.given || v.args == "" || takes:
	case v.appended != nil:
		tail = v.appended(v.args)
	default:
		tail = "\n\nARGUMENTS: " + v.args
	}
	if len(parts) == 0 {
		return t.fixed + tail
	}
	var words []string
	if v.given && takes {
		words = splitWords(v.args)
	}
	size := len(tail)
	for i := range parts {
		size += len(parts[i].value(&v, words))
	}
	var b strings.Builder
	b.Grow(size)
	for i := range parts {
		b.WriteString(parts[i].value(&v, words))
	}
	b.WriteString(tail)
	return b.String()
}

// value returns what stands for p in the expanded text.
func (p *bodyPart) value(v *values, words []string) string {
	switch p.kind {
	case partArguments:
		if v.given {
			return v.args
		}
	case partWord:
		if v.given {
			return wordAt(words, p.n)
		}
	case partDir:
		return v.dir
	case partSession:
		return v.session
	case partShell:
		return wordAt(v.shell, p.n)
	}
	return p.text
}

// wordAt returns the n-th of words; a missing one is empty.
func wordAt(words []string, n int) string {
	if n < len(words) {
		return words[n]
	}
	return ""
}

// splitWords splits arguments at white space. Double quotes group, and go; one
// without a partner is an ordinary character, like every single quote and
// backslash: natural language is the normal argument.
func splitWords(args string) []string {
	var words []string
	var word strings.Builder
	begun := false // there is a word, perhaps an empty one
	for i := 0; i < len(args); {
		r, size := utf8.DecodeRuneInString(args[i:])
		quoted := -1
		if r == '"' {
			quoted = strings.IndexByte(args[i+1:], '"')
		}
		switch {
		case quoted >= 0:
			word.WriteString(args[i+1 : i+1+quoted])
			begun = true
			size = quoted + 2
		case !unicode.IsSpace(r):
			word.WriteString(args[i : i+size])
			begun = true
		case begun:
			words = append(words, word.String())
			word.Reset()
			begun = false
		}
		i += size
	}
	if begun {
		words = append(words, word.String())
	}
	return words
}

// grammar finds the placeholders of one skill's texts.
type grammar struct {
	names    []string       // declared, the longest first
	index    map[string]int // of each declared name
	numbered int            // `$N` is a placeholder for N below this
}

// mark is a place of a text that expansion replaces: text[start:end].
type mark struct {
	kind       partKind
	start, end int
	n          int  // partWord: the word's index
	numbered   bool // written `$N`
}

// newGrammar returns the grammar of a skill with this body and these declared
// names.
func newGrammar(body string, declared []string) *grammar {
	g := &grammar{index: make(map[string]int, len(declared)), numbered: len(declared)}
	for i, name := range declared {
		if _, twice := g.index[name]; name != "" && !twice {
			g.index[name] = i
			g.names = append(g.names, name)
		}
	}
	slices.SortStableFunc(g.names, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	if len(declared) == 0 {
		g.numbered = unbrokenRun(g.candidates(body))
	}
	return g
}

// unbrokenRun returns how many of `$0`, `$1`, … stand in marks before the
// first that is missing.
func unbrokenRun(marks []mark) int {
	used := make(map[int]bool)
	for _, m := range marks {
		if m.numbered {
			used[m.n] = true
		}
	}
	n := 0
	for used[n] {
		n++
	}
	return n
}

// parts cuts a text at its marks.
func (g *grammar) parts(text string) []bodyPart {
	var parts []bodyPart
	end := 0
	for _, m := range g.marks(text) {
		if end < m.start {
			parts = append(parts, bodyPart{text: text[end:m.start]})
		}
		if m.kind != partEscape {
			parts = append(parts, bodyPart{kind: m.kind, text: text[m.start:m.end], n: m.n})
		}
		end = m.end
	}
	if end < len(text) {
		parts = append(parts, bodyPart{text: text[end:]})
	}
	return parts
}

// marks returns the placeholders and escapes of a text, in order.
func (g *grammar) marks(text string) []mark {
	return slices.DeleteFunc(g.candidates(text), func(m mark) bool {
		return m.numbered && m.n >= g.numbered
	})
}

// candidates returns the marks of a text and every `$N` that is no amount.
func (g *grammar) candidates(text string) []mark {
	var marks []mark
	for from := 0; ; {
		dollar := strings.IndexByte(text[from:], '$')
		if dollar < 0 {
			return marks
		}
		dollar += from
		m, ok := g.at(text, from, dollar)
		if ok {
			marks = append(marks, m)
		}
		from = max(m.end, dollar+1)
	}
}

// at returns the mark at a dollar sign. The text in between from and it belongs
// to no mark.
func (g *grammar) at(text string, from, dollar int) (mark, bool) {
	rest := text[dollar+1:]
	escape := mark{kind: partEscape, start: dollar - 1, end: dollar}
	escaped := dollar > from && text[dollar-1] == '\\'
	found := func(kind partKind, width, n int) (mark, bool) {
		return mark{kind: kind, start: dollar, end: dollar + 1 + width, n: n}, true
	}
	if after, ok := strings.CutPrefix(rest, argumentsName); ok && !startsIdentifier(after) {
		if escaped {
			return escape, true
		}
		if digits, ok := bracketed(after); ok {
			return found(partWord, len(argumentsName)+len(digits)+2, wordIndex(digits))
		}
		return found(partArguments, len(argumentsName), 0)
	}
	for _, name := range g.names {
		after, ok := strings.CutPrefix(rest, name)
		switch {
		case !ok || startsIdentifier(after):
		case escaped:
			return escape, true
		case !strings.HasPrefix(after, "["):
			return found(partWord, len(name), g.index[name])
		}
	}
	if digits := leadingDigits(rest); digits != "" {
		if escaped {
			return escape, true
		}
		leadingZero := len(digits) > 1 && digits[0] == '0'
		if leadingZero || isAmount(text[from:dollar], rest[len(digits):]) {
			return mark{}, false
		}
		m, _ := found(partWord, len(digits), wordIndex(digits))
		m.numbered = true
		return m, true
	}
	for _, b := range braced {
		if strings.HasPrefix(rest, b.text) {
			return found(b.kind, len(b.text), 0)
		}
	}
	return mark{}, false
}

// argumentsName is the name of the raw argument text, in a body and as an
// environment variable of commands.
const argumentsName = "ARGUMENTS"

// braced are the placeholders in braces, without their dollar sign.
var braced = []struct {
	text string
	kind partKind
}{
	{"{SKILL_DIR}", partDir},
	{"{CLAUDE_SKILL_DIR}", partDir},
	{"{SESSION_ID}", partSession},
	{"{CLAUDE_SESSION_ID}", partSession},
}

// isAmount reports whether a `$N` between these texts is an amount or a cell
// reference: $0.06, $1,000, US$5, B$6.
func isAmount(before, after string) bool {
	if len(after) > 1 && (after[0] == '.' || after[0] == ',') && isDigit(after[1]) {
		return true
	}
	r, _ := utf8.DecodeLastRuneInString(before)
	return r != '_' && isIdentifier(r)
}

// bracketed returns the digits of a text that begins with digits in brackets.
func bracketed(text string) (digits string, ok bool) {
	if !strings.HasPrefix(text, "[") {
		return "", false
	}
	digits = leadingDigits(text[1:])
	return digits, digits != "" && strings.HasPrefix(text[1+len(digits):], "]")
}

// leadingDigits returns the ASCII digits that a text begins with.
func leadingDigits(text string) string {
	n := 0
	for n < len(text) && isDigit(text[n]) {
		n++
	}
	return text[:n]
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// wordIndex returns the value of ASCII digits, at most a million: no arguments
// have more words than that.
func wordIndex(digits string) int {
	n := 0
	for i := range len(digits) {
		n = min(n*10+int(digits[i]-'0'), 1_000_000)
	}
	return n
}

// startsIdentifier reports whether a text begins with an identifier character.
func startsIdentifier(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return isIdentifier(r)
}

// isIdentifier reports whether r is an identifier character: an ASCII digit,
// `_`, or a letter that has case. Letters without case do not count, since
// text of those scripts touches a placeholder without a blank in between:
// `订单$0的退款`, `$name에게`.
func isIdentifier(r rune) bool {
	return '0' <= r && r <= '9' || r == '_' ||
		unicode.IsLower(r) || unicode.IsUpper(r) || unicode.IsTitle(r)
}
