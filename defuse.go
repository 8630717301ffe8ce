package skillbay

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// reminderLetters are the letters of a system-reminder tag. What stands
// between them, the hyphen included, is filler.
const reminderLetters = "systemreminder"

// defuse returns s with the `<` of everything that reads as a system-reminder
// tag written `&lt;`, so that nobody but skillbay speaks as the system. Nothing
// else changes, defusing twice changes nothing more, and a text without such a
// tag is returned as it is, without an allocation.
//
// A tag is a `<`, slashes if it closes, and the letters of "system-reminder" in
// any case, with filler anywhere between them. What follows the letters does
// not matter: to a model a tag with attributes, or one that is cut off, reads
// the same.
//
// Two texts that are harmless apart can make a tag where they meet, so joined
// texts are defused after they are joined.
func defuse(s string) string {
	tag := nextTag(s)
	if tag < 0 {
		return s
	}
	var out strings.Builder
	for ; tag >= 0; tag = nextTag(s) {
		out.WriteString(s[:tag])
		out.WriteString("&lt;")
		s = s[tag+1:]
	}
	out.WriteString(s)
	return out.String()
}

// tagged reports whether defuse would change the text.
func tagged(text string) bool { return nextTag(text) >= 0 }

// nextTag is where the first tag of s begins, or -1.
func nextTag(s string) int {
	for at := 0; ; {
		open := strings.IndexByte(s[at:], '<')
		if open < 0 {
			return -1
		}
		at += open + 1
		if startsReminder(s[at:]) {
			return at - 1
		}
	}
}

// startsReminder reports whether s, the text after a `<`, goes on as a
// system-reminder tag does. It reads no further than the next `<`, so defusing
// takes time in proportion to the text.
func startsReminder(s string) bool {
	found := 0
	for _, r := range s {
		switch {
		case foldsTo(r, reminderLetters[found]):
			found++
			if found == len(reminderLetters) {
				return true
			}
		case isTagFiller(r):
		case found == 0 && (r == '/' || r == '\\'): // JSON may write `<\/`
		default:
			return false
		}
	}
	return false
}

// foldsTo reports whether r is letter, which is lower-case ASCII, in any case:
// Unicode's long s (ſ) and Turkish i (ı, İ) included.
func foldsTo(r rune, letter byte) bool {
	if r < utf8.RuneSelf {
		return byte(r)|0x20 == letter
	}
	return unicode.ToLower(unicode.ToUpper(r)) == rune(letter)
}

// tagFillers are the characters beyond ASCII that a reader does not see, or
// sees as a gap: blanks, controls, formats (zero-width, bidi and tag characters
// among them), marks (variation selectors among them), and every kind of dash
// and underscore.
var tagFillers = []*unicode.RangeTable{
	unicode.White_Space, unicode.Cc, unicode.Cf, unicode.Mn, unicode.Me, unicode.Pc,
	unicode.Dash, unicode.Other_Default_Ignorable_Code_Point,
}

// isTagFiller reports whether r may stand between the letters of a tag. A byte
// that is no UTF-8 counts, since a provider may drop it.
func isTagFiller(r rune) bool {
	if r < utf8.RuneSelf {
		return r <= ' ' || r == '-' || r == '_' || r == 0x7f
	}
	return r == utf8.RuneError || unicode.In(r, tagFillers...)
}
