package skillbay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Limits of a header.
const (
	// maxHeaderBytes is the most that may stand between the two fences.
	maxHeaderBytes = 64 << 10
	// maxDescription is the most characters that the Agent Skills specification
	// allows a description; a longer one is only reported.
	maxDescription = 1024
)

// Keys of a header, in their exact spelling.
const (
	keyName          = "name"
	keyDescription   = "description"
	keyWhenToUse     = "when_to_use"
	keyAllowed       = "allowed-tools"
	keyDisallowed    = "disallowed-tools"
	keyArguments     = "arguments"
	keyArgumentHint  = "argument-hint"
	keyDisableModel  = "disable-model-invocation"
	keyUserInvocable = "user-invocable"
	keyModel         = "model"
	keyPaths         = "paths"
	keyShell         = "shell"
	keyVersion       = "version"
	keyLicense       = "license"
	keyCompatibility = "compatibility"
	keyMetadata      = "metadata"
)

// restrictionKeys are the keys that a problem must never make less strict.
var restrictionKeys = []string{keyAllowed, keyDisallowed, keyDisableModel, keyUserInvocable}

// knownKeys finds a key's exact spelling by its folded one.
var knownKeys = func() map[string]string {
	known := map[string]string{foldKey("user-invokable"): keyUserInvocable}
	for _, key := range slices.Concat(restrictionKeys, []string{
		keyName, keyDescription, keyWhenToUse, keyArguments, keyArgumentHint, keyModel, keyPaths,
		keyShell, keyVersion, keyLicense, keyCompatibility, keyMetadata,
	}) {
		known[foldKey(key)] = key
	}
	return known
}()

// knownSpellings are the folded keys in order.
var knownSpellings = slices.Sorted(maps.Keys(knownKeys))

// foldKey drops what may differ between two spellings of a key: case, `_`, `-`
// and blanks.
func foldKey(key string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || unicode.IsSpace(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, key)
}

func isRestriction(key string) bool { return slices.Contains(restrictionKeys, key) }

// parseSkill reads the text of a SKILL.md into the header's fields and Body.
// The text is UTF-8 with bare line feeds and no BOM. What is wrong with it is
// in the notes; one of severity Refused makes the skill unavailable, and then
// the Skill is not to be used.
//
// It never panics, and it fails closed: where the text and what YAML made of
// it could disagree about a restriction key, the skill is refused.
func parseSkill(text string) (Skill, []note) {
	h := parseHeader(text)
	s := Skill{UserInvocable: true, Body: h.body}
	if !h.refused() {
		h.fill(&s)
	}
	return s, h.notes
}

// parseStep is the step of section 4 that read a header.
type parseStep string

const (
	stepNone    parseStep = "no header"      // there is none, or it was refused unread
	stepStrict  parseStep = "strict YAML"    // the whole is YAML
	stepEntries parseStep = "entry by entry" // each entry alone, some as source text
	stepEmpty   parseStep = "empty header"   // no entry could be made out
)

// header is a header on its way from text to the fields of a Skill.
type header struct {
	step  parseStep
	line  int    // of the opening fence in the file
	pairs []pair // in source order
	body  string
	notes []note
}

func (h *header) warn(line int, format string, args ...any) {
	h.notes = append(h.notes, note{line, Warning, fmt.Sprintf(format, args...)})
}

func (h *header) refuse(line int, format string, args ...any) {
	h.notes = append(h.notes, note{line, Refused, fmt.Sprintf(format, args...)})
}

func (h *header) refused() bool {
	return slices.ContainsFunc(h.notes, func(n note) bool { return n.severity == Refused })
}

// quoted is untrusted text for a note: quoted, and not too long.
func quoted(s string) string {
	const most = 64 // characters
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return strconv.Quote(s)
}

// parseHeader cuts the header off and reads it by the first step that works.
func parseHeader(text string) *header {
	h := &header{step: stepNone, line: 1}
	block, problem := h.cut(text)
	if problem != "" {
		h.refuse(h.line, "%s, so there is no header and no description", problem)
		return h
	}
	if len(block) > maxHeaderBytes {
		h.refuse(h.line, "the header has %d bytes; at most %d are read", len(block), maxHeaderBytes)
		return h
	}
	doc := newDocument(block, h.line+1)
	if line, found := doc.conflict(); found {
		h.refuse(line, "the header holds an unresolved merge conflict")
		return h
	}
	if root, err := decodeYAML(block); err == nil {
		h.step = stepStrict
		h.add(doc, root)
	} else {
		h.readEntries(doc, err)
	}
	h.checkRestrictions(doc)
	return h
}

// cut finds the two fences: lines of `---` at column 0, trailing blanks
// allowed, and only blank lines before the first. It sets the fence's line and
// the body, and returns what stands between, with its last line break, or what
// is missing.
func (h *header) cut(text string) (block, problem string) {
	isFence := func(line string) bool { return strings.TrimRight(line, " \t") == "---" }
	line, rest, _ := strings.Cut(text, "\n")
	for strings.TrimSpace(line) == "" && rest != "" {
		line, rest, _ = strings.Cut(rest, "\n")
		h.line++
	}
	if !isFence(line) {
		return "", "the file does not begin with a line of `---`"
	}
	for at := 0; at < len(rest); {
		line, after, _ := strings.Cut(rest[at:], "\n")
		if isFence(line) {
			h.body = after
			return rest[:at], ""
		}
		at = len(rest) - len(after)
	}
	return "", "no line of `---` closes the header"
}

// document is a piece of YAML and where it stands in the file. Positions of
// its nodes become offsets here, since yaml.v3 does not tell where a node ends.
type document struct {
	text  string
	line  int   // the line of the file that text begins with
	lines []int // offset of each line, broken where YAML breaks lines

	last struct{ line, column, at int } // what offset found last
}

func newDocument(text string, line int) *document {
	d := &document{text: text, line: line, lines: []int{0}}
	for i, r := range text {
		switch r {
		case '\r':
			if strings.HasPrefix(text[i:], "\r\n") {
				continue
			}
			fallthrough
		case '\n', '\u0085', '\u2028', '\u2029':
			d.lines = append(d.lines, i+utf8.RuneLen(r))
		}
	}
	return d
}

// offset returns the byte where a node begins. Its column counts characters,
// so that the line must be walked; nodes are asked for mostly in their order,
// and the walk goes on from the last one.
func (d *document) offset(n *yaml.Node) int {
	if n.Line < 1 || n.Line > len(d.lines) {
		return len(d.text)
	}
	column, at := 1, d.lines[n.Line-1]
	if d.last.line == n.Line && d.last.column <= n.Column {
		column, at = d.last.column, d.last.at
	}
	for ; column < n.Column; column++ {
		_, size := utf8.DecodeRuneInString(d.text[at:])
		at += size
	}
	d.last.line, d.last.column, d.last.at = n.Line, column, at
	return at
}

// fileLine returns the line of the file, 1-based, in which a byte stands.
func (d *document) fileLine(offset int) int {
	return d.line + strings.Count(d.text[:offset], "\n")
}

// row returns line i of the document, with its line break.
func (d *document) row(i int) string {
	if i+1 < len(d.lines) {
		return d.text[d.lines[i]:d.lines[i+1]]
	}
	return d.text[d.lines[i]:]
}

// part returns lines from up to but not including to, as a document.
func (d *document) part(from, to int) *document {
	end := len(d.text)
	if to < len(d.lines) {
		end = d.lines[to]
	}
	return newDocument(d.text[d.lines[from]:end], d.fileLine(d.lines[from]))
}

// conflict finds the marker that version control leaves in an unresolved merge.
func (d *document) conflict() (line int, found bool) {
	for i, at := range d.lines {
		if row := d.row(i); strings.HasPrefix(row, "<<<<<<<") || strings.HasPrefix(row, ">>>>>>>") {
			return d.fileLine(at), true
		}
	}
	return 0, false
}

// decodeYAML reads one YAML mapping as nodes: nothing in them is resolved,
// merged, expanded or taken for a duplicate. yaml.v3 panics on some malformed
// input (go-yaml/yaml#1050); that is an error like any other.
func decodeYAML(text string) (root *yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			root, err = nil, fmt.Errorf("the YAML reader failed: %v", r)
		}
	}()
	dec := yaml.NewDecoder(strings.NewReader(text))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return &yaml.Node{Kind: yaml.MappingNode}, nil // blanks and comments only
	} else if err != nil {
		return nil, err
	}
	// What follows an end mark (`...`) would be dropped without a word.
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document")
	}
	if root = doc.Content[0]; root.Kind != yaml.MappingNode {
		return nil, errors.New("it is no mapping of keys to values")
	}
	return root, nil
}

// yamlProblem is an error of decodeYAML without its line, which counts from
// the start of what was decoded.
func yamlProblem(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if where, what, ok := strings.Cut(text, ": "); ok && strings.HasPrefix(where, "line ") {
		return what
	}
	return text
}

// pair is one key of the header, or of its metadata, with its value.
type pair struct {
	key      string // as written
	line     int    // of the key, in the file
	value    *yaml.Node
	doc      *document // in which the pair stands; nil for a repaired one
	at, end  int       // the bytes of doc.text that hold the pair
	lost     bool      // value is unknown: a quote never closes
	repaired bool      // value is source text, since YAML refuses it
	rows     int       // of a repaired value: its lines that hold something
}

// add takes the pairs of a mapping, unless it uses what headers must not have.
func (h *header) add(doc *document, root *yaml.Node) {
	if at, what := forbidden(doc, root); what != "" {
		h.refuse(doc.fileLine(at), "the header uses %s, which skills must not", what)
		return
	}
	h.pairs = append(h.pairs, pairsOf(doc, root, len(doc.text))...)
}

// pairsOf returns the pairs of a mapping that ends at or before end.
func pairsOf(doc *document, mapping *yaml.Node, end int) []pair {
	pairs := make([]pair, 0, len(mapping.Content)/2)
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key := mapping.Content[i]
		p := pair{key: key.Value, value: mapping.Content[i+1], doc: doc, at: doc.offset(key), end: end}
		p.line = doc.fileLine(p.at)
		if i+2 < len(mapping.Content) {
			p.end = doc.offset(mapping.Content[i+2])
		}
		pairs = append(pairs, p)
	}
	return pairs
}

// forbidden finds what could make a header mean something else than its lines
// say: an anchor, an alias, a tag, a merge, or a key that is not text.
func forbidden(doc *document, root *yaml.Node) (at int, what string) {
	for i := 0; i < len(root.Content); i += 2 {
		switch key := root.Content[i]; {
		case key.Tag == "!!merge":
			return doc.offset(key), "a merge key (`<<`)"
		case key.Kind != yaml.ScalarNode:
			return doc.offset(key), "a list or a map as a key"
		}
	}
	return reference(doc, root)
}

// reference finds the first anchor, alias or tag under a node.
func reference(doc *document, n *yaml.Node) (at int, what string) {
	at = doc.offset(n)
	switch {
	case n.Kind == yaml.AliasNode:
		return at, "an alias (`*`)"
	case n.Anchor != "":
		return at, "an anchor (`&`)"
	case n.Style&yaml.TaggedStyle != 0 || strings.HasPrefix(doc.text[at:], "!"):
		return at, "a tag (`!`)"
	}
	for _, child := range n.Content {
		if at, what := reference(doc, child); what != "" {
			return at, what
		}
	}
	return 0, ""
}

// readEntries is the second step: each entry is parsed alone, and one that
// YAML refuses gives its source text. An entry is a key at column 0 with the
// lines up to the next. Without any entry it is the third step.
func (h *header) readEntries(doc *document, cause error) {
	h.step = stepEmpty
	starts := []int{0}
	for i := 1; i < len(doc.lines); i++ {
		if _, _, isKey := cutKey(doc.row(i)); isKey {
			starts = append(starts, i)
		}
	}
	for n, from := range starts {
		to := len(doc.lines)
		if n+1 < len(starts) {
			to = starts[n+1]
		}
		h.readEntry(doc.part(from, to))
	}
	if len(h.notes) == 0 {
		h.warn(h.line, "the header is not valid YAML (%s); it was read entry by entry", yamlProblem(cause))
	}
}

// readEntry reads one entry, or the lines before the first.
func (h *header) readEntry(doc *document) {
	key, rest, isKey := cutKey(doc.row(0))
	if !isKey {
		if text, rows := sourceText("", doc, 0); rows > 0 {
			h.warn(doc.line, "the lines before the first key of the header are no YAML and are ignored")
			h.checkGlued(doc.line, text)
		}
		return
	}
	h.step = stepEntries
	root, err := decodeYAML(doc.text)
	if err == nil {
		h.add(doc, root)
		return
	}
	text, rows := sourceText(rest, doc, 1)
	value, closed := text, true
	if !isBlock(rest) {
		value, closed = unquote(text)
	}
	if closed {
		h.warn(doc.line, "the value of %s is not valid YAML (%s); its source text is used", quoted(key), yamlProblem(err))
	} else {
		h.warn(doc.line, "the value of %s opens a quote and never closes it; the entry is lost", quoted(key))
	}
	h.checkGlued(doc.line, text)
	h.pairs = append(h.pairs, pair{
		key: key, line: doc.line, lost: !closed, repaired: true, rows: rows + 1,
		value: &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: value},
	})
}

// cutKey tells whether a line begins an entry, as YAML would see it: a key at
// column 0, plain or quoted, then a colon before a blank or the line's end. It
// returns the key and the rest of the line.
func cutKey(row string) (key, rest string, ok bool) {
	row = strings.TrimRightFunc(row, unicode.IsSpace)
	if row == "" || strings.IndexByte(" \t:#,[]{}&*!|>%@`", row[0]) >= 0 {
		return "", "", false
	}
	at := 1
	switch row[0] {
	case '"', '\'':
		if at = quoteEnd(row); at < 0 {
			return "", "", false
		}
	case '-', '?':
		if len(row) == 1 || isBlank(row[1]) {
			return "", "", false
		}
	}
	for ; at < len(row); at++ {
		if row[at] == ':' && (at+1 == len(row) || isBlank(row[at+1])) {
			return keyText(strings.TrimSpace(row[:at])), strings.TrimSpace(row[at+1:]), true
		}
	}
	return "", "", false
}

// keyText is a key without its quotes and escapes.
func keyText(key string) string {
	if strings.HasPrefix(key, `"`) || strings.HasPrefix(key, "'") {
		if root, err := decodeYAML(key + ": "); err == nil && len(root.Content) > 0 {
			return root.Content[0].Value
		}
	}
	return key
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// isBlock reports whether a value begins a block scalar: `|` or `>`, what may
// stand beside it, and nothing else but a comment.
func isBlock(rest string) bool {
	if rest == "" || rest[0] != '|' && rest[0] != '>' {
		return false
	}
	after := strings.TrimLeft(rest[1:], "+-123456789")
	return after == "" || isBlank(after[0]) && strings.HasPrefix(strings.TrimSpace(after), "#")
}

// sourceText is the value of an entry that YAML refuses: the rest of its first
// line and the rows of doc from that index on, without comment lines. A block
// loses its indentation and a literal one keeps its lines; all else is joined
// by blanks. It also returns how many of the rows hold something.
func sourceText(rest string, doc *document, from int) (text string, rows int) {
	block := isBlock(rest)
	var lines []string
	if rest != "" && !block {
		lines = append(lines, rest)
	}
	indent := -1
	for i := from; i < len(doc.lines); i++ {
		row := strings.TrimRightFunc(doc.row(i), unicode.IsSpace)
		line := strings.TrimLeft(row, " \t")
		if strings.HasPrefix(line, "#") && (!block || line == row) {
			continue
		}
		if line != "" {
			rows++
			if indent < 0 {
				indent = len(row) - len(line)
			}
		}
		switch {
		case block && rest[0] == '|':
			lines = append(lines, row[min(max(indent, 0), len(row)-len(line)):])
		case line != "":
			lines = append(lines, line)
		}
	}
	if block && rest[0] == '|' {
		return strings.Trim(strings.Join(lines, "\n"), "\n"), rows
	}
	return strings.Join(lines, " "), rows
}

// unquote drops the quotes of a source text that an author put around the
// whole of it; closed is false for a quote that never closes. A text that
// JSON reads is what JSON reads (escaped surrogate pairs). Where YAML's closing
// quote stands right before a word it was meant to open one inside
// ("Say "hi" to all"), and the last quote closes.
func unquote(text string) (value string, closed bool) {
	if text == "" || text[0] != '"' && text[0] != '\'' {
		return text, true
	}
	if json.Unmarshal([]byte(text), &value) == nil {
		return value, true
	}
	end, last := quoteEnd(text), len(text)-1
	if end < 0 {
		return "", false
	}
	next, _ := utf8.DecodeRuneInString(text[end:])
	if text[last] == text[0] && (unicode.IsLetter(next) || unicode.IsDigit(next)) {
		return text[1:last], true
	}
	return text, true
}

// quoteEnd returns where the quoted text that s begins with ends, its closing
// quote included, or -1.
func quoteEnd(s string) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[0] == '"' && s[i] == '\\':
			i++
		case s[i] != s[0]:
		case s[0] == '\'' && strings.HasPrefix(s[i+1:], "'"):
			i++
		default:
			return i + 1
		}
	}
	return -1
}

// checkGlued refuses the skill if the source text of an entry contains a
// restriction key and a colon: a lost line break would hide it there.
func (h *header) checkGlued(line int, text string) {
	folded := foldKey(strings.NewReplacer(`"`, "", "'", "", "：", ":").Replace(text))
	glued := "" // the last one, since `disallowed-tools` contains `allowed-tools`
	for _, spelling := range knownSpellings {
		if key := knownKeys[spelling]; isRestriction(key) && strings.Contains(folded, spelling+":") {
			glued = key
		}
	}
	if glued != "" {
		h.refuse(line, "`%s` seems to stand in the middle of a broken entry", glued)
	}
}

// checkRestrictions compares what YAML found with what a reader sees: a line
// that begins with a restriction key must have become that key. It has not if,
// say, a quote that opens above it closes below.
func (h *header) checkRestrictions(doc *document) {
	if h.refused() {
		return
	}
	found := make(map[string]int)
	for _, p := range h.pairs {
		found[knownKeys[foldKey(p.key)]]++
	}
	for i, at := range doc.lines {
		key := restrictionAt(doc.row(i))
		if key == "" {
			continue
		}
		if found[key]--; found[key] < 0 {
			h.refuse(doc.fileLine(at), "a line begins with `%s`, but it is part of another value", key)
			return
		}
	}
}

// restrictionAt returns the restriction key that a line begins with, before
// its colon or as its first word, or "".
func restrictionAt(row string) string {
	if row == "" || isBlank(row[0]) {
		return ""
	}
	head, _, _ := strings.Cut(strings.Replace(row, "：", ":", 1), ":")
	word, _, _ := strings.Cut(head, " ")
	for _, text := range []string{head, word} {
		if key := knownKeys[foldKey(strings.Trim(text, `"' `))]; isRestriction(key) {
			return key
		}
	}
	return ""
}

// fill puts the values of the pairs into a skill.
func (h *header) fill(s *Skill) {
	pairs := make(map[string][]pair) // by exact spelling; the unknown ones under ""
	for _, p := range h.pairs {
		key := h.resolve(p)
		pairs[key] = append(pairs[key], p)
		if p.commented() {
			h.warn(p.line, "YAML takes what follows ` #` in the value of %s for a comment; quotes would keep it", quoted(p.key))
		}
	}
	for _, field := range []struct {
		key string
		to  *string
	}{
		{keyName, &s.DisplayName},
		{keyWhenToUse, &s.WhenToUse},
		{keyArgumentHint, &s.ArgumentHint},
		{keyModel, &s.Model},
		{keyVersion, &s.Version},
		{keyShell, &s.Shell},
		{keyLicense, &s.License},
		{keyCompatibility, &s.Compatibility},
	} {
		if p, ok := h.choose(field.key, pairs[field.key]); ok && !p.null() {
			*field.to = p.text()
		}
	}
	if s.Model == "inherit" {
		s.Model = ""
	}
	h.description(s, pairs[keyDescription])
	s.AllowedTools = h.allowed(pairs[keyAllowed])
	s.DisallowedTools = h.disallowed(pairs[keyDisallowed])
	s.Restricted = s.AllowedTools != nil || s.DisallowedTools != nil
	s.DisableModelInvocation = h.boolean(keyDisableModel, pairs[keyDisableModel], true)
	s.UserInvocable = h.boolean(keyUserInvocable, pairs[keyUserInvocable], false)
	if p, ok := h.choose(keyArguments, pairs[keyArguments]); ok {
		s.Arguments = h.arguments(p)
	}
	if p, ok := h.choose(keyPaths, pairs[keyPaths]); ok {
		s.Paths = p.paths()
	}
	h.carry(s, pairs[""])
	if p, ok := h.choose(keyMetadata, pairs[keyMetadata]); ok {
		h.metadata(s, p)
	}
}

// resolve returns the exact spelling of a pair's key, or "" for an unknown
// one. What looks like a misspelt key is reported, and refuses the skill where
// a restriction key was meant.
func (h *header) resolve(p pair) string {
	folded := foldKey(p.key)
	if key, known := knownKeys[folded]; known {
		return key
	}
	if key := nearest(folded, isRestriction); key != "" {
		h.refuse(p.line, "the key %s is unknown; `%s` is probably meant", quoted(p.key), key)
	} else if key := nearest(folded, func(string) bool { return true }); key != "" {
		h.warn(p.line, "the key %s is unknown; `%s` may be meant", quoted(p.key), key)
	} else if folded == "tools" {
		h.warn(p.line, "the key `tools` restricts nothing; `%s` does", keyAllowed)
	}
	return ""
}

// maxEdits is the most edits between a key and the known key it is taken to
// misspell.
const maxEdits = 2

// nearest returns the known key, among those wanted, that is closest to a
// folded one and at most maxEdits away, or "".
func nearest(folded string, wanted func(key string) bool) string {
	best, least := "", maxEdits+1
	for _, spelling := range knownSpellings {
		if key := knownKeys[spelling]; wanted(key) {
			if d := editDistance([]rune(folded), []rune(spelling)); d < least {
				best, least = key, d
			}
		}
	}
	return best
}

// editDistance counts the characters to insert, delete or replace on the way
// from a to b (Levenshtein). Beyond maxEdits it need not be exact.
func editDistance(a, b []rune) int {
	if d := max(len(a)-len(b), len(b)-len(a)); d > maxEdits {
		return d
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, from := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j, to := range b {
			edit := diagonal
			if from != to {
				edit = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], edit
		}
	}
	return row[len(b)]
}

// choose picks the pair of a key that may be given once: the exact spelling
// before any other, then the last.
func (h *header) choose(key string, pairs []pair) (chosen pair, ok bool) {
	if len(pairs) > 1 {
		h.warn(pairs[1].line, "the key `%s` is given more than once; the exact spelling counts, else the last", key)
	}
	for _, p := range pairs {
		if !p.lost && (!ok || p.key == key || chosen.key != key) {
			chosen, ok = p, true
		}
	}
	return chosen, ok
}

// description takes the one value that a skill must have.
func (h *header) description(s *Skill, pairs []pair) {
	p, ok := h.choose(keyDescription, pairs)
	if !ok && len(pairs) > 0 {
		h.refuse(pairs[0].line, "the description is lost")
		return
	}
	if !ok {
		h.refuse(h.line, "the header has no description")
		return
	}
	s.Description = p.text()
	switch count := utf8.RuneCountInString(strings.TrimSpace(s.Description)); {
	case p.value.Kind != yaml.ScalarNode:
		h.refuse(p.line, "the description is a list or a map")
	case p.null() || count == 0:
		h.refuse(p.line, "the description is blank")
	case count > maxDescription:
		h.warn(p.line, "the description has %d characters; the specification allows %d", count, maxDescription)
	}
}

// allowed reads allowed-tools: nil if the key is absent, empty if it is
// present and allows no tool at all.
func (h *header) allowed(pairs []pair) []string {
	list := h.tools(keyAllowed, pairs)
	if list != nil && len(list) == 0 {
		h.warn(pairs[0].line, "`%s` is empty: the skill allows no tool at all", keyAllowed)
	}
	for _, text := range list {
		if _, known := parseAllow(text); !known {
			h.warn(pairs[0].line, "the entry %s of `%s` is not a tool's name and matches nothing", quoted(text), keyAllowed)
		}
	}
	return list
}

// disallowed reads disallowed-tools as names and prefixes: nil if the key is
// absent.
func (h *header) disallowed(pairs []pair) []string {
	list := h.tools(keyDisallowed, pairs)
	if list != nil && len(list) == 0 {
		h.warn(pairs[0].line, "`%s` is empty and bans nothing", keyDisallowed)
	}
	for i, text := range list {
		e, bare, err := parseBan(text)
		if err != nil {
			h.refuse(pairs[0].line, "the entry %s of `%s` is %v", quoted(text), keyDisallowed, err)
			continue
		}
		if bare {
			h.warn(pairs[0].line, "the entry %s of `%s` bans %s whatever its input is", quoted(text), keyDisallowed, e.name())
		}
		list[i] = e.name()
	}
	return list
}

// tools reads a list of tools, not nil if the key is present. Whatever leaves
// a doubt about an entry refuses the skill.
func (h *header) tools(key string, pairs []pair) []string {
	if len(pairs) == 0 {
		return nil
	}
	p := pairs[0]
	items, ok := p.toolItems()
	switch {
	case len(pairs) > 1:
		h.refuse(pairs[1].line, "the key `%s` is given more than once", key)
		return nil
	case p.lost:
		h.refuse(p.line, "the value of `%s` is lost", key)
		return nil
	case p.repaired && (p.rows > 1 || strings.Contains(p.text(), " #")):
		h.refuse(p.line, "the value of `%s` is not valid YAML, and its source text may mean several things", key)
		return nil
	case !ok:
		h.refuse(p.line, "the value of `%s` is neither text nor a list of texts", key)
		return nil
	}
	list := []string{}
	for _, item := range items {
		list = append(list, splitTools(item)...)
	}
	return list
}

// toolItems returns a list of tools as the texts that hold them; ok is false
// for a value that is something else. An item that YAML reads as a map,
// `WebFetch(domain: x)`, is its source text, and what YAML cut at a comma,
// `[Bash(git log, --stat)]`, is one text again.
func (p pair) toolItems() (items []string, ok bool) {
	nodes := p.value.Content
	switch p.value.Kind {
	case yaml.ScalarNode:
		nodes = []*yaml.Node{p.value}
	case yaml.MappingNode:
		return nil, false
	}
	for _, n := range nodes {
		switch {
		case n.Tag == "!!null":
		case n.Tag == "!!str":
			items = append(items, n.Value)
		case n.Kind == yaml.MappingNode && len(n.Content) == 2 && strings.Contains(n.Content[0].Value, "("):
			key, value := n.Content[0], n.Content[1]
			if value.Kind != yaml.ScalarNode || value.Style != 0 || value.Line != key.Line {
				return nil, false
			}
			at := p.doc.offset(key)
			items = append(items, p.doc.text[at:max(at, p.doc.offset(value))]+value.Value)
		default:
			return nil, false
		}
	}
	if p.value.Style&yaml.FlowStyle != 0 {
		items = []string{strings.Join(items, ", ")}
	}
	return items, true
}

// boolean reads a key whose strict value is given. Every doubt decides for the
// strict value: what is neither true nor false, and a key given twice.
func (h *header) boolean(key string, pairs []pair, strict bool) bool {
	if len(pairs) > 1 {
		h.warn(pairs[1].line, "the key `%s` is given more than once; %t counts if any says so", key, strict)
	}
	result := !strict
	for _, p := range pairs {
		value, known := parseBoolean(p.value.Value)
		switch {
		case p.lost:
			h.refuse(p.line, "the value of `%s` is lost", key)
		case !known || p.value.Kind != yaml.ScalarNode:
			h.warn(p.line, "the value of `%s` is neither true nor false and counts as %t", key, strict)
			result = strict
		case value == strict:
			result = strict
		}
	}
	return result
}

// parseBoolean reads the forms of true and false that YAML 1.1 and people use.
func parseBoolean(text string) (value, known bool) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "yes", "on", "1":
		return true, true
	case "false", "no", "off", "0":
		return false, true
	}
	return false, false
}

// arguments reads the declared names. One that could never be told from a
// position or a placeholder of skillbay's own is dropped.
func (h *header) arguments(p pair) []string {
	var names []string
	for _, name := range p.list(strings.Fields) {
		digits := strings.Trim(name, "0123456789") == "" // the empty name among them
		if digits || slices.Contains([]string{"ARGUMENTS", "SKILL_DIR", "SESSION_ID"}, name) {
			h.warn(p.line, "%s cannot be the name of an argument and is dropped", quoted(name))
			continue
		}
		names = append(names, name)
	}
	return names
}

// paths reads the value as path patterns. A trailing `/**` says nothing, and patterns that
// are all `**` are none.
func (p pair) paths() []string {
	var patterns []string
	all := true
	for _, pattern := range p.list(splitPaths) {
		if pattern = strings.TrimSuffix(pattern, "/**"); pattern != "" {
			patterns = append(patterns, pattern)
			all = all && pattern == "**"
		}
	}
	if all {
		return nil
	}
	return patterns
}

// splitPaths splits at commas outside braces: `src/*.{ts,tsx}, docs` is two.
func splitPaths(s string) []string {
	var parts []string
	depth, start := 0, 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			depth++
		case '}':
			depth--
		case ',':
			if depth <= 0 {
				parts = append(parts, strings.TrimSpace(s[start:i]))
				start = i + 1
			}
		}
	}
	return append(parts, strings.TrimSpace(s[start:]))
}

// metadata carries what stands under `metadata`; it counts before an unknown
// key of the header with the same name.
func (h *header) metadata(s *Skill, p pair) {
	if p.value.Kind != yaml.MappingNode {
		if !p.null() {
			h.carry(s, []pair{p})
		}
		return
	}
	pairs := pairsOf(p.doc, p.value, p.end)
	for _, child := range pairs {
		if key := knownKeys[foldKey(child.key)]; isRestriction(key) {
			h.warn(child.line, "`%s` inside `metadata` restricts nothing", key)
		}
	}
	h.carry(s, pairs)
}

// carry puts pairs that mean nothing to skillbay into a skill's metadata.
func (h *header) carry(s *Skill, pairs []pair) {
	if s.Metadata == nil && len(pairs) > 0 {
		s.Metadata = make(map[string]string)
	}
	seen := make(map[string]bool)
	for _, p := range pairs {
		if p.lost || p.key == "" {
			continue
		}
		if seen[p.key] {
			h.warn(p.line, "the key %s is given more than once; the last counts", quoted(p.key))
		}
		seen[p.key] = true
		s.Metadata[p.key] = p.text()
	}
}

// null reports whether the value is missing, `~` or `null`.
func (p pair) null() bool { return p.value.Tag == "!!null" }

// text is the value as text: what YAML makes of a scalar, untyped (1.10 stays
// "1.10"), and the source of a list or a map.
func (p pair) text() string {
	if p.value.Kind == yaml.ScalarNode {
		return p.value.Value
	}
	at := p.doc.offset(p.value)
	text := p.doc.text[at:max(at, p.end)]
	if p.value.Style&yaml.FlowStyle != 0 {
		return text[:flowEnd(text)]
	}
	lines := strings.Split(text, "\n")
	for len(lines) > 1 {
		last := strings.TrimSpace(lines[len(lines)-1])
		if last != "" && last[0] != '#' {
			break
		}
		lines = lines[:len(lines)-1]
	}
	return strings.Join(lines, "\n")
}

// flowEnd returns the length of the flow list or map that s begins with; one
// pair of a list, which has no brackets of its own, ends before the next item.
func flowEnd(s string) int {
	depth := 0
	last := byte('[') // the last byte that is not blank
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case (c == '"' || c == '\'') && strings.IndexByte("[{,:", last) >= 0:
			n := quoteEnd(s[i:])
			if n < 0 {
				return len(s)
			}
			i += n - 1
		case c == '#' && i > 0 && strings.IndexByte(" \t\n", s[i-1]) >= 0:
			n := strings.IndexByte(s[i:], '\n')
			if n < 0 {
				return len(s)
			}
			i += n
			continue
		case depth == 0 && strings.IndexByte(",]}", c) >= 0:
			return i
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		if strings.IndexByte(" \t\n", c) < 0 {
			last = c
		}
	}
	return len(s)
}

// list returns the texts of a list, or those that split makes of a text.
func (p pair) list(split func(string) []string) []string {
	switch {
	case p.null():
		return nil
	case p.value.Kind != yaml.SequenceNode:
		return split(p.text())
	}
	items := make([]pair, len(p.value.Content))
	for i, n := range p.value.Content {
		items[i] = pair{value: n, doc: p.doc, end: p.end}
		if i > 0 {
			items[i-1].end = p.doc.offset(n)
		}
	}
	var texts []string
	for _, item := range items {
		if !item.null() {
			texts = append(texts, strings.TrimSpace(item.text()))
		}
	}
	return texts
}

// commented reports whether YAML cut the value at ` #`, or found nothing else.
func (p pair) commented() bool {
	if p.doc == nil || p.value.Kind != yaml.ScalarNode || p.value.Style != 0 {
		return false
	}
	for line := range strings.SplitSeq(p.doc.text[p.at:max(p.at, p.end)], "\n") {
		isComment := strings.HasPrefix(strings.TrimSpace(line), "#")
		if !isComment && (strings.Contains(line, " #") || strings.Contains(line, "\t#")) {
			return true
		}
	}
	return false
}
