package skillbay

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNormalise(t *testing.T) {
	tests := map[string]struct {
		raw     string
		text    string
		refused string // part of the message
		badAt   int    // offset of the first invalid byte; -1: none
	}{
		"plain":                         {"a\nb", "a\nb", "", -1},
		"one BOM is dropped":            {"\uFEFFa", "a", "", -1},
		"only one":                      {"\uFEFF\uFEFFa", "\uFEFFa", "", -1},
		"a BOM in the middle stays":     {"a\uFEFFb", "a\uFEFFb", "", -1},
		"CRLF":                          {"a\r\nb\r\n", "a\nb\n", "", -1},
		"CR":                            {"a\rb\r", "a\nb\n", "", -1},
		"CR CR LF is two line ends":     {"a\r\r\nb", "a\n\nb", "", -1},
		"LF CR is two line ends":        {"a\n\rb", "a\n\nb", "", -1},
		"other line breaks stay":        {"a\u2028b\u0085c\vd", "a\u2028b\u0085c\vd", "", -1},
		"se-12: joiners and flags stay": {"👨\u200D👩 \u200C 🏴\U000E0067\U000E007F", "👨\u200D👩 \u200C 🏴\U000E0067\U000E007F", "", -1},
		"invalid byte":                  {"a\xe9b", "a\uFFFDb", "", 1},
		"two invalid bytes":             {"\xa1\xaa", "\uFFFD\uFFFD", "", 0},
		"cut at the end":                {"ab\xe2\x82", "ab\uFFFD\uFFFD", "", 2},
		"surrogate half":                {"\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD", "", 0},
		"overlong":                      {"\xc0\xaf", "\uFFFD\uFFFD", "", 0},
		"a real U+FFFD is no fault":     {"a\uFFFD\r\n", "a\uFFFD\n", "", -1},
		"the offset counts a BOM":       {"\uFEFFa\xff", "a\uFFFD", "", 4},
		"and both bytes of CRLF":        {"\r\n\xff", "\n\uFFFD", "", 2},
		"empty":                         {"", "", "empty file", -1},
		"only a BOM":                    {"\uFEFF", "", "empty file", -1},
		"NUL":                           {"a\x00", "", "binary content: NUL byte at offset 1", -1},
		"UTF-16, little endian":         {"\xff\xfea\x00", "", "UTF-16", -1},
		"UTF-16, big endian":            {"\xfe\xff\x00a", "", "UTF-16", -1},
		"UTF-16 without a BOM":          {"a\x00b\x00", "", "binary content", -1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			text, notes := normalise([]byte(test.raw))
			assert.Equal(t, test.text, text)
			switch {
			case test.refused != "":
				require.Len(t, notes, 1)
				assert.Equal(t, Refused, notes[0].severity)
				assert.Contains(t, notes[0].message, test.refused)
			case test.badAt >= 0:
				require.Len(t, notes, 1)
				assert.Equal(t, Warning, notes[0].severity)
				assert.Contains(t, notes[0].message, fmt.Sprintf("at byte offset %d ", test.badAt))
				assert.Equal(t, 1+strings.Count(text[:strings.Index(text, "\uFFFD")], "\n"), notes[0].line)
			default:
				assert.Empty(t, notes)
			}
		})
	}
}

// FuzzNormalise: the text is valid UTF-8 with LF line ends and no NUL byte;
// what is refused has no text; normalising twice changes nothing; the invalid
// bytes are the only new U+FFFD.
func FuzzNormalise(f *testing.F) {
	for _, seed := range []string{"", "a\r\n\rb", "\uFEFF\uFEFF", "\xff\xfe", "a\x00", "caf\xe9 \xa1\xaa", "\xed\xa0\x80\uFFFD"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		text, notes := normalise(raw)
		require.Equal(t, before, raw, "the input is not changed")
		if len(notes) > 0 && notes[0].severity == Refused {
			require.Empty(t, text)
			return
		}
		require.NotEmpty(t, text)
		require.True(t, utf8.ValidString(text))
		require.False(t, strings.ContainsAny(text, "\r\x00"))
		invalid := 0
		for rest := raw; len(rest) > 0; {
			r, size := utf8.DecodeRune(rest)
			if r == utf8.RuneError && size == 1 {
				invalid++
			}
			rest = rest[size:]
		}
		require.Equal(t, invalid > 0, len(notes) == 1)
		require.Equal(t, bytes.Count(raw, []byte("\uFFFD"))+invalid, strings.Count(text, "\uFFFD"))
		if !strings.HasPrefix(text, byteOrderMark) {
			again, notes := normalise([]byte(text))
			require.Equal(t, text, again)
			require.Empty(t, notes)
		}
	})
}
