package skillbay

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// roomy are the limits of a default Config.
var roomy = limits{bodyTokens: 100_000, reinjectTokens: 25_000, count: defaultTokens}

// skillText is a small valid SKILL.md.
func skillText(description, body string) string {
	return "---\ndescription: " + description + "\n---\n" + body
}

// plainSkill is the SKILL.md of skills whose contents do not matter.
var plainSkill = skillText("d", "Body\n")

// files is a tree: contents by slash-separated path.
type files map[string]string

// write makes the tree on disk, in a directory that is returned.
func (f files) write(t testing.TB) string {
	t.Helper()
	// Resolved, so that expected paths are right where the temporary directory
	// is itself a link.
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for name, text := range f {
		file := filepath.Join(root, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	return root
}

// mapFS makes the tree an fs.FS.
func (f files) mapFS() fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range f {
		m[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return m
}

// link makes a symbolic link, or skips where that is not possible.
func link(t testing.TB, target, name string) {
	t.Helper()
	if err := os.Symlink(filepath.FromSlash(target), name); err != nil {
		t.Skipf("symbolic links cannot be made here: %v", err)
	}
}

// mustLoad loads the sources under roomy limits.
func mustLoad(t testing.TB, sources ...Source) ([]*frozen, []Diagnostic) {
	t.Helper()
	skills, diags, err := load(sources, roomy)
	require.NoError(t, err)
	return skills, diags
}

// loadOne loads the sources, which hold one skill and are all in order.
func loadOne(t testing.TB, sources ...Source) *frozen {
	t.Helper()
	skills, diags := mustLoad(t, sources...)
	require.Empty(t, diags)
	require.Len(t, skills, 1)
	return skills[0]
}

func skillNames(skills []*frozen) []string {
	names := []string{}
	for _, s := range skills {
		names = append(names, s.Name)
	}
	return names
}

// about returns the diagnostics of one skill.
func about(diags []Diagnostic, skill string) []Diagnostic {
	var found []Diagnostic
	for _, d := range diags {
		if d.Skill == skill {
			found = append(found, d)
		}
	}
	return found
}

// requireOne asserts that exactly one diagnostic is about the skill, and
// returns it.
func requireOne(t testing.TB, diags []Diagnostic, skill string) Diagnostic {
	t.Helper()
	found := about(diags, skill)
	require.Len(t, found, 1, "diagnostics about %q, all: %v", skill, diags)
	return found[0]
}

func TestLoadReadsASkillWhole(t *testing.T) {
	tree := files{
		"refund/SKILL.md":             "---\ndescription: Refunds\nallowed-tools: Lookup, Refund\n---\nLook up first.\n",
		"refund/references/limits.md": "Up to 200.\r\n",
		"refund/assets/logo.png":      "\x89PNG\x00\xff",
		"refund/assets.md":            "before assets/, as paths sort",
		"notes.txt":                   "a loose file",
		".git/SKILL.md":               plainSkill,
		"refund/.DS_Store":            "hidden",
		"refund/.cache/x.md":          "hidden",
	}
	root := tree.write(t)
	sources := map[string]struct {
		source Source
		dir    string
		path   string
		onDisk bool
	}{
		"Dir": {Dir(root), filepath.Join(root, "refund"), filepath.Join(root, "refund", "SKILL.md"), true},
		"FS":  {FS(tree.mapFS(), ""), "skill://refund", "fs:refund/SKILL.md", false},
	}
	for name, want := range sources {
		t.Run(name, func(t *testing.T) {
			skill := loadOne(t, want.source)
			assert.Equal(t, "refund", skill.Name)
			assert.Equal(t, "Refunds", skill.Description)
			assert.Equal(t, "Look up first.\n", skill.Body)
			assert.Equal(t, []string{"Lookup", "Refund"}, skill.AllowedTools)
			assert.Equal(t, want.dir, skill.Dir)
			assert.Equal(t, want.path, skill.path)
			assert.Equal(t, want.onDisk, skill.onDisk)
			assert.True(t, skill.policy.limits, "allowed-tools is present")
			assert.NotNil(t, skill.body)
			assert.Len(t, skill.Digest, 2*sha256.Size)
			assert.Equal(t, map[string]string{
				"references/limits.md": "Up to 200.\r\n",
				"assets/logo.png":      "\x89PNG\x00\xff",
				"assets.md":            "before assets/, as paths sort",
			}, skill.files, "other files are kept byte for byte")
		})
	}

	t.Run("re-03", func(t *testing.T) {
		skill := loadOne(t, Dir(root))
		assert.Equal(t, []string{"assets.md", "assets/logo.png", "references/limits.md"}, skill.Files,
			"sorted, without hidden ones and SKILL.md")
	})
	t.Run("the digest is the same on disk and in an fs.FS", func(t *testing.T) {
		assert.Equal(t, loadOne(t, Dir(root)).Digest, loadOne(t, FS(tree.mapFS(), ".")).Digest)
	})
	t.Run("the root of an fs.FS may lie deeper", func(t *testing.T) {
		deeper := files{"a/b/refund/SKILL.md": plainSkill, "refund-too/SKILL.md": plainSkill}.mapFS()
		assert.Equal(t, "fs:a/b/refund/SKILL.md", loadOne(t, FS(deeper, "a/b")).path)
	})
	t.Run("a relative path gives an absolute Dir", func(t *testing.T) {
		t.Chdir(root)
		assert.Equal(t, filepath.Join(root, "refund"), loadOne(t, Dir(".")).Dir)
	})
	t.Run("no skill at all is no error", func(t *testing.T) {
		skills, diags := mustLoad(t, Dir(t.TempDir()))
		assert.Empty(t, skills)
		assert.Empty(t, diags)
	})
}

// The rule of SPEC 3.2: after New every text is independent of the disk.
func TestRuleTextsAreIndependentOfTheDisk(t *testing.T) {
	tree := files{
		"a/SKILL.md":         skillText("first", "Use $0 and ${SKILL_DIR}.\n"),
		"a/references/x.md":  "text",
		"a/scripts/run.py":   "print(1)",
		"b/SKILL.md":         skillText("second", "Body\n"),
		"broken/SKILL.md":    "no header",
		"nothing/readme.txt": "",
	}
	root := tree.write(t)
	skills, diags := mustLoad(t, Dir(root))
	before := fmt.Sprintf("%+v", diags)
	var want []Skill
	var wantFiles []map[string]string
	for _, s := range skills {
		want = append(want, deepCopy(s.Skill))
		copied := map[string]string{}
		for name, text := range s.files {
			copied[strings.Clone(name)] = strings.Clone(text)
		}
		wantFiles = append(wantFiles, copied)
	}

	for name := range tree { // first other contents, then none
		require.NoError(t, os.WriteFile(filepath.Join(root, filepath.FromSlash(name)), []byte("REPLACED"), 0o644))
	}
	require.NoError(t, os.RemoveAll(root))

	require.Len(t, skills, 2)
	for i, s := range skills {
		assert.Equal(t, want[i], s.Skill)
		assert.Equal(t, len(wantFiles[i]), len(s.files))
		for name, text := range wantFiles[i] {
			assert.Equal(t, text, s.files[name], name)
		}
		assert.True(t, s.changedOnDisk(), "only this looks at the disk again")
	}
	assert.Equal(t, before, fmt.Sprintf("%+v", diags))
}

// deepCopy copies a Skill's strings too, so that memory shared with a buffer
// would show.
func deepCopy(s Skill) Skill {
	s = s.clone()
	s.Description, s.Body, s.Digest = strings.Clone(s.Description), strings.Clone(s.Body), strings.Clone(s.Digest)
	for i, name := range s.Files {
		s.Files[i] = strings.Clone(name)
	}
	return s
}

func TestLoadEncoding(t *testing.T) {
	t.Run("en-01", func(t *testing.T) {
		skills, diags := mustLoad(t, FS(files{
			"old/SKILL.md":  "---\nname: old\ndescription: caf\xe9 \xa1\xaa dash\n---\nBody\n",
			"good/SKILL.md": plainSkill,
		}.mapFS(), ""))
		require.Equal(t, []string{"good", "old"}, skillNames(skills))
		assert.Equal(t, "caf\uFFFD \uFFFD\uFFFD dash", skills[1].Description)
		d := requireOne(t, diags, "old")
		assert.Equal(t, Diagnostic{
			Skill: "old", Path: "fs:old/SKILL.md", Line: 3,
			Message: "invalid UTF-8 at byte offset 30 (3 bytes in all), replaced by U+FFFD",
		}, d)
	})
	t.Run("en-03", func(t *testing.T) {
		skills, diags := mustLoad(t, FS(files{
			"zeros/SKILL.md": strings.Repeat("\x00", 4096),
			"empty/SKILL.md": "",
			"good/SKILL.md":  plainSkill,
		}.mapFS(), ""))
		assert.Equal(t, []string{"good"}, skillNames(skills))
		for name, message := range map[string]string{"zeros": "binary content", "empty": "empty file"} {
			d := requireOne(t, diags, name)
			assert.Equal(t, Refused, d.Severity)
			assert.Contains(t, d.Message, message)
		}
	})
	t.Run("BOM and CRLF before the header", func(t *testing.T) {
		skill := loadOne(t, FS(files{"a/SKILL.md": "\uFEFF---\r\ndescription: d\r\n---\r\nOne\r\nTwo\r\n"}.mapFS(), ""))
		assert.Equal(t, "One\nTwo\n", skill.Body)
	})
}

func TestLoadDiscovery(t *testing.T) {
	t.Run("di-02", func(t *testing.T) {
		root := files{"skills/ok/SKILL.md": plainSkill, "README.md": "loose"}.write(t)
		link(t, "./nowhere", filepath.Join(root, "skills/dead"))
		link(t, "../README.md", filepath.Join(root, "skills/file"))
		skills, diags := mustLoad(t, Dir(filepath.Join(root, "skills")))
		assert.Equal(t, []string{"ok"}, skillNames(skills))
		assert.Equal(t, Refused, requireOne(t, diags, "dead").Severity)
		assert.Contains(t, requireOne(t, diags, "file").Message, "does not lead to a directory")
		assert.Len(t, diags, 2)
	})
	t.Run("di-04", func(t *testing.T) {
		for name, source := range bothSources(t, files{"a/skill.md": plainSkill}) {
			skills, diags := mustLoad(t, source)
			assert.Empty(t, skills, name)
			d := requireOne(t, diags, "a")
			assert.Equal(t, Refused, d.Severity, name)
			assert.Contains(t, d.Message, "rename skill.md to SKILL.md", name)
			assert.Equal(t, "skill.md", filepath.Base(d.Path), name)
		}
	})
	t.Run("di-05", func(t *testing.T) {
		tree := files{"a/skill.md": skillText("lower", ""), "a/SKILL.md": skillText("upper", "")}
		skills, diags := mustLoad(t, FS(tree.mapFS(), ""))
		require.Equal(t, []string{"a"}, skillNames(skills))
		assert.Equal(t, "upper", skills[0].Description)
		assert.Contains(t, requireOne(t, diags, "a").Message, "skill.md")
	})
	t.Run("di-07", func(t *testing.T) {
		if runtime.GOOS == "windows" || os.Geteuid() == 0 {
			t.Skip("permissions do not bind this user; see di-07 with an fs.FS")
		}
		root := files{"a/SKILL.md": plainSkill, "m/SKILL.md": plainSkill, "z/SKILL.md": plainSkill}.write(t)
		shut := filepath.Join(root, "m")
		require.NoError(t, os.Chmod(shut, 0))
		defer func() { _ = os.Chmod(shut, 0o755) }()
		skills, diags := mustLoad(t, Dir(root))
		assert.Equal(t, []string{"a", "z"}, skillNames(skills))
		assert.Contains(t, requireOne(t, diags, "m").Message, "permission denied")
	})
	t.Run("di-07 with an fs.FS", func(t *testing.T) {
		tree := files{"a/SKILL.md": plainSkill, "m/SKILL.md": plainSkill, "z/SKILL.md": plainSkill}
		skills, diags := mustLoad(t, FS(faultyFS{MapFS: tree.mapFS(), faults: map[string]fileFault{
			"m": {readDir: func() error { return &fs.PathError{Op: "open", Path: "m", Err: fs.ErrPermission} }},
		}}, ""))
		assert.Equal(t, []string{"a", "z"}, skillNames(skills))
		d := requireOne(t, diags, "m")
		assert.Equal(t, Refused, d.Severity)
		assert.Equal(t, "the directory cannot be listed: permission denied", d.Message)
	})
	t.Run("di-09", func(t *testing.T) {
		root := files{"skills.txt": "a file", "skills/a/SKILL.md": plainSkill}.write(t)
		file := filepath.Join(root, "skills.txt")
		_, _, err := load([]Source{Dir(file), Dir(filepath.Join(root, "skills"))}, roomy)
		require.ErrorIs(t, err, ErrSource)
		assert.ErrorContains(t, err, file)
		assert.ErrorContains(t, err, "not a directory")
	})
	t.Run("di-11", func(t *testing.T) {
		tree := files{"team/alpha/SKILL.md": plainSkill, "team/beta/SKILL.md": plainSkill}
		for name, source := range bothSources(t, tree) {
			skills, diags := mustLoad(t, source)
			assert.Empty(t, skills, name)
			d := requireOne(t, diags, "team")
			assert.Equal(t, Refused, d.Severity, name)
			assert.Contains(t, d.Message, "no SKILL.md; 2 lie deeper (say, alpha/SKILL.md)", name)
		}
	})
	t.Run("di-13", func(t *testing.T) {
		project := files{"deploy/SKILL.md": skillText("project", "")}.write(t)
		user := files{"deploy/SKILL.md": skillText("user", "")}.write(t)
		for _, order := range [][]string{{project, user}, {user, project}} {
			skills, diags := mustLoad(t, Dir(order[0]), Dir(order[1]))
			require.Equal(t, []string{"deploy"}, skillNames(skills))
			assert.Equal(t, filepath.Join(order[1], "deploy"), skills[0].Dir, "the later source wins")
			d := requireOne(t, diags, "deploy")
			loser, winner := filepath.Join(order[0], "deploy", skillFile), filepath.Join(order[1], "deploy", skillFile)
			assert.Equal(t, loser, d.Path)
			assert.Equal(t, loser+" of source 1 is replaced by "+winner+" of source 2", d.Message)
		}
	})
	t.Run("di-15", func(t *testing.T) {
		root := files{"r1/foo/SKILL.md": plainSkill, "r2/.keep": ""}.write(t)
		link(t, "../r1/foo", filepath.Join(root, "r2/foo"))
		var first []Diagnostic
		for i := range 50 {
			skills, diags := mustLoad(t, Dir(filepath.Join(root, "r2")), Dir(filepath.Join(root, "r1")))
			require.Equal(t, []string{"foo"}, skillNames(skills))
			assert.Equal(t, filepath.Join(root, "r1", "foo"), skills[0].Dir)
			if i == 0 {
				first = diags
			}
			require.Equal(t, first, diags)
		}
	})
	t.Run("di-17", func(t *testing.T) {
		root := files{"ok/SKILL.md": plainSkill, "big/x": "", "huge/x": ""}.write(t)
		big := skillText("d", strings.Repeat("x", maxSkillFileBytes))[:maxSkillFileBytes+1]
		require.NoError(t, os.WriteFile(filepath.Join(root, "big", skillFile), []byte(big), 0o644))
		sparse, err := os.Create(filepath.Join(root, "huge", skillFile))
		require.NoError(t, err)
		require.NoError(t, sparse.Truncate(10<<30))
		require.NoError(t, sparse.Close())
		skills, diags := mustLoad(t, Dir(root))
		assert.Equal(t, []string{"ok"}, skillNames(skills))
		for _, name := range []string{"big", "huge"} {
			d := requireOne(t, diags, name)
			assert.Equal(t, Refused, d.Severity)
			assert.Contains(t, d.Message, "over 1048576 bytes")
		}
	})
	t.Run("di-19", func(t *testing.T) {
		root := files{"a/SKILL.md": skillText("d", "old"), "a/x.md": "old"}.write(t)
		skill := loadOne(t, Dir(root))
		require.False(t, skill.changedOnDisk())
		require.NoError(t, os.WriteFile(filepath.Join(root, "a", skillFile), []byte(skillText("d", "new")), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(root, "a", "x.md"), []byte("new"), 0o644))
		assert.Equal(t, "old", skill.Body)
		assert.Equal(t, "old", skill.files["x.md"])
	})

	t.Run("a directory without any SKILL.md is reported, and not refused", func(t *testing.T) {
		skills, diags := mustLoad(t, FS(files{"shared/logo.svg": "", "shared/fonts/a.ttf": ""}.mapFS(), ""))
		assert.Empty(t, skills)
		assert.Equal(t, Warning, requireOne(t, diags, "shared").Severity)
	})
	t.Run("a SKILL.md in the source itself is reported", func(t *testing.T) {
		skills, diags := mustLoad(t, FS(files{"SKILL.md": plainSkill, "a/SKILL.md": plainSkill}.mapFS(), ""))
		assert.Equal(t, []string{"a"}, skillNames(skills))
		assert.Contains(t, requireOne(t, diags, "").Message, "lies in the source itself")
	})
	t.Run("a directory called SKILL.md is no skill", func(t *testing.T) {
		for name, source := range bothSources(t, files{"a/SKILL.md/x.md": ""}) {
			skills, diags := mustLoad(t, source)
			assert.Empty(t, skills, name)
			assert.Equal(t, Refused, requireOne(t, diags, "a").Severity, name)
		}
	})
	t.Run("skills come in name order, whatever the order of sources", func(t *testing.T) {
		one := files{"b/SKILL.md": plainSkill, "d/SKILL.md": plainSkill}.mapFS()
		two := files{"a/SKILL.md": plainSkill, "c/SKILL.md": plainSkill}.mapFS()
		skills, _ := mustLoad(t, FS(one, ""), FS(two, ""))
		assert.Equal(t, []string{"a", "b", "c", "d"}, skillNames(skills))
	})
	t.Run("the search for deeper skills has an end", func(t *testing.T) {
		tree := files{"team/zz/SKILL.md": plainSkill}
		for i := range 1000 {
			tree[fmt.Sprintf("team/d%04d/x", i)] = ""
		}
		_, diags := mustLoad(t, FS(tree.mapFS(), ""))
		assert.Equal(t, Warning, requireOne(t, diags, "team").Severity)
	})
}

// bothSources gives the tree as a Dir and as an FS.
func bothSources(t *testing.T, tree files) map[string]Source {
	t.Helper()
	return map[string]Source{"Dir": Dir(tree.write(t)), "FS": FS(tree.mapFS(), "")}
}

// A later skill that is refused must not bring back an earlier one, which may
// restrict less.
func TestRefusedSkillStillReplaces(t *testing.T) {
	earlier := files{"a/SKILL.md": plainSkill}.mapFS()
	later := map[string]struct {
		tree files
		left []string
	}{
		"broken header":         {files{"a/SKILL.md": "no header"}, []string{}},
		"wrong case":            {files{"a/skill.md": plainSkill}, []string{}},
		"directory, no skill":   {files{"a/notes.md": ""}, []string{"a"}},
		"deeper skills, no own": {files{"a/b/SKILL.md": plainSkill}, []string{"a"}},
		"loose file":            {files{"a": "text"}, []string{"a"}},
	}
	for name, test := range later {
		t.Run(name, func(t *testing.T) {
			skills, _ := mustLoad(t, FS(earlier, ""), FS(test.tree.mapFS(), ""))
			assert.Equal(t, test.left, skillNames(skills))
		})
	}
}

func TestLoadUnusableSources(t *testing.T) {
	root := files{"file": "", "ok/a/SKILL.md": plainSkill}.write(t)
	panicking := faultyFS{MapFS: fstest.MapFS{}, faults: map[string]fileFault{
		".": {readDir: func() error { panic("boom") }},
	}}
	tests := map[string]struct {
		source  Source
		cause   error
		message string
	}{
		"does not exist":        {Dir(filepath.Join(root, "none")), fs.ErrNotExist, "none"},
		"a file":                {Dir(filepath.Join(root, "file")), nil, "not a directory"},
		"zero":                  {Source{}, nil, "made by Dir or FS"},
		"empty path":            {Dir(""), nil, "made by Dir or FS"},
		"nil fs.FS":             {FS(nil, "skills"), nil, "fs:skills: unusable skill source: the fs.FS is nil"},
		"missing in the fs.FS":  {FS(fstest.MapFS{}, "skills"), fs.ErrNotExist, "fs:skills"},
		"a file in the fs.FS":   {FS(files{"skills": ""}.mapFS(), "skills"), nil, "fs:skills"},
		"path with a slash":     {FS(fstest.MapFS{}, "skills/"), fs.ErrInvalid, `"skills/"`},
		"path that leads out":   {FS(fstest.MapFS{}, "../skills"), fs.ErrInvalid, `"../skills"`},
		"absolute path":         {FS(fstest.MapFS{}, "/skills"), fs.ErrInvalid, `"/skills"`},
		"an fs.FS that panics":  {FS(panicking, ""), nil, "the file system panicked: boom"},
		"a nil pointer as FS":   {FS((*pointerFS)(nil), ""), nil, "panicked"},
		"dangling link":         {Dir(filepath.Join(root, "dangling")), fs.ErrNotExist, "dangling"},
		"path through a file":   {Dir(filepath.Join(root, "file", "skills")), nil, "not a directory"},
		"path with a NUL in it": {Dir("a\x00b"), nil, "unusable"},
	}
	link(t, "./nowhere", filepath.Join(root, "dangling"))
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			skills, diags, err := load([]Source{Dir(filepath.Join(root, "ok")), test.source}, roomy)
			require.ErrorIs(t, err, ErrSource)
			var typed *Error
			require.ErrorAs(t, err, &typed)
			assert.Equal(t, "new", typed.Op)
			assert.Equal(t, test.source.String(), typed.Path)
			assert.ErrorContains(t, err, test.message)
			if test.cause != nil {
				assert.ErrorIs(t, err, test.cause)
			}
			assert.Nil(t, skills)
			assert.Nil(t, diags)
		})
	}
}

// pointerFS panics when its nil pointer is used.
type pointerFS struct{ fs.FS }

func (p *pointerFS) Open(name string) (fs.File, error) { return p.FS.Open(name) }

func TestLoadSurvivesForeignCode(t *testing.T) {
	tree := files{"a/SKILL.md": plainSkill, "m/SKILL.md": plainSkill, "m/x.md": "x", "z/SKILL.md": plainSkill}
	boom := func() error { panic("boom") }
	fail := func() error { return errors.New("disk on fire") }
	tests := map[string]struct {
		file    string
		fault   fileFault
		loads   bool
		message string
	}{
		"ReadDir panics":               {"m", fileFault{readDir: boom}, false, "loading it panicked: boom"},
		"Open panics":                  {"m/SKILL.md", fileFault{open: boom}, false, "loading it panicked: boom"},
		"Stat panics":                  {"m/SKILL.md", fileFault{stat: boom}, false, "loading it panicked: boom"},
		"Read panics":                  {"m/x.md", fileFault{read: boom}, false, "loading it panicked: boom"},
		"SKILL.md cannot be opened":    {"m/SKILL.md", fileFault{open: fail}, false, "cannot be read: disk on fire"},
		"SKILL.md cannot be examined":  {"m/SKILL.md", fileFault{stat: fail}, false, "cannot be read: disk on fire"},
		"SKILL.md cannot be read":      {"m/SKILL.md", fileFault{read: fail}, false, "cannot be read: disk on fire"},
		"another file cannot be read":  {"m/x.md", fileFault{read: fail}, true, "cannot be read: disk on fire"},
		"the directory is not listed":  {"m", fileFault{readDir: fail}, false, "cannot be listed: disk on fire"},
		"a file vanished when opened":  {"m/x.md", fileFault{open: func() error { return fs.ErrNotExist }}, true, "file does not exist"},
		"a name that leads elsewhere":  {"m", fileFault{entry: "x/../../a"}, true, `"x/../../a" is refused`},
		"a name that is no UTF-8":      {"m", fileFault{entry: "\xff"}, true, `"\xff" is refused`},
		"a name with a line break":     {"m", fileFault{entry: "x\ny"}, true, `"x\ny" is refused`},
		"a name that is not there":     {"m", fileFault{entry: "ghost"}, true, "cannot be read"},
		"more bytes than Stat told of": {"m/x.md", fileFault{endless: true}, true, "over 1048576 bytes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			fsys := faultyFS{MapFS: tree.mapFS(), faults: map[string]fileFault{test.file: test.fault}}
			skills, diags := mustLoad(t, FS(fsys, ""))
			want := []string{"a", "z"}
			if test.loads {
				want = []string{"a", "m", "z"}
			}
			assert.Equal(t, want, skillNames(skills))
			d := requireOne(t, diags, "m")
			assert.Contains(t, d.Message, test.message)
			assert.Equal(t, !test.loads, d.Severity == Refused)
		})
	}
	t.Run("every file that was opened is closed", func(t *testing.T) {
		var open atomic.Int64
		fsys := faultyFS{MapFS: tree.mapFS(), held: &open, faults: map[string]fileFault{
			"a/SKILL.md": {stat: fail}, "m/SKILL.md": {read: fail}, "m/x.md": {read: boom},
		}}
		mustLoad(t, FS(fsys, ""))
		assert.Zero(t, open.Load())
	})
	t.Run("CountTokens panics", func(t *testing.T) {
		skills, diags, err := load([]Source{FS(tree.mapFS(), "")}, limits{count: func(string) int { panic("boom") }})
		require.NoError(t, err)
		assert.Empty(t, skills)
		assert.Len(t, diags, 3)
	})
}

// fileFault is what goes wrong with one path of a faultyFS; a nil function is
// no fault.
type fileFault struct {
	readDir, open, stat, read func() error
	entry                     string // an additional name that ReadDir tells
	endless                   bool   // reading never ends, whatever Stat says
}

// faultyFS is a MapFS with faults, by path. It counts in held, if that is not
// nil, the files that are open.
type faultyFS struct {
	fstest.MapFS
	faults map[string]fileFault
	held   *atomic.Int64
}

func (f faultyFS) ReadDir(name string) ([]fs.DirEntry, error) {
	fault := f.faults[name]
	if fault.readDir != nil {
		if err := fault.readDir(); err != nil {
			return nil, err
		}
	}
	entries, err := f.MapFS.ReadDir(name)
	if fault.entry != "" {
		entries = append(entries, namedEntry{fault.entry})
	}
	return entries, err
}

func (f faultyFS) Open(name string) (fs.File, error) {
	fault := f.faults[name]
	if fault.open != nil {
		if err := fault.open(); err != nil {
			return nil, err
		}
	}
	file, err := f.MapFS.Open(name)
	if err != nil {
		return nil, err
	}
	if f.held != nil {
		f.held.Add(1)
	}
	return &faultyFile{file, fault, f.held, 0}, nil
}

// namedEntry is a directory entry that nothing stands behind.
type namedEntry struct{ name string }

func (e namedEntry) Name() string               { return e.name }
func (e namedEntry) IsDir() bool                { return false }
func (e namedEntry) Type() fs.FileMode          { return 0 }
func (e namedEntry) Info() (fs.FileInfo, error) { return nil, fs.ErrNotExist }

type faultyFile struct {
	fs.File
	fault fileFault
	held  *atomic.Int64
	read  int
}

func (f *faultyFile) Close() error {
	if f.held != nil {
		f.held.Add(-1)
	}
	return f.File.Close()
}

func (f *faultyFile) Stat() (fs.FileInfo, error) {
	if f.fault.stat != nil {
		if err := f.fault.stat(); err != nil {
			return nil, err
		}
	}
	return f.File.Stat()
}

func (f *faultyFile) Read(p []byte) (int, error) {
	if f.fault.read != nil {
		if err := f.fault.read(); err != nil {
			return 0, err
		}
	}
	if f.fault.endless {
		f.read += len(p)
		if f.read > maxFileBytes+1 {
			panic("read beyond the limit")
		}
		return len(p), nil
	}
	return f.File.Read(p)
}

func TestLoadLimits(t *testing.T) {
	whole := func(size int, text string) string { return text + strings.Repeat("x", size-len(text)) }

	t.Run("SKILL.md", func(t *testing.T) {
		skills, diags := mustLoad(t, FS(files{
			"at/SKILL.md":   whole(maxSkillFileBytes, plainSkill),
			"over/SKILL.md": whole(maxSkillFileBytes+1, plainSkill),
		}.mapFS(), ""))
		assert.Equal(t, Refused, requireOne(t, diags, "over").Severity)
		// At the limit the body has 262,144 tokens or so: over ContextWindow.
		assert.Contains(t, requireOne(t, diags, "at").Message, "half of ContextWindow")
		assert.Empty(t, skills)
	})
	t.Run("another file", func(t *testing.T) {
		skills, diags := mustLoad(t, FS(files{
			"a/SKILL.md": plainSkill,
			"a/at":       whole(maxFileBytes, ""),
			"a/over":     whole(maxFileBytes+1, ""),
		}.mapFS(), ""))
		require.Equal(t, []string{"a"}, skillNames(skills))
		assert.Equal(t, []string{"at", "over"}, skills[0].Files, "what is over is listed")
		assert.Contains(t, skills[0].files, "at")
		assert.NotContains(t, skills[0].files, "over", "and not readable")
		d := requireOne(t, diags, "a")
		assert.Equal(t, Warning, d.Severity)
		assert.Equal(t, "fs:a/over", d.Path)
	})
	t.Run("number of files", func(t *testing.T) {
		tree := files{"a/SKILL.md": plainSkill}
		for i := range maxFiles {
			tree[fmt.Sprintf("a/%03d.md", i)] = "x"
		}
		skill := loadOne(t, FS(tree.mapFS(), ""))
		assert.Len(t, skill.Files, maxFiles)
		assert.Len(t, skill.files, maxFiles)

		tree["a/256.md"], tree["a/257.md"] = "x", "x"
		skills, diags := mustLoad(t, FS(tree.mapFS(), ""))
		require.Len(t, skills, 1)
		assert.Len(t, skills[0].Files, maxFiles+2)
		assert.Len(t, skills[0].files, maxFiles)
		d := requireOne(t, diags, "a")
		assert.Equal(t, "fs:a/256.md", d.Path, "the first that is over")
		assert.Contains(t, d.Message, "2 files")
	})
	t.Run("bytes of all files", func(t *testing.T) {
		tree := files{"a/SKILL.md": plainSkill}
		for i := range maxFilesBytes / maxFileBytes {
			tree[fmt.Sprintf("a/%d", i)] = whole(maxFileBytes, "")
		}
		assert.Len(t, loadOne(t, FS(tree.mapFS(), "")).files, 8, "at the limit")

		tree["a/8"], tree["a/9"] = "x", ""
		skills, diags := mustLoad(t, FS(tree.mapFS(), ""))
		require.Len(t, skills, 1)
		assert.NotContains(t, skills[0].files, "8")
		assert.Contains(t, skills[0].files, "9", "an empty file always fits")
		assert.Equal(t, "fs:a/8", requireOne(t, diags, "a").Path)
	})
	t.Run("depth", func(t *testing.T) {
		at := strings.Repeat("d/", maxDepth-1)
		tree := files{"a/SKILL.md": plainSkill, "a/" + at + "x": ""}
		assert.Equal(t, []string{at + "x"}, loadOne(t, FS(tree.mapFS(), "")).Files)
		tree["a/"+at+"d/x"] = ""
		skills, diags := mustLoad(t, FS(tree.mapFS(), ""))
		require.Len(t, skills, 1)
		assert.Equal(t, []string{at + "x"}, skills[0].Files)
		assert.Contains(t, requireOne(t, diags, "a").Message, "not entered")
	})
	t.Run("body", func(t *testing.T) {
		body := strings.Repeat("word", 100) // 100 tokens
		source := FS(files{"a/SKILL.md": skillText("d", body)}.mapFS(), "")
		tests := map[string]struct {
			bodyTokens, reinjectTokens int
			loads                      bool
			diags                      int
		}{
			"within both":                  {100, 100, true, 0},
			"over half the context window": {99, 100, false, 1},
			"over the reinject budget":     {100, 99, true, 1},
			"no reinjection":               {100, -1, true, 0},
			"no budget":                    {100, 0, true, 0},
		}
		for name, test := range tests {
			skills, diags, err := load([]Source{source}, limits{
				bodyTokens: test.bodyTokens, reinjectTokens: test.reinjectTokens, count: defaultTokens,
			})
			require.NoError(t, err)
			assert.Equal(t, test.loads, len(skills) == 1, name)
			assert.Len(t, diags, test.diags, name)
		}
	})
}

func TestLoadNames(t *testing.T) {
	tests := map[string]struct {
		name  string
		loads bool
		diags int
	}{
		"plain":                      {"refund-policy", true, 0},
		"digits":                     {"2fa-reset", true, 0},
		"64 characters":              {strings.Repeat("a", 64), true, 0},
		"65 characters":              {strings.Repeat("a", 65), true, 1},
		"upper case":                 {"Refund", true, 1},
		"blank":                      {"refund policy", true, 1},
		"underscore":                 {"refund_policy", true, 1},
		"two hyphens":                {"refund--policy", true, 1},
		"hyphen first":               {"-refund", true, 1},
		"Chinese":                    {"退款", true, 1},
		"hidden":                     {".refund", false, 0},
		"line break":                 {"a\nb", false, 1},
		"tab":                        {"a\tb", false, 1},
		"C1 control":                 {"a\u0085b", false, 1},
		"line separator":             {"a\u2028b", false, 1},
		"paragraph separator":        {"a\u2029b", false, 1},
		"bidi override":              {"a\u202Eb", false, 1},
		"zero-width joiner":          {"a\u200Db", false, 1},
		"byte order mark":            {"a\uFEFFb", false, 1},
		"tag character":              {"a\U000E0041b", false, 1},
		"unassigned tag":             {"a\U000E0000b", false, 1},
		"private use":                {"a\uE000b", false, 1},
		"private use, plane 16":      {"a\U00100000b", false, 1},
		"invalid UTF-8":              {"a\xffb", false, 1},
		"backslash":                  {`a\b`, false, 1},
		"colon":                      {"a:b", false, 1},
		"less":                       {"a<b", false, 1},
		"greater":                    {"a>b", false, 1},
		"ampersand":                  {"a&b", false, 1},
		"double quote":               {`a"b`, false, 1},
		"single quote":               {"a'b", false, 1},
		"backtick":                   {"a`b", false, 1},
		"se-08: a tag of skillbay's": {"ok<system-reminder>", false, 1},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			skills, diags := mustLoad(t, FS(files{
				test.name + "/SKILL.md": plainSkill, "good/SKILL.md": plainSkill,
			}.mapFS(), ""))
			want := []string{"good"}
			if test.loads {
				want = append(want, test.name)
				slices.Sort(want)
			}
			assert.Equal(t, want, skillNames(skills), "name %q", test.name)
			require.Len(t, diags, test.diags, "name %q", test.name)
			for _, d := range diags {
				assert.Equal(t, test.name, d.Skill)
				assert.Equal(t, !test.loads, d.Severity == Refused)
				assert.Contains(t, d.Message, "the name ")
			}
		})
	}
}

func TestLoadKeepsInside(t *testing.T) {
	t.Run("se-02", func(t *testing.T) {
		fsys := faultyFS{
			MapFS:  files{"tmp/secret/SKILL.md": plainSkill, "skills/ok/SKILL.md": plainSkill}.mapFS(),
			faults: map[string]fileFault{"skills": {entry: "/tmp/secret"}},
		}
		skills, diags := mustLoad(t, FS(directories{fsys}, "skills"))
		assert.Equal(t, []string{"ok"}, skillNames(skills))
		assert.Equal(t, Refused, requireOne(t, diags, "/tmp/secret").Severity)
	})
	t.Run("se-03", func(t *testing.T) {
		root := files{"skills/x/y": "", "skills/ok/SKILL.md": plainSkill, "secret": plainSkill}.write(t)
		link(t, filepath.Join(root, "secret"), filepath.Join(root, "skills/x/SKILL.md"))
		skills, diags := mustLoad(t, Dir(filepath.Join(root, "skills")))
		assert.Equal(t, []string{"ok"}, skillNames(skills))
		d := requireOne(t, diags, "x")
		assert.Equal(t, Refused, d.Severity)
		assert.Equal(t, filepath.Join(root, "skills/x/SKILL.md"), d.Path)
		assert.Contains(t, d.Message, "leads out of the skill's directory")
	})
	t.Run("se-05", func(t *testing.T) {
		root := files{"skills/x/SKILL.md": plainSkill, "skills/x-evil/a.txt": "secret"}.write(t)
		link(t, "../x-evil/a.txt", filepath.Join(root, "skills/x/a.txt"))
		link(t, "../x-evil", filepath.Join(root, "skills/x/more"))
		skills, diags := mustLoad(t, Dir(filepath.Join(root, "skills")))
		require.Equal(t, []string{"x"}, skillNames(skills), "only the file is refused")
		assert.Empty(t, skills[0].Files)
		assert.Empty(t, skills[0].files)
		require.Len(t, about(diags, "x"), 2)
		for _, d := range about(diags, "x") {
			assert.Contains(t, d.Message, "leads out of the skill's directory")
		}
	})
	t.Run("a link put in place after the listing", func(t *testing.T) {
		root := files{"x/SKILL.md": plainSkill, "x/a.txt": "mine", "secret": "secret"}.write(t)
		f, err := openDisk(filepath.Join(root, "x"))
		require.NoError(t, err)
		defer f.close()
		require.NoError(t, os.Remove(filepath.Join(root, "x/a.txt")))
		link(t, "../secret", filepath.Join(root, "x/a.txt"))
		_, err = f.open("a.txt")
		assert.Error(t, err)
	})
	t.Run("links in an fs.FS", func(t *testing.T) {
		fsys := files{"x/SKILL.md": plainSkill, "secret": "secret", "y/z": ""}.mapFS()
		fsys["x/a.txt"] = &fstest.MapFile{Data: []byte("../secret"), Mode: fs.ModeSymlink}
		fsys["y/SKILL.md"] = &fstest.MapFile{Data: []byte("../x/SKILL.md"), Mode: fs.ModeSymlink}
		fsys["alias"] = &fstest.MapFile{Data: []byte("x"), Mode: fs.ModeSymlink}
		skills, diags := mustLoad(t, FS(fsys, ""))
		require.Equal(t, []string{"x"}, skillNames(skills))
		assert.Empty(t, skills[0].Files)
		for _, name := range []string{"x", "y", "alias"} {
			assert.Contains(t, requireOne(t, diags, name).Message, "use Dir")
		}
	})
}

// directories makes every named entry of a faultyFS a directory.
type directories struct{ faultyFS }

func (d directories) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := d.faultyFS.ReadDir(name)
	for i, entry := range entries {
		if named, ok := entry.(namedEntry); ok {
			entries[i] = namedDirectory{named}
		}
	}
	return entries, err
}

type namedDirectory struct{ namedEntry }

func (namedDirectory) IsDir() bool       { return true }
func (namedDirectory) Type() fs.FileMode { return fs.ModeDir }

func TestLoadSymlinks(t *testing.T) {
	t.Run("a skill's directory may be a link", func(t *testing.T) {
		root := files{"store/v2/SKILL.md": plainSkill, "store/v2/x.md": "x", "skills/.keep": ""}.write(t)
		link(t, "../store/v2", filepath.Join(root, "skills/refund"))
		skill := loadOne(t, Dir(filepath.Join(root, "skills")))
		assert.Equal(t, "refund", skill.Name)
		assert.Equal(t, filepath.Join(root, "skills/refund"), skill.Dir, "the path under the source")
		assert.Equal(t, []string{"x.md"}, skill.Files)
		assert.False(t, skill.changedOnDisk())
	})
	t.Run("a source may be a link", func(t *testing.T) {
		root := files{"store/refund/SKILL.md": plainSkill}.write(t)
		link(t, "store", filepath.Join(root, "skills"))
		assert.Equal(t, filepath.Join(root, "skills/refund"), loadOne(t, Dir(filepath.Join(root, "skills"))).Dir)
	})
	t.Run("links that stay inside are followed", func(t *testing.T) {
		root := files{"a/v1/SKILL.txt": plainSkill, "a/docs/x.md": "x"}.write(t)
		link(t, "v1/SKILL.txt", filepath.Join(root, "a/SKILL.md"))
		link(t, "../docs/x.md", filepath.Join(root, "a/v1/relative.md"))
		link(t, filepath.Join(root, "a/docs/x.md"), filepath.Join(root, "a/absolute.md"))
		link(t, "../a/docs", filepath.Join(root, "a/alias"))
		skill := loadOne(t, Dir(root))
		assert.Equal(t, []string{"absolute.md", "alias/x.md", "docs/x.md", "v1/SKILL.txt", "v1/relative.md"}, skill.Files)
		for _, name := range []string{"absolute.md", "alias/x.md", "v1/relative.md"} {
			assert.Equal(t, "x", skill.files[name], name)
		}
	})
	// How Kubernetes mounts a ConfigMap: it swaps ..data to release a new one.
	t.Run("a mounted ConfigMap", func(t *testing.T) {
		root := files{"a/..2024_05_01/SKILL.md": plainSkill, "a/..2024_05_01/x.md": "x"}.write(t)
		link(t, "..2024_05_01", filepath.Join(root, "a/..data"))
		link(t, "..data/SKILL.md", filepath.Join(root, "a/SKILL.md"))
		link(t, "..data/x.md", filepath.Join(root, "a/x.md"))
		assert.Equal(t, []string{"x.md"}, loadOne(t, Dir(root)).Files)
	})
	t.Run("loops and dead links are reported", func(t *testing.T) {
		root := files{"a/SKILL.md": plainSkill, "a/deep/x.md": "x"}.write(t)
		link(t, "self", filepath.Join(root, "a/self"))
		link(t, ".", filepath.Join(root, "a/here"))
		link(t, "..", filepath.Join(root, "a/deep/up"))
		link(t, "nowhere", filepath.Join(root, "a/dead"))
		skills, diags := mustLoad(t, Dir(root))
		require.Equal(t, []string{"a"}, skillNames(skills))
		assert.Equal(t, []string{"deep/x.md"}, skills[0].Files)
		var paths []string
		for _, d := range diags {
			rel, err := filepath.Rel(root, d.Path)
			require.NoError(t, err)
			paths = append(paths, filepath.ToSlash(rel))
		}
		assert.ElementsMatch(t, []string{"a/self", "a/here", "a/deep/up", "a/dead"}, paths)
	})
	t.Run("SKILL.md is a loop", func(t *testing.T) {
		root := files{"a/x": ""}.write(t)
		link(t, "SKILL.md", filepath.Join(root, "a/SKILL.md"))
		skills, diags := mustLoad(t, Dir(root))
		assert.Empty(t, skills)
		assert.Equal(t, Refused, requireOne(t, diags, "a").Severity)
	})
	t.Run("links to one another do not multiply", func(t *testing.T) {
		root := files{"a/SKILL.md": plainSkill}.write(t)
		const n = 8
		for i := range n {
			require.NoError(t, os.Mkdir(filepath.Join(root, "a", fmt.Sprint(i)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(root, "a", fmt.Sprint(i), "x"), nil, 0o644))
			for j := range n {
				if i != j {
					link(t, fmt.Sprintf("../%d", j), filepath.Join(root, "a", fmt.Sprint(i), fmt.Sprintf("to%d", j)))
				}
			}
		}
		skills, diags := mustLoad(t, Dir(root))
		require.Len(t, skills, 1)
		assert.Len(t, skills[0].Files, n+n*(n-1), "each file under its own path and under one link")
		assert.NotEmpty(t, diags)
	})
	t.Run("one directory under two names loads once", func(t *testing.T) {
		root := files{"one/m/SKILL.md": plainSkill, "two/.keep": ""}.write(t)
		link(t, "m", filepath.Join(root, "one/z"))
		link(t, "m", filepath.Join(root, "one/b"))
		link(t, "../one/m", filepath.Join(root, "two/a"))
		one, two := Dir(filepath.Join(root, "one")), Dir(filepath.Join(root, "two"))

		skills, diags := mustLoad(t, one, two)
		assert.Equal(t, []string{"b"}, skillNames(skills), "first source, then name order")
		for _, name := range []string{"m", "z", "a"} {
			d := requireOne(t, diags, name)
			assert.Equal(t, Warning, d.Severity)
			assert.Contains(t, d.Message, filepath.Join(root, "one", "b"), "it names the other path")
		}
		skills, _ = mustLoad(t, two, one)
		assert.Equal(t, []string{"a"}, skillNames(skills))
	})
	t.Run("names are settled before directories", func(t *testing.T) {
		root := files{"one/a/SKILL.md": skillText("old", ""), "one/b/SKILL.md": plainSkill, "two/.keep": ""}.write(t)
		link(t, "../one/b", filepath.Join(root, "two/a"))
		skills, diags := mustLoad(t, Dir(filepath.Join(root, "one")), Dir(filepath.Join(root, "two")))
		assert.Equal(t, []string{"b"}, skillNames(skills))
		assert.Len(t, about(diags, "a"), 2)
	})
	t.Run("a name that cannot load does not take the directory", func(t *testing.T) {
		root := files{"good/SKILL.md": plainSkill}.write(t)
		link(t, "good", filepath.Join(root, "bad&name"))
		skills, _ := mustLoad(t, Dir(root))
		assert.Equal(t, []string{"good"}, skillNames(skills))
	})
}

func TestDigest(t *testing.T) {
	base := files{"a/SKILL.md": plainSkill, "a/x": "one", "a/y": "two"}
	digest := func(change func(files)) string {
		tree := files{}
		for name, text := range base {
			tree[name] = text
		}
		change(tree)
		skills, _ := mustLoad(t, FS(tree.mapFS(), ""))
		require.Len(t, skills, 1)
		return skills[0].Digest
	}
	same := digest(func(files) {})

	changes := map[string]func(files){
		"body":                     func(f files) { f["a/SKILL.md"] += "x" },
		"line ends":                func(f files) { f["a/SKILL.md"] = strings.ReplaceAll(plainSkill, "\n", "\r\n") },
		"contents":                 func(f files) { f["a/x"] = "One" },
		"new empty file":           func(f files) { f["a/z"] = "" },
		"file gone":                func(f files) { delete(f, "a/y") },
		"renamed":                  func(f files) { delete(f, "a/y"); f["a/z"] = "two" },
		"contents swapped":         func(f files) { f["a/x"], f["a/y"] = "two", "one" },
		"boundary between files":   func(f files) { f["a/x"], f["a/y"] = "onet", "wo" },
		"boundary to the name":     func(f files) { delete(f, "a/x"); f["a/xo"] = "ne" },
		"moved into a directory":   func(f files) { delete(f, "a/y"); f["a/d/y"] = "two" },
		"over a limit":             func(f files) { f["a/x"] = strings.Repeat("x", maxFileBytes+1) },
		"over a limit, other size": func(f files) { f["a/x"] = strings.Repeat("x", maxFileBytes+2) },
	}
	seen := map[string]string{same: "nothing"}
	for name, change := range changes {
		got := digest(change)
		assert.Empty(t, seen[got], "%s gives the digest of another tree", name)
		seen[got] = name
	}

	// Stored digests must stay comparable: the encoding is written down twice.
	sum := sha256.New()
	for _, file := range [][2]string{{"SKILL.md", plainSkill}, {"x", "one"}, {"y", "two"}} {
		record := binary.BigEndian.AppendUint64(nil, uint64(len(file[0])))
		record = append(append(record, file[0]...), 0)
		record = binary.BigEndian.AppendUint64(record, uint64(len(file[1])))
		sum.Write(append(record, file[1]...))
	}
	assert.Equal(t, hex.EncodeToString(sum.Sum(nil)), same)

	assert.Equal(t, same, digest(func(f files) { f["a/.hidden"] = "x"; f["a/.git/config"] = "x"; f["b/notes"] = "" }),
		"hidden files and other directories do not enter")
}

func TestChangedOnDisk(t *testing.T) {
	changes := map[string]struct {
		change  func(t *testing.T, dir string)
		changed bool
	}{
		"nothing": {func(*testing.T, string) {}, false},
		"the same written again": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "run.sh"), []byte("echo 1"), 0o644))
		}, false},
		"a hidden file": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, ".swp"), nil, 0o644))
		}, false},
		"a script": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "run.sh"), []byte("echo 2"), 0o644))
		}, true},
		"a new file": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "new"), nil, 0o644))
		}, true},
		"a script became a link outside": {func(t *testing.T, dir string) {
			require.NoError(t, os.Rename(filepath.Join(dir, "run.sh"), filepath.Join(dir, "../run.sh")))
			link(t, "../run.sh", filepath.Join(dir, "run.sh"))
		}, true},
		"the directory is gone": {func(t *testing.T, dir string) { require.NoError(t, os.RemoveAll(dir)) }, true},
		"the directory is a file": {func(t *testing.T, dir string) {
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.WriteFile(dir, nil, 0o644))
		}, true},
	}
	for name, test := range changes {
		t.Run(name, func(t *testing.T) {
			root := files{"a/SKILL.md": plainSkill, "a/run.sh": "echo 1"}.write(t)
			skill := loadOne(t, Dir(root))
			test.change(t, filepath.Join(root, "a"))
			assert.Equal(t, test.changed, skill.changedOnDisk())
		})
	}
	t.Run("not on disk", func(t *testing.T) {
		assert.False(t, loadOne(t, FS(files{"a/SKILL.md": plainSkill}.mapFS(), "")).changedOnDisk())
	})
}

// Same sources, same result, however many processors read them.
func TestLoadIsDeterministic(t *testing.T) {
	tree := files{}
	for i := range 40 {
		name := fmt.Sprintf("s%02d", i)
		tree[name+"/SKILL.md"] = skillText(name, "Body of "+name)
		tree[name+"/b/x.md"], tree[name+"/a.md"] = name, name
		if i%5 == 0 {
			tree[name+"/SKILL.md"] = "no header"
		}
		if i%7 == 0 {
			tree[name+"/big"] = strings.Repeat("x", maxFileBytes+1)
		}
	}
	sources := []Source{FS(tree.mapFS(), ""), Dir(tree.write(t))}
	describe := func() string {
		skills, diags := mustLoad(t, sources...)
		var b strings.Builder
		for _, s := range skills {
			fmt.Fprintf(&b, "%+v %v\n", s.Skill, s.files)
		}
		return fmt.Sprint(b.String(), diags)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	want := describe()
	for _, n := range []int{2, 8} {
		runtime.GOMAXPROCS(n)
		assert.Equal(t, want, describe())
	}
}

func TestShellBlocksOfAnFS(t *testing.T) {
	tree := files{"a/SKILL.md": skillText("d", "Now:\n!`date`\n")}
	on := roomy
	on.shell = true
	for name, test := range map[string]struct {
		source Source
		lim    limits
		diags  int
	}{
		"on disk, enabled":       {Dir(tree.write(t)), on, 0},
		"from an fs.FS, enabled": {FS(tree.mapFS(), ""), on, 1},
		"from an fs.FS, off":     {FS(tree.mapFS(), ""), roomy, 0},
	} {
		skills, diags, err := load([]Source{test.source}, test.lim)
		require.NoError(t, err)
		assert.Len(t, skills, 1, name)
		assert.Len(t, diags, test.diags, name)
	}
}

// The skills that examples and other tests use are in order.
func TestTestdataSkills(t *testing.T) {
	skills, diags := mustLoad(t, Dir("testdata/skills"))
	assert.Empty(t, diags)
	assert.Equal(t, []string{"escalate", "order-lookup", "refund-policy", "shipping"}, skillNames(skills))
}

// BenchmarkLoadAgainstFloor compares load with the floor: to list, read and hash the same
// files one after the other, and to make nothing of them.
func BenchmarkLoadAgainstFloor(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		root := b.TempDir()
		body := strings.Repeat("Look the order up first, then decide; never promise a date.\n", 60)
		for i := range n {
			dir := filepath.Join(root, fmt.Sprintf("skill-%05d", i))
			require.NoError(b, os.Mkdir(dir, 0o755))
			text := fmt.Sprintf("---\nname: Skill %d\ndescription: Answers questions of kind %d\n"+
				"allowed-tools: OrderLookup, Refund\n---\n%s", i, i, body)
			require.NoError(b, os.WriteFile(filepath.Join(dir, skillFile), []byte(text), 0o644))
		}
		b.Run(fmt.Sprintf("floor/skills=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, readAndHash(root))
			}
		})
		b.Run(fmt.Sprintf("load/skills=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				skills, diags, err := load([]Source{Dir(root)}, roomy)
				require.NoError(b, err)
				require.Empty(b, diags)
				require.Len(b, skills, n)
			}
		})
	}
}

// readAndHash is the floor of BenchmarkLoadAgainstFloor.
func readAndHash(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		sha256.Sum256(data)
		return err
	})
}
