package main

import (
	"strings"
	"unicode"
)

// shared counts the words that two texts have in common. Words are cut to six
// letters, which makes "refund" of "refunds"; of Chinese, pairs of characters
// are taken. Words that say nothing do not count.
func (m scripted) shared(a, b string) int {
	other := m.terms(b)
	n := 0
	for term := range m.terms(a) {
		if other[term] {
			n++
		}
	}
	return n
}

// terms returns the words of a text for shared.
func (m scripted) terms(text string) map[string]bool {
	found := map[string]bool{}
	add := func(term string) {
		if !m.words.empty[term] {
			found[term] = true
		}
	}
	split := func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) }
	for _, word := range strings.FieldsFunc(strings.ToLower(text), split) {
		letters := []rune(word)
		switch {
		case unicode.Is(unicode.Han, letters[0]):
			for i := range len(letters) - 1 {
				add(string(letters[i : i+2]))
			}
		case len(letters) >= 3:
			add(string(letters[:min(6, len(letters))]))
		}
	}
	return found
}
