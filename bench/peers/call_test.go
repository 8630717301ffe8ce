package peers

import (
	"fmt"
	"testing"

	"github.com/skillbay/skillbay"
	"github.com/stretchr/testify/require"
)

// BenchmarkCall is what one model call costs with 100 skills. The floor copies
// the slice of 200 messages.
func BenchmarkCall(b *testing.B) {
	b.Run("floor", func(b *testing.B) { run(b, CopyMessages(talk(b, plain(b, 100), callMessages).History())) })
	for _, p := range All() {
		served, err := p.Open(plain(b, 100))
		require.NoError(b, err)
		b.Run(p.Name, func(b *testing.B) { run(b, served.CallOp()) })
		for _, beside := range served.Beside {
			b.Run(p.Name+"-"+beside.Name, func(b *testing.B) { run(b, beside.Op) })
		}
	}
}

// BenchmarkHistory is skillbay's Call with more and fewer messages.
func BenchmarkHistory(b *testing.B) {
	for _, n := range []int{10, 200, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := talk(b, limited(b, 100), n)
			run(b, c.BeforeModel())
			perCall := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
			b.ReportMetric(perCall/float64(n), "ns/message")
			b.ReportMetric(perCall/(float64(c.Bytes())/1024), "ns/KiB")
		})
	}
}

// BenchmarkCatalog is skillbay's Call with more skills, and 200 messages.
func BenchmarkCatalog(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { run(b, talk(b, limited(b, n), callMessages).BeforeModel()) })
	}
}

func talk(t testing.TB, tree Tree, messages int) *Conversation {
	t.Helper()
	c, err := Talk(loaded(t, tree), messages)
	require.NoError(t, err)
	return c
}

func loaded(t testing.TB, tree Tree) *skillbay.Middleware {
	t.Helper()
	mw, err := NewMiddleware(tree)
	require.NoError(t, err)
	return mw
}
