package peers

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every peer does what its row says: it loads all skills, shows the model a list
// with each of them, and delivers the body that was asked for.
func TestPeersServe(t *testing.T) {
	tree := plain(t, 20)
	for _, p := range All() {
		t.Run(p.Name, func(t *testing.T) {
			served, err := p.Open(tree)
			require.NoError(t, err)
			list, err := served.Call()
			require.NoError(t, err)
			for i := range tree.Skills {
				assert.Contains(t, list, SkillName(i))
				assert.Contains(t, list, fmt.Sprintf("requests of kind %d,", i))
			}
			body, err := served.Body(SkillName(7))
			require.NoError(t, err)
			want := strings.TrimSpace(Body(7))
			if !strings.Contains(body, want) && !strings.Contains(body, inJSON(t, want)) {
				t.Errorf("the body of %s is not in %q", SkillName(7), body)
			}
			assert.NotContains(t, body, "kind 8", "another skill's body")
			for _, beside := range served.Beside {
				assert.NoError(t, beside.Op(), beside.Name)
			}
			again, err := served.Call()
			require.NoError(t, err)
			assert.Len(t, again, len(list), "a second call gets the list as well")
		})
	}
}

// inJSON is text as it stands inside a JSON string.
func inJSON(t *testing.T, text string) string {
	t.Helper()
	data, err := json.Marshal(text)
	require.NoError(t, err)
	return string(data[1 : len(data)-1])
}

// A row about fewer skills than it says is no row.
func TestLoadOpCountsSkills(t *testing.T) {
	tree := plain(t, 20)
	tree.Skills = 21
	for _, p := range All() {
		if p.Name == "genkit" || p.Name == "trpc" {
			continue // on trust while measuring: see their adapters, and TestPeersServe
		}
		assert.ErrorContains(t, p.LoadOp(tree)(), "20 skills of 21", p.Name)
	}
}

// cagent's load needs a home and a working directory; neither stays changed.
func TestLoadRestoresSurroundings(t *testing.T) {
	t.Setenv("HOME", filepath.Join(string(filepath.Separator), "somewhere"))
	before, err := os.Getwd()
	require.NoError(t, err)
	require.NoError(t, Named("cagent").LoadOp(plain(t, 20))())
	after, err := os.Getwd()
	require.NoError(t, err)
	assert.Equal(t, before, after)
	assert.Equal(t, filepath.Join(string(filepath.Separator), "somewhere"), os.Getenv("HOME"))
}

// The measured conversation has three active skills, and nothing has to be put
// back into it: their bodies are visible where they were launched.
func TestTalk(t *testing.T) {
	for _, n := range []int{10, 200} {
		c := talk(t, limited(t, 20), n)
		assert.Len(t, c.History(), n)
		assert.Len(t, c.state.Active(), callActive)
		sent, err := c.mw.BeforeModel(c.ctx, c.history)
		require.NoError(t, err)
		assert.Len(t, sent, n)
		assert.Contains(t, firstText(sent), SkillName(19))
		for i := range callActive {
			assert.Equal(t, 1, strings.Count(textOf(sent), strings.TrimSpace(Body(i))), SkillName(i))
		}
	}
}

func TestForest(t *testing.T) {
	tree := plain(t, 20)
	entries, err := os.ReadDir(tree.Dir)
	require.NoError(t, err)
	assert.Len(t, entries, 20)
	assert.InDelta(t, 2048, len(Body(7)), 64)
	again := plain(t, 20)
	assert.Equal(t, tree, again)
	assert.NotEqual(t, tree.Dir, limited(t, 20).Dir)
}
