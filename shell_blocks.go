package skillbay

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// shellBlock is a shell block of a body: body[start:end] and its command.
type shellBlock struct {
	start, end int
	code       string
}

// findShellBlocks returns the shell blocks of a body, in order. There are two
// forms, neither of them inside other code:
//
//   - an exclamation mark at line start or after white space and, touching it,
//     a code span;
//   - a code fence opened by exactly three backticks and, touching them, an
//     exclamation mark. What follows that is for readers. The fence must be
//     closed: an open one would run the rest of the text.
//
// Code is what CommonMark 0.31 calls so: fences of backticks or tildes of any
// length, indented code, code spans over the lines of a paragraph, also in
// block quotes and list items. A line that begins an HTML comment, <pre>,
// <script>, <style> or <textarea> is code up to the end of that. What is read
// in fewer ways than CommonMark has (tables, other HTML, link definitions) is
// text of a paragraph.
func findShellBlocks(body string) []shellBlock {
	if !strings.Contains(body, "!`") && !strings.Contains(body, "```!") {
		return nil
	}
	f := blockFinder{body: body}
	for start := 0; start < len(body); {
		end := len(body)
		if n := strings.IndexByte(body[start:], '\n'); n >= 0 {
			end = start + n
		}
		f.line(cursor{body: body, pos: start, end: end})
		if len(f.containers) > maxNesting {
			return nil
		}
		start = end + 1
	}
	f.endParagraph()
	return f.found
}

// maxNesting is how many block quotes and list items stand in one another at
// most. A body that is nested deeper has no shell blocks: reading it would cost
// the square of its length.
const maxNesting = 100

// blockFinder reads a body line by line, as CommonMark's block structure is
// defined (appendix "A parsing strategy"): a line goes on with open containers,
// opens new ones, and the rest of it belongs to a leaf. At most one of fence,
// html and paragraph is open.
type blockFinder struct {
	body       string
	found      []shellBlock
	containers []container
	fence      codeFence // open if its width is not 0
	html       []string  // the texts that end an open HTML block
	paragraph  []span    // the lines of an open paragraph
}

// span is body[start:end], a line of a paragraph without what containers take.
type span struct {
	start, end int
	joined     int // where it starts in the text of the paragraph
}

// container is an open block quote or list item.
type container struct {
	width int  // columns before a list item's content; 0: a block quote
	empty bool // a list item whose first line has no content
}

// codeFence is an open code fence.
type codeFence struct {
	char   byte // ` or ~
	width  int  // how many of them
	indent int  // columns in front
	shell  bool // opened by ```!
	start  int  // of its first backtick in the body
	code   strings.Builder
}

// line reads one line.
func (f *blockFinder) line(c cursor) {
	kept := 0
	for kept < len(f.containers) && f.containers[kept].goesOn(&c) {
		kept++
	}
	inside := kept == len(f.containers)
	switch {
	case inside && f.fence.width > 0:
		f.fenceLine(c)
		return
	case inside && f.html != nil:
		f.htmlLine(c)
		return
	}
	f.fence, f.html = codeFence{}, nil // an end of their container ends them

	for c.indent() <= 3 && !isThematicBreak(c.rest()) && kept <= maxNesting {
		opened, ok := openContainer(&c, inside && f.paragraph != nil)
		if !ok {
			break
		}
		f.closeTo(kept)
		f.containers = append(f.containers, opened)
		kept++
		inside = true
	}
	f.leaf(c, kept, inside)
}

// leaf reads the rest of a line, behind what its containers take. It is inside
// when all open containers go on.
func (f *blockFinder) leaf(c cursor, kept int, inside bool) {
	switch {
	case c.blank():
		f.closeTo(kept)
		return
	case c.indent() > 3:
		if f.paragraph == nil { // indented code
			f.closeTo(kept)
			return
		}
	case f.openFence(c, kept), f.openHTML(c, kept):
		return
	case isHeading(c.rest()), isThematicBreak(c.rest()),
		inside && f.paragraph != nil && isUnderline(c.rest()):
		f.closeTo(kept)
		f.text(c)
		f.endParagraph()
		return
	}
	if f.paragraph == nil { // else the line goes on with it, even without its containers
		f.closeTo(kept)
	}
	f.text(c)
}

// closeTo ends the open paragraph and all but the first n containers.
func (f *blockFinder) closeTo(n int) {
	f.endParagraph()
	f.containers = f.containers[:n]
}

// text adds the rest of a line to the paragraph.
func (f *blockFinder) text(c cursor) {
	c.skip(c.indent())
	f.paragraph = append(f.paragraph, span{start: c.pos, end: c.end})
}

// endParagraph reads the code spans of the open paragraph, if there is one.
func (f *blockFinder) endParagraph() {
	lines := f.paragraph
	f.paragraph = nil
	var joined strings.Builder
	for i, line := range lines {
		if i > 0 {
			joined.WriteByte('\n')
		}
		lines[i].joined = joined.Len()
		joined.WriteString(f.body[line.start:line.end])
	}
	text := joined.String()
	if !strings.Contains(text, "!`") {
		return
	}
	lastCommentEnd := strings.LastIndex(text, "-->")
	for i := 0; i < len(text); {
		switch text[i] {
		case '\\': // the next character is no backtick of a code span
			i += 2
		case '`':
			width := leadingRun(text[i:], '`')
			code, ok := codeSpan(text[i+width:], width)
			if !ok {
				i += width
				continue
			}
			end := i + width + len(code) + width
			if i > 0 && text[i-1] == '!' {
				f.inlineBlock(position(lines, i-1), position(lines, end-1)+1, code)
			}
			i = end
		case '<':
			if strings.HasPrefix(text[i:], "<!--") && i+2 <= lastCommentEnd {
				i += 2 + strings.Index(text[i+2:], "-->") // <!--> is a whole comment
			}
			i++
		default:
			i++
		}
	}
}

// inlineBlock records the block body[start:end] if what stands in front allows.
func (f *blockFinder) inlineBlock(start, end int, code string) {
	before, size := utf8.DecodeLastRuneInString(f.body[:start])
	if size == 0 || unicode.IsSpace(before) {
		f.found = append(f.found, shellBlock{start, end, code})
	}
}

// position returns where in the body the i-th byte of the joined lines stands.
func position(lines []span, i int) int {
	n, found := slices.BinarySearchFunc(lines, i, func(line span, i int) int { return line.joined - i })
	if !found {
		n--
	}
	return lines[n].start + i - lines[n].joined
}

// codeSpan returns the content of a code span whose opening backticks stand
// before text: up to the next run of as many.
func codeSpan(text string, width int) (code string, ok bool) {
	for i := 0; ; {
		next := strings.IndexByte(text[i:], '`')
		if next < 0 {
			return "", false
		}
		i += next
		run := leadingRun(text[i:], '`')
		if run == width {
			return text[:i], true
		}
		i += run
	}
}

// leadingRun returns how many of char a text begins with.
func leadingRun(text string, char byte) int {
	n := 0
	for n < len(text) && text[n] == char {
		n++
	}
	return n
}

// openFence opens a code fence if the line begins one.
func (f *blockFinder) openFence(c cursor, kept int) bool {
	indent := c.indent()
	c.skip(indent)
	text := c.rest()
	char := text[0]
	width := leadingRun(text, char)
	info := text[width:]
	if width < 3 || char != '`' && char != '~' || char == '`' && strings.Contains(info, "`") {
		return false
	}
	f.closeTo(kept)
	shell := char == '`' && width == 3 && strings.HasPrefix(info, "!")
	f.fence = codeFence{char: char, width: width, indent: indent, shell: shell, start: c.pos}
	return true
}

// fenceLine reads a line of the open fence.
func (f *blockFinder) fenceLine(c cursor) {
	if c.indent() <= 3 {
		text := strings.TrimSpace(c.rest())
		if width := leadingRun(text, f.fence.char); width >= f.fence.width && width == len(text) {
			if f.fence.shell {
				f.found = append(f.found, shellBlock{f.fence.start, c.end, f.fence.code.String()})
			}
			f.fence = codeFence{}
			return
		}
	}
	if f.fence.shell {
		c.skip(f.fence.indent)
		f.fence.code.WriteString(c.rest())
		f.fence.code.WriteByte('\n')
	}
}

// htmlBlocks are the HTML blocks that Markdown is not read in (CommonMark's
// kinds 1 and 2): how they begin and how they end.
var htmlBlocks = []struct {
	begin string
	end   []string
}{
	{"<!--", []string{"-->"}},
	{"<pre", rawTextEnds},
	{"<script", rawTextEnds},
	{"<style", rawTextEnds},
	{"<textarea", rawTextEnds},
}

var rawTextEnds = []string{"</pre>", "</script>", "</style>", "</textarea>"}

// openHTML opens an HTML block if the line begins one.
func (f *blockFinder) openHTML(c cursor, kept int) bool {
	text := strings.ToLower(strings.TrimLeft(c.rest(), " \t"))
	for _, block := range htmlBlocks {
		after, ok := strings.CutPrefix(text, block.begin)
		if ok && (block.begin == "<!--" || after == "" || strings.ContainsRune(" \t>", rune(after[0]))) {
			f.closeTo(kept)
			f.html = block.end
			f.htmlLine(c)
			return true
		}
	}
	return false
}

// htmlLine reads a line of the open HTML block.
func (f *blockFinder) htmlLine(c cursor) {
	text := strings.ToLower(c.rest())
	for _, end := range f.html {
		if strings.Contains(text, end) {
			f.html = nil
			return
		}
	}
}

// goesOn reports whether a line goes on with a container, and skips what marks
// that.
func (k *container) goesOn(c *cursor) bool {
	switch {
	case k.width == 0:
		return c.skipQuoteMark()
	case c.blank():
		return !k.empty
	case c.indent() < k.width:
		return false
	}
	k.empty = false
	c.skip(k.width)
	return true
}

// openContainer opens a block quote or a list item if the line begins one. In
// a paragraph, only a list item with content, and number 1 if it has one, can.
func openContainer(c *cursor, paragraph bool) (container, bool) {
	if c.skipQuoteMark() {
		return container{}, true
	}
	d := *c
	width := d.indent()
	d.skip(width)
	marker := listMarker(d.rest())
	if marker == "" {
		return container{}, false
	}
	d.pos += len(marker)
	d.column += len(marker)
	width += len(marker)
	empty := d.blank()
	if paragraph && (empty || len(marker) > 1 && strings.TrimRight(marker, ".)") != "1") {
		return container{}, false
	}
	padding := d.indent()
	switch {
	case empty || padding > 4: // what follows, if anything, is indented code
		padding = 1
	case padding == 0:
		return container{}, false
	}
	d.skip(padding)
	*c = d
	return container{width: width + padding, empty: empty}, true
}

// listMarker returns the list marker that a text begins with: a bullet, or up
// to nine digits and a period or parenthesis.
func listMarker(text string) string {
	digits := leadingDigits(text)
	if len(digits) == len(text) || len(digits) > 9 {
		return ""
	}
	marks := "-+*"
	if digits != "" {
		marks = ".)"
	}
	if strings.IndexByte(marks, text[len(digits)]) < 0 {
		return ""
	}
	return text[:len(digits)+1]
}

// isHeading reports whether a line is a heading that begins with #.
func isHeading(text string) bool {
	text = strings.TrimLeft(text, " ")
	level := leadingRun(text, '#')
	return 1 <= level && level <= 6 && (level == len(text) || text[level] == ' ' || text[level] == '\t')
}

// isThematicBreak reports whether a line is a rule: three or more of the same
// of - _ * and blanks.
func isThematicBreak(text string) bool {
	text = strings.TrimLeft(text, " \t")
	if text == "" || strings.IndexByte("-_*", text[0]) < 0 {
		return false
	}
	marks := strings.Count(text, text[:1])
	return marks >= 3 && marks+strings.Count(text, " ")+strings.Count(text, "\t") == len(text)
}

// isUnderline reports whether a line underlines the heading in front of it.
func isUnderline(text string) bool {
	text = strings.TrimSpace(text)
	return text != "" && (text[0] == '=' || text[0] == '-') && leadingRun(text, text[0]) == len(text)
}

// cursor walks over a line. Blanks are counted in columns, since a tab reaches
// to the next multiple of four and may belong to a container in part.
type cursor struct {
	body     string
	pos, end int
	column   int
}

// rest returns what is left of the line.
func (c *cursor) rest() string { return c.body[c.pos:c.end] }

// blank reports whether only blanks are left.
func (c *cursor) blank() bool { return strings.Trim(c.rest(), " \t") == "" }

// indent returns the columns of the blanks ahead.
func (c *cursor) indent() int {
	column := c.column
	for _, char := range []byte(c.rest()) {
		switch char {
		case ' ':
			column++
		case '\t':
			column += 4 - column%4
		default:
			return column - c.column
		}
	}
	return column - c.column
}

// skip walks over at most n columns of blanks.
func (c *cursor) skip(n int) {
	for n > 0 && c.pos < c.end {
		width := 1
		switch c.body[c.pos] {
		case ' ':
		case '\t':
			width = 4 - c.column%4
		default:
			return
		}
		if width <= n {
			c.pos++
		}
		c.column += min(width, n)
		n -= width
	}
}

// skipQuoteMark walks over the mark of a block quote, if it is ahead: up to
// three blanks, a > and a blank.
func (c *cursor) skipQuoteMark() bool {
	d := *c
	if d.indent() > 3 {
		return false
	}
	d.skip(3)
	if !strings.HasPrefix(d.rest(), ">") {
		return false
	}
	d.pos++
	d.column++
	d.skip(1)
	*c = d
	return true
}
