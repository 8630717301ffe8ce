package peers

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// BenchmarkGate is one allowed tool call under three launched skills, on both
// ways, each beside the same call without skillbay.
func BenchmarkGate(b *testing.B) {
	for _, n := range []int{10, 5000} {
		g := gate(b, n)
		b.Run(fmt.Sprintf("call/%d", n), func(b *testing.B) { run(b, g.CallTool()) })
	}
	g := gate(b, 10)
	b.Run("call-bare", func(b *testing.B) { run(b, g.BareCall()) })
	b.Run("tool", func(b *testing.B) { run(b, g.Tool()) })
	b.Run("tool-bare", func(b *testing.B) { run(b, g.BareTool()) })
}

func gate(t testing.TB, n int) *Gate {
	t.Helper()
	g, err := NewGate(loaded(t, limited(t, 10)), n)
	require.NoError(t, err)
	return g
}

// The measured conversation is one in which the gate has something to decide.
func TestGateIsInForce(t *testing.T) {
	for _, n := range []int{10, 50} {
		g := gate(t, n)
		assert.Len(t, g.talk.history, n)
		for name, op := range map[string]Op{"tool": g.Tool(), "call": g.CallTool(), "bare tool": g.BareTool(), "bare call": g.BareCall()} {
			require.NoError(t, op(), "%s with %d messages", name, n)
		}
		g.call = toolCall("read", "Write", gatedInput)
		g.talk.history[n-1] = answer(g.call)
		err := g.CallTool()()
		require.Error(t, err, "%d messages", n)
		assert.Contains(t, err.Error(), "Write was not run")
	}
	g := gate(t, 10)
	wrapped, err := g.talk.mw.WrapTools(writeTool{})
	require.NoError(t, err)
	text, err := wrapped[0].Call(g.direct, gatedInput)
	require.NoError(t, err)
	assert.Contains(t, text, "Write was not run")
}

// writeTool is a tool that no skill of the trees allows.
type writeTool struct{ readTool }

func (writeTool) Name() string { return "Write" }
