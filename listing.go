package skillbay

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// minListingBudget is the least number of tokens for the skills' lines,
	// however small the context window.
	minListingBudget = 100
	// maxListed is the most characters of one description in the listing.
	maxListed = 250
	// minListed is the fewest characters to which descriptions are cut. A
	// shorter piece tells a model less than it costs: then only names remain.
	minListed = 20
	// longestJoined is how many characters a cut goes back to spare something
	// that is read as one. Families of emoji and flags have at most eleven.
	longestJoined = 16
)

// listing is what the model is told of all skills, with one set of them
// visible. It is immutable; the zero listing tells nothing.
type listing struct {
	text  string   // the introductory line and the skills' lines; empty: nothing to tell
	names []string // the skills named in text, in its order
	diag  string   // what was shortened or left out; empty: nothing was
}

// buildListing makes the listing of skills, which are in name order and all
// visible. Those with disable-model-invocation are left out.
//
// The skills' lines take at most 1% of contextWindow tokens, but never have
// less than minListingBudget. These steps are tried until one fits:
//
//  1. whole descriptions, of at most maxListed characters each;
//  2. the longest descriptions cut to one common length, the greatest that
//     fits: what a short one does not need goes to the long ones;
//  3. names only, when that length is under minListed;
//  4. as many names as fit, and a line with the number of the others.
//
// A count of a user's tokenizer need not grow with the text. A text is
// therefore used only after it was itself counted and fits; if nothing does,
// the listing is empty.
func buildListing(skills []*frozen, t *Texts, contextWindow int, count func(string) int) listing {
	l := lister{
		more:   t.ListingMore,
		budget: max(contextWindow/100, minListingBudget),
		count:  count,
	}
	for _, s := range skills {
		if !s.DisableModelInvocation {
			l.entries = append(l.entries, newListed(s))
		}
	}
	total := len(l.entries)
	if total == 0 {
		return listing{}
	}

	d, ok := l.described(maxListed)
	if !ok {
		d, ok = greatest(minListed, maxListed-1, l.described)
	}
	if !ok {
		d, ok = l.named(total)
	}
	if !ok {
		d, ok = greatest(0, total-1, l.named)
	}

	var out listing
	if ok {
		out.text = defuse(t.ListingIntro + "\n" + d.lines)
		for _, e := range l.entries[:d.listed] {
			out.names = append(out.names, e.name)
		}
	}
	if d.shortened > 0 || d.listed < total {
		out.diag = fmt.Sprintf("listing: total %d, shortened %d, omitted %d, budget %d, used %d tokens",
			total, d.shortened, total-d.listed, l.budget, d.tokens)
	}
	return out
}

// listed is a skill as the listing may show it.
type listed struct {
	name  string
	about string // the description, ready to show; at most maxListed characters
	cut   bool   // about is not the whole description
}

func newListed(s *frozen) listed {
	about := singleLine(s.Description)
	if when := singleLine(s.WhenToUse); about == "" {
		about = when
	} else if when != "" {
		about += " - " + when
	}
	about = defuse(about)
	short := ellipsize(about, maxListed)
	return listed{name: s.Name, about: short, cut: short != about}
}

// draft is one attempt at the skills' lines.
type draft struct {
	lines     string
	tokens    int
	listed    int // skills that have a line
	shortened int // skills whose line lacks a part of the description
}

// lister makes drafts and counts them against the budget.
type lister struct {
	entries []listed
	more    string // Texts.ListingMore
	budget  int    // tokens
	count   func(string) int
}

// described drafts a line for every skill, its description cut to length
// characters. It returns false when that is over the budget.
func (l *lister) described(length int) (draft, bool) {
	d := draft{listed: len(l.entries)}
	ok := l.fits(&d, len(l.entries), func(i int) string {
		e := l.entries[i]
		about := ellipsize(e.about, length)
		if e.cut || about != e.about {
			d.shortened++
		}
		if about == "" {
			return "- " + e.name
		}
		return "- " + e.name + ": " + about
	})
	return d, ok
}

// named drafts the names of the first n skills and, if those are not all, the
// line with the number of the others. It returns false when that is over the
// budget.
func (l *lister) named(n int) (draft, bool) {
	d := draft{listed: n}
	lines := n
	if n < len(l.entries) {
		lines++
	}
	ok := l.fits(&d, lines, func(i int) string {
		if i == n {
			return fill(l.more, "count", strconv.Itoa(len(l.entries)-n))
		}
		if l.entries[i].about != "" {
			d.shortened++
		}
		return "- " + l.entries[i].name
	})
	return d, ok
}

// fits puts n lines into d, or returns false when they are over the budget. It
// stops at the first line too many, so that ten thousand skills cost no more
// than the lines that fit.
//
// The lines are counted one by one, since a host may add them up, and in the
// end all together, as they are sent.
func (l *lister) fits(d *draft, n int, line func(int) string) bool {
	var lines strings.Builder
	sum := 0
	for i := range n {
		text := line(i) + "\n"
		tokens := l.tokens(text)
		if tokens > l.budget-sum {
			return false
		}
		sum += tokens
		lines.WriteString(text)
	}
	d.lines = defuse(strings.TrimSuffix(lines.String(), "\n"))
	whole := l.tokens(d.lines)
	d.tokens = max(sum, whole)
	return whole <= l.budget
}

// tokens counts s. No text takes less than one token: where the counter says
// so, the default count stands in for it.
func (l *lister) tokens(s string) int {
	if n := l.count(s); n > 0 {
		return n
	}
	return defaultTokens(s)
}

// greatest returns the draft of the greatest number from low to high that fits,
// found by bisection. Where fitting is no question of size it may miss the
// greatest, but it never returns a draft that does not fit.
func greatest(low, high int, try func(int) (draft, bool)) (best draft, found bool) {
	for low <= high {
		mid := low + (high-low)/2
		if d, ok := try(mid); ok {
			best, found = d, true
			low = mid + 1
		} else {
			high = mid - 1
		}
	}
	return best, found
}

// defaultTokens estimates the tokens of s: four ASCII characters are one token,
// begun ones included, and every other character is one. It errs on the high
// side for the scripts that tokenizers split finely.
func defaultTokens(s string) int {
	ascii, other := 0, 0
	for _, r := range s {
		if r < utf8.RuneSelf {
			ascii++
		} else {
			other++
		}
	}
	return (ascii+3)/4 + other
}

// singleLine returns s as one line that shows what it holds: line breaks,
// control characters and blanks become single blanks, and characters that
// reorder or hide text go. What writing needs stays: joiners (U+200C, U+200D)
// and the tag characters of a well-formed flag.
func singleLine(s string) string {
	out := make([]byte, 0, len(s))
	blank := false
	for at := 0; at < len(s); {
		r, size := utf8.DecodeRuneInString(s[at:])
		at += size
		switch {
		case r > ' ' && r < unicode.MaxASCII: // shown as it is: nearly every character
		case unicode.IsSpace(r), unicode.IsControl(r):
			blank = true
			continue
		case isTag(r), isBidiControl(r):
			continue
		}
		if blank && len(out) > 0 {
			out = append(out, ' ')
		}
		blank = false
		out = utf8.AppendRune(out, r)
		if r == blackFlag {
			tags := flagTags(s[at:])
			out = append(out, tags...)
			at += len(tags)
		}
	}
	return string(out)
}

const (
	blackFlag = '\U0001F3F4' // the base of a subdivision's flag
	cancelTag = '\U000E007F' // ends a tag sequence
)

// flagTags returns the tag characters with which s begins, if after a black
// flag they name a subdivision: two letters for the country, one to four
// letters or digits, the end (UTS #51, annex C). Otherwise it returns "".
//
// The rule is strict because tag characters are invisible to people and legible
// to models: anything longer could carry a text.
func flagTags(s string) string {
	n := 0
	for i, r := range s {
		switch {
		case r == cancelTag && n >= 3:
			return s[:i+utf8.RuneLen(r)]
		case n == 6:
			return ""
		case r >= 0xE0061 && r <= 0xE007A: // a to z
		case n >= 2 && r >= 0xE0030 && r <= 0xE0039: // 0 to 9
		default:
			return ""
		}
		n++
	}
	return ""
}

// isTag reports whether r is one of Unicode's tag characters.
func isTag(r rune) bool { return r >= 0xE0000 && r <= cancelTag }

// isBidiControl reports whether r embeds, overrides or isolates a direction.
// The marks U+200E, U+200F and U+061C reorder no other text and are not meant.
func isBidiControl(r rune) bool {
	return r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069
}

// ellipsize returns s if it has at most limit characters, and otherwise its
// beginning and "…", together at most limit characters. It cuts between
// characters that are read apart wherever that takes no more than longestJoined
// of them. Limit is greater than longestJoined.
func ellipsize(s string, limit int) string {
	if len(s) <= limit {
		return s // no more characters than bytes
	}
	end, n := 0, 0
	for i := range s {
		if n == limit-1 {
			end = i
		}
		n++
		if n > limit {
			break
		}
	}
	if n <= limit {
		return s
	}
	for cut, back := end, 0; back < longestJoined; back++ {
		if !readAsOne(s[:cut], s[cut:]) {
			end = cut
			break
		}
		_, size := utf8.DecodeLastRuneInString(s[:cut])
		cut -= size
	}
	return strings.TrimRight(s[:end], " …") + "…"
}

// readAsOne reports whether the last character of before and the first of after
// are read as one: an approximation of the grapheme clusters of UAX #29 that
// errs towards keeping together.
func readAsOne(before, after string) bool {
	const zeroWidthNonJoiner, zeroWidthJoiner = '\u200C', '\u200D'
	prev, _ := utf8.DecodeLastRuneInString(before)
	next, _ := utf8.DecodeRuneInString(after)
	switch {
	case prev == zeroWidthJoiner, next == zeroWidthJoiner, next == zeroWidthNonJoiner:
		return true
	case unicode.Is(unicode.M, next), isTag(next):
		return true
	case next >= 0x1F3FB && next <= 0x1F3FF: // skin tones
		return true
	case next >= 0x1160 && next <= 0x11FF: // the later parts of a Hangul syllable
		return true
	}
	return unicode.Is(unicode.Regional_Indicator, next) && regionalIndicators(before)%2 == 1
}

// regionalIndicators counts the regional indicators at the end of s. Two of
// them are one flag.
func regionalIndicators(s string) int {
	n := 0
	for {
		r, size := utf8.DecodeLastRuneInString(s)
		if !unicode.Is(unicode.Regional_Indicator, r) {
			return n
		}
		s = s[:len(s)-size]
		n++
	}
}
