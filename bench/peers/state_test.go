package peers

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/skillbay/skillbay"
)

// idleStates is how many conversations are decoded to measure one's memory.
const idleStates = 1000

// BenchmarkState is loading and saving a conversation with some of 10 skills
// active: its JSON in bytes, and its memory when nobody uses it.
func BenchmarkState(b *testing.B) {
	mw := loaded(b, limited(b, 10))
	for _, active := range []int{0, 1, 3, 8} {
		book, err := NewBook(mw, active)
		require.NoError(b, err)
		b.Run(fmt.Sprintf("decode/%d", active), func(b *testing.B) {
			run(b, book.Decode())
			idle, err := book.Idle(idleStates)
			require.NoError(b, err)
			b.ReportMetric(float64(len(book.JSON)), "json-bytes")
			b.ReportMetric(idle, "idle-bytes")
		})
		b.Run(fmt.Sprintf("encode/%d", active), func(b *testing.B) {
			encode, err := book.Encode()
			require.NoError(b, err)
			run(b, encode)
		})
	}
}

func TestBookHoldsTheActiveSkills(t *testing.T) {
	book, err := NewBook(loaded(t, limited(t, 10)), 3)
	require.NoError(t, err)
	st := new(skillbay.State)
	require.NoError(t, st.UnmarshalJSON(book.JSON))
	assert.Equal(t, []string{SkillName(0), SkillName(1), SkillName(2)}, st.Active())
	idle, err := book.Idle(idleStates)
	require.NoError(t, err)
	assert.Greater(t, idle, 100.0, "a State of no size was measured")
}
