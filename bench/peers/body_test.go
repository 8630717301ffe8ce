package peers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkBody is one skill's body, of 100 skills. For skillbay it is a launch
// in a new conversation.
func BenchmarkBody(b *testing.B) {
	for _, p := range All() {
		served, err := p.Open(plain(b, 100))
		require.NoError(b, err)
		b.Run(p.Name, func(b *testing.B) { run(b, served.BodyOp(SkillName(42))) })
	}
}
