// Package o200k counts tokens with OpenAI's o200k vocabulary, which its module
// carries along: nothing is loaded at run time. It is apart from economy so
// that only those who count with it link the vocabulary.
package o200k

import (
	"github.com/tiktoken-go/tokenizer"
)

// Counter is an economy.Counter. It remembers every text it counted, since
// conversations send theirs again and again. It is not safe for concurrent use.
type Counter struct {
	codec tokenizer.Codec
	known map[string][]uint
}

// New returns a Counter, or the tokenizer's error.
func New() (*Counter, error) {
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		return nil, err
	}
	return &Counter{codec: codec, known: map[string][]uint{}}, nil
}

// Count is the number of tokens of s.
func (c *Counter) Count(s string) int { return len(c.tokens(s)) }

// Common is how many of a's first tokens b begins with too.
func (c *Counter) Common(a, b string) int {
	x, y := c.tokens(a), c.tokens(b)
	n := 0
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	return n
}

func (c *Counter) tokens(s string) []uint {
	tokens, ok := c.known[s]
	if !ok {
		var err error
		if tokens, _, err = c.codec.Encode(s); err != nil {
			panic(err) // a fault of the vocabulary: every text has an encoding
		}
		c.known[s] = tokens
	}
	return tokens
}
