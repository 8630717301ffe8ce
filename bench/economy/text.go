package economy

import (
	"math/rand/v2"
	"strconv"
	"strings"
)

// words are what texts are made of: plain business English, so that a real
// tokenizer finds the tokens that it finds in real messages.
var words = strings.Fields(`the a this that each every customer order account invoice parcel refund amount
date address carrier warehouse branch agent manager record system screen field form note reason policy rule limit
period week day month receipt photo label number status reference check confirm open close ask tell write send
receive wait return replace cancel approve decline escalate record explain offer promise before after when if
unless until without with for from into about under over only never always first then again also still already
not and or but was were is are has have had can may must should will would could it they we you our your their
new old missing damaged late early wrong correct full partial valid expired open closed paid unpaid`)

// prose writes English-looking sentences of exactly that many tokens, by the
// default count: four characters each.
func prose(r *rand.Rand, tokens int) string {
	var b strings.Builder
	for b.Len() < 4*tokens {
		for n, last := 0, 6+r.IntN(12); n <= last; n++ {
			word := words[r.IntN(len(words))]
			if n == 0 {
				word = strings.ToUpper(word[:1]) + word[1:]
			} else {
				b.WriteByte(' ')
			}
			b.WriteString(word)
		}
		b.WriteString(". ")
	}
	return strings.TrimSpace(b.String()[:4*tokens-1]) + "."
}

// steps writes a procedure of about that many tokens: numbered steps under a
// heading, as bodies of skills are.
func steps(r *rand.Rand, title string, tokens int) string {
	var b strings.Builder
	b.WriteString("# " + title + "\n")
	for n := 1; b.Len() < 4*tokens-200; n++ {
		b.WriteString("\n" + strconv.Itoa(n) + ". " + prose(r, 25+r.IntN(50)))
	}
	if left := tokens - (b.Len()+4)/4; left > 2 {
		b.WriteString("\n\n" + prose(r, left))
	}
	return b.String()
}
