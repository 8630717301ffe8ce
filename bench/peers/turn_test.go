package peers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// BenchmarkTurn is a turn of langchaingo's executor with a model that does
// nothing and one tool call; with skillbay there are 100 skills.
func BenchmarkTurn(b *testing.B) {
	b.Run("bare", func(b *testing.B) { run(b, BareTurn().Run()) })
	mw := loaded(b, limited(b, 100))
	b.Run("skillbay", func(b *testing.B) {
		turn, err := NewTurn(mw)
		require.NoError(b, err)
		run(b, turn.Run())
	})
	b.Run("skillbay-active", func(b *testing.B) {
		turn, err := NewActiveTurn(mw)
		require.NoError(b, err)
		run(b, turn.Run())
	})
}

func TestTurns(t *testing.T) {
	mw := loaded(t, limited(t, 10))
	turn, err := NewTurn(mw)
	require.NoError(t, err)
	active, err := NewActiveTurn(mw)
	require.NoError(t, err)
	for name, turn := range map[string]*Turn{"bare": BareTurn(), "skillbay": turn, "active": active} {
		for range 3 {
			assert.NoError(t, turn.Run()(), name)
		}
	}
}
