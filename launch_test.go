package skillbay

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A ctx that ends while shell blocks run ends the launch with its error: half
// an output is no part of a skill, and nothing is recorded.
func TestLaunchEndsWithItsContext(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("needs bash")
	}
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "slow"), 0o755))
	body := "---\ndescription: d\n---\nRates: !`sleep 20; echo high`\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "slow", "SKILL.md"), []byte(body), 0o600))
	b := newBay(t, Config{Skills: []Source{Dir(dir)}, EnableShellBlocks: true}, nil)
	st := NewState()
	ctx, cancel := context.WithTimeout(WithState(context.Background(), st), 100*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, b.Invoke(ctx, "slow", ""), context.DeadlineExceeded)
	assert.Empty(t, st.Active())
	assert.Empty(t, b.types())
}
