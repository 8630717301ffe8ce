package skillbay

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// byteOrderMark is U+FEFF in UTF-8, which some editors put in front of a text.
const byteOrderMark = "\uFEFF"

// normalise makes of a SKILL.md's bytes the text that everything else works on:
// without one leading byte order mark, every line ended by LF alone, valid
// UTF-8. Invalid bytes become U+FFFD, one each, as ranging over a string does;
// no other encoding is guessed. UTF-16, NUL bytes and an empty file refuse the
// skill, and the text is then empty.
func normalise(raw []byte) (text string, notes []note) {
	refuse := func(format string, args ...any) (string, []note) {
		return "", []note{{severity: Refused, message: fmt.Sprintf(format, args...)}}
	}
	if bytes.HasPrefix(raw, []byte{0xFF, 0xFE}) || bytes.HasPrefix(raw, []byte{0xFE, 0xFF}) {
		return refuse("the file is UTF-16: save it as UTF-8")
	}
	if at := bytes.IndexByte(raw, 0); at >= 0 {
		return refuse("binary content: NUL byte at offset %d", at)
	}
	rest := bytes.TrimPrefix(raw, []byte(byteOrderMark))
	if len(rest) == 0 {
		return refuse("empty file")
	}
	if bytes.IndexByte(rest, '\r') < 0 && utf8.Valid(rest) {
		return string(rest), nil
	}

	var b strings.Builder
	b.Grow(len(rest) + len("\uFFFD"))
	bad, badAt, badLine := 0, 0, 0 // how many bytes are invalid; where the first stands
	line := 1
	for i := 0; i < len(rest); {
		r, size := utf8.DecodeRune(rest[i:])
		switch {
		case r == '\r':
			if i+1 < len(rest) && rest[i+1] == '\n' {
				size = 2
			}
			r = '\n'
		case r == utf8.RuneError && size == 1:
			if bad == 0 {
				badAt, badLine = len(raw)-len(rest)+i, line
			}
			bad++
		}
		if r == '\n' {
			line++
		}
		b.WriteRune(r)
		i += size
	}
	if bad > 0 {
		notes = append(notes, note{line: badLine, message: fmt.Sprintf(
			"invalid UTF-8 at byte offset %d (%d bytes in all), replaced by U+FFFD", badAt, bad)})
	}
	return b.String(), notes
}
