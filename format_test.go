package skillbay

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/llms"
)

// The States in testdata/state were written when format 1 was made, and are
// never written again: conversations of that day must decode for ever. A State
// of a newer kind becomes a new file.
var formatOne = map[string]struct {
	turn               int
	active, args, over string // of all launches; of all dismissals
	blocked            string // tools that the gate refuses in the State's turn
}{
	"new":        {},
	"answered":   {turn: 1, active: "shipping", args: "shipping="},
	"window":     {turn: 2, active: "shipping refund", args: "shipping= refund=A1 \"now\"", blocked: "Write Delete"},
	"dismissed":  {turn: 2, active: "refund policy", args: "refund=A1 \"now\" policy=for Alice", over: "shipping: the parcel arrived", blocked: "Write Delete"},
	"reinjected": {turn: 3, active: "refund policy", args: "refund=A1 \"now\" policy=for Alice", over: "shipping: the parcel arrived", blocked: "Write Delete"},
	"contested":  {turn: 4, active: "refund policy shipping", args: "refund=A1 \"now\" policy=for Alice shipping=", over: "shipping: the parcel arrived", blocked: "Read Write Delete"},
	"fork":       {turn: 3, active: "refund policy", args: "refund=A1 \"now\" policy=for Alice", over: "shipping: the parcel arrived", blocked: "Write Delete"},
}

func TestFormatOneDecodesForEver(t *testing.T) {
	files, err := filepath.Glob("testdata/state/format1-*.json")
	require.NoError(t, err)
	require.Len(t, files, len(formatOne), "every golden has its row")
	b := newBay(t, Config{KeepWindow: true}, map[string]string{
		"refund":   "---\ndescription: Refund an order\nallowed-tools: Read, Lookup(order:*), skill, Write\n---\nA later release, which allows more.\n",
		"shipping": "---\ndescription: Track a parcel\n---\nLook up the parcel with Read.\n",
		"policy":   "---\ndescription: House rules\nallowed-tools: Read\n---\nBe kind.\n",
	})
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "format1-"), ".json")
		t.Run(name, func(t *testing.T) {
			want, known := formatOne[name]
			require.True(t, known)
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			data = bytes.TrimSpace(data)
			st := new(State)
			require.NoError(t, st.UnmarshalJSON(data))
			assert.Equal(t, want.turn, st.Turn())
			assert.Equal(t, want.active, strings.Join(st.Active(), " "))
			var args, over []string
			for _, l := range st.Invoked() {
				args = append(args, l.Skill+"="+l.Args)
				assert.Equal(t, 2026, l.Time.Year())
				assert.Len(t, l.Digest, 64)
			}
			for _, d := range st.Dismissed() {
				over = append(over, d.Skill+": "+d.Reason)
			}
			assert.Equal(t, want.args, strings.Join(args, " "))
			assert.Equal(t, want.over, strings.Join(over, " "))

			again, err := st.MarshalJSON()
			require.NoError(t, err)
			assert.Equal(t, string(data), string(again))

			// Fields of a newer release of the same format are kept.
			newer := append(bytes.Clone(data[:len(data)-1]), `,"mood":{"calm":[1,2.50]}}`...)
			require.NoError(t, st.UnmarshalJSON(newer))
			again, err = st.MarshalJSON()
			require.NoError(t, err)
			assert.JSONEq(t, string(newer), string(again))
			assert.Contains(t, string(again), `{"calm":[1,2.50]}`, "as they came")

			// A newer format is refused, and the State stays what it was.
			require.ErrorIs(t, st.UnmarshalJSON(bytes.Replace(data, []byte(`"format":1`), []byte(`"format":2`), 1)), ErrState)
			unchanged, err := st.MarshalJSON()
			require.NoError(t, err)
			assert.Equal(t, string(again), string(unchanged))

			// The gate is armed as it was, whatever the release allows by now.
			ctx := WithState(context.Background(), st)
			var blocked []string
			for _, tool := range []string{"Read", "Write", "Delete"} {
				probe := st.copied(t)
				call := toolCall(tool, "{}")
				history := []llms.MessageContent{human("x"), {Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{call}}}
				ran := false
				_, err := b.CallTool(WithState(ctx, probe), history, call, func(context.Context, llms.ToolCall) (string, error) {
					ran = true
					return "", nil
				})
				require.NoError(t, err)
				if !ran {
					blocked = append(blocked, tool)
				}
			}
			assert.Equal(t, want.blocked, strings.Join(blocked, " "))
		})
	}
}

// copied is the State after a save and a load.
func (s *State) copied(t testing.TB) *State {
	t.Helper()
	data, err := s.MarshalJSON()
	require.NoError(t, err)
	c := new(State)
	require.NoError(t, c.UnmarshalJSON(data))
	return c
}
