//go:build unix

package skillbay

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// within fails the test when f does not return soon: an open of a named pipe
// waits for a writer that never comes.
func within(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("it hangs")
	}
}

func pipe(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, syscall.Mkfifo(name, 0o644))
}

func TestLoadOpensOnlyRegularFiles(t *testing.T) {
	t.Run("di-17: a named pipe called SKILL.md", func(t *testing.T) {
		root := files{"a/x": "", "ok/SKILL.md": plainSkill}.write(t)
		pipe(t, filepath.Join(root, "a", skillFile))
		within(t, func() {
			skills, diags := mustLoad(t, Dir(root))
			assert.Equal(t, []string{"ok"}, skillNames(skills))
			d := requireOne(t, diags, "a")
			assert.Equal(t, Refused, d.Severity)
			assert.Contains(t, d.Message, "named pipe")
		})
	})
	t.Run("a link to a named pipe called SKILL.md", func(t *testing.T) {
		root := files{"a/x": ""}.write(t)
		pipe(t, filepath.Join(root, "a", "pipe"))
		link(t, "pipe", filepath.Join(root, "a", skillFile))
		within(t, func() {
			skills, diags := mustLoad(t, Dir(root))
			assert.Empty(t, skills)
			assert.Len(t, about(diags, "a"), 2)
		})
	})
	t.Run("other files, and loose ones", func(t *testing.T) {
		root := files{"a/SKILL.md": plainSkill, "a/x.md": "x"}.write(t)
		pipe(t, filepath.Join(root, "a", "pipe"))
		pipe(t, filepath.Join(root, "loose"))
		listener, err := net.Listen("unix", filepath.Join(root, "a", "s"))
		if err != nil {
			t.Skipf("no socket can be made here: %v", err)
		}
		defer func() { _ = listener.Close() }()
		within(t, func() {
			skills, diags := mustLoad(t, Dir(root))
			require.Equal(t, []string{"a"}, skillNames(skills))
			assert.Equal(t, []string{"x.md"}, skills[0].Files)
			require.Len(t, diags, 2)
			assert.Contains(t, diags[0].Message, "named pipe")
			assert.Contains(t, diags[1].Message, "socket")
		})
	})
	t.Run("a device", func(t *testing.T) {
		root := files{"a/SKILL.md": plainSkill}.write(t)
		if err := syscall.Mknod(filepath.Join(root, "a", "null"), syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
			t.Skipf("no device can be made by this user: %v", err)
		}
		_, diags := mustLoad(t, Dir(root))
		assert.Contains(t, requireOne(t, diags, "a").Message, "device")
	})
	t.Run("a source, and a link to one", func(t *testing.T) {
		root := files{"skills/.keep": ""}.write(t)
		pipe(t, filepath.Join(root, "pipe"))
		link(t, "../pipe", filepath.Join(root, "skills/linked"))
		within(t, func() {
			_, _, err := load([]Source{Dir(filepath.Join(root, "pipe"))}, roomy)
			assert.ErrorIs(t, err, ErrSource)
			_, diags := mustLoad(t, Dir(filepath.Join(root, "skills")))
			assert.Contains(t, requireOne(t, diags, "linked").Message, "does not lead to a directory")
		})
	})
	t.Run("put in a file's place after the listing", func(t *testing.T) {
		root := files{"a/SKILL.md": plainSkill}.write(t)
		f, err := openDisk(filepath.Join(root, "a"))
		require.NoError(t, err)
		defer f.close()
		pipe(t, filepath.Join(root, "a", "late"))
		within(t, func() {
			_, _, err := newReader().contents(f, "late", maxFileBytes)
			assert.ErrorContains(t, err, "named pipe")
		})
	})
	t.Run("put in a directory's place after the listing", func(t *testing.T) {
		root := files{"a/x": ""}.write(t)
		pipe(t, filepath.Join(root, "late"))
		within(t, func() {
			_, err := openDisk(filepath.Join(root, "late"))
			assert.Error(t, err)
		})
	})
}
