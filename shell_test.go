package skillbay

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// needBash skips a test where there is no bash.
func needBash(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is missing")
	}
}

// runIn returns what the tests give to commands that run in dir.
func runIn(dir, args string) shellRun {
	return shellRun{
		dir: filepath.ToSlash(dir), timeout: 20 * time.Second,
		args: args, given: true, session: testSession,
	}
}

// expandIn runs the shell blocks of a body in dir and expands it.
func expandIn(t *testing.T, dir, body string, declared []string, args string) string {
	t.Helper()
	needBash(t)
	tmpl := compileTemplate(body, declared)
	require.Empty(t, tmpl.shellNotes())
	run := runIn(dir, args)
	return tmpl.expand(values{
		dir: run.dir, args: args, given: true, session: testSession,
		shell: tmpl.runShell(t.Context(), run),
	})
}

// fencedCommand makes a shell block of a command.
func fencedCommand(code string) string { return "```!\n" + code + "\n```" }

// shellOutput returns the output of one command.
func shellOutput(t *testing.T, code, args string) string {
	t.Helper()
	needBash(t)
	return compileTemplate(fencedCommand(code), nil).runShell(t.Context(), runIn(t.TempDir(), args))[0]
}

// TestShellCases holds the reported faults about shell blocks.
func TestShellCases(t *testing.T) {
	t.Run("sh-01", func(t *testing.T) {
		dir := t.TempDir()
		code := "````markdown\nStatus: !`touch pwn`\n````\n~~~\nStatus: !`touch pwn`\n~~~\n\n    Status: !`touch pwn`\n\n"
		assert.Equal(t, code+"Real: ok\n", expandIn(t, dir, code+"Real: !`echo ok`\n", nil, ""))
		assert.NoFileExists(t, filepath.Join(dir, "pwn"))
	})
	t.Run("sh-03", func(t *testing.T) {
		assert.Equal(t, "A: out\n[stderr] err\nB: fine",
			expandIn(t, t.TempDir(), "A: !`echo out; echo err >&2; exit 3`\nB: !`echo fine`", nil, ""))
	})
	t.Run("sh-05", func(t *testing.T) {
		open, end, err := os.Pipe()
		require.NoError(t, err)
		defer func() { _, _ = open.Close(), end.Close() }()
		stdin := os.Stdin
		os.Stdin = open
		defer func() { os.Stdin = stdin }()
		assert.Equal(t, "<  >", expandIn(t, t.TempDir(), "< !`cat` >", nil, ""))
	})
	t.Run("sh-07", func(t *testing.T) {
		dir := t.TempDir()
		args := `x"; touch pwn; echo "$(id)`
		require.NoError(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("first\n"+args+"\n"), 0o600))
		assert.Equal(t, "2:"+args, expandIn(t, dir, "!`grep -Fn \"$ARGUMENTS\" notes.txt`", nil, args))
		for _, reference := range []string{`"$ARGUMENTS"`, `$ARGUMENTS`, `"$0"`, `$0`, `"$ARGUMENTS[0]"`, `$ARGUMENTS[1]`, `"$what"`} {
			expandIn(t, dir, "!`grep -n "+reference+" notes.txt`", []string{"what"}, args)
		}
		assert.NoFileExists(t, filepath.Join(dir, "pwn"))
	})
}

// Arguments reach a command as data: in positional parameters and variables.
func TestShellArguments(t *testing.T) {
	const args = `"two words" $(id) don't`
	tests := []struct {
		name, code, args, want string
	}{
		{"words are the parameters from $0", `printf '<%s>' "$0" "$1" "$2" "$3" "$#"`, args, `<two words><$(id)><don't><><2>`},
		{"the raw text is a variable", `printf '<%s>' "$ARGUMENTS"`, args, "<" + args + ">"},
		{"an index is the parameter", `printf '<%s>' "$ARGUMENTS[0]" "$ARGUMENTS[1]" "$ARGUMENTS[10]"`, args, `<two words><$(id)><>`},
		{"the eleventh parameter too", `printf '<%s>' "$ARGUMENTS[10]"`, "a b c d e f g h i j k", "<k>"},
		{"missing ones are empty under set -u", `set -u; printf '<%s>' "$ARGUMENTS[7]" "$ARGUMENTS"`, "", "<><>"},
		{"no words: $0 is empty", `printf '<%s>' "$0" "$#"`, "", "<><0>"},
		{"an escaped index stays shell", `echo "\$ARGUMENTS[0]"`, "a", "$ARGUMENTS[0]"},
		{"single quotes are the shell's", `echo '$0 $HOME' | cat`, "a", "$0 $HOME"},
		{"a word is no option", `echo "$0"`, "-x", "-x"},
		{"directory and session", `[ "$SKILL_DIR" = "${CLAUDE_SKILL_DIR}" ] && [ "$SKILL_DIR" -ef . ] && echo "${SESSION_ID} ${CLAUDE_SESSION_ID}"`, "", testSession + " " + testSession},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, shellOutput(t, tt.code, tt.args), "code %s, args %q", tt.code, tt.args)
		})
	}
	t.Run("declared names are variables", func(t *testing.T) {
		assert.Equal(t, "<A1><>", expandIn(t, t.TempDir(), "!`printf '<%s>' \"$order\" \"$reason_text\"`", []string{"order", "reason_text"}, "A1"))
	})
	t.Run("no arguments at all", func(t *testing.T) {
		needBash(t)
		run := runIn(t.TempDir(), "not given")
		run.given = false
		tmpl := compileTemplate(fencedCommand(`printf '<%s>' "$0" "$ARGUMENTS" "$name"`), []string{"name"})
		assert.Equal(t, []string{"<><><>"}, tmpl.runShell(t.Context(), run))
	})
}

// Code that begins like an option must not make the shell take a word for the
// code.
func TestShellCodeIsNoOption(t *testing.T) {
	dir := t.TempDir()
	got := expandIn(t, dir, "!`-x` !`+x`", nil, `"touch pwn" "touch pwn"`)
	assert.Contains(t, got, "not found")
	assert.NoFileExists(t, filepath.Join(dir, "pwn"))
}

// Arguments that a command takes are not appended; those that nothing takes
// are.
func TestShellBlocksTakeArguments(t *testing.T) {
	tests := []struct {
		name, body string
		declared   []string
		taken      bool
	}{
		{"the raw text", "!`x $ARGUMENTS`", nil, true},
		{"a word", "!`x $ARGUMENTS[0]`", nil, true},
		{"a parameter", "!`x \"$0\"`", nil, true},
		{"a declared name", "!`x $order`", []string{"order"}, true},
		{"text beside the block", "$0 !`x`", nil, true},
		{"nothing", "!`x`", nil, false},
		{"a parameter out of the run", "!`x $1`", nil, false},
		{"single quotes, where the shell leaves it alone", "!`awk '{print $0}' f`", nil, false},
		{"after single quotes", "!`awk '{print $0}' \"$0\"`", nil, true},
		{"an escape", "!`x \\$ARGUMENTS`", nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tmpl := compileTemplate(tt.body, tt.declared)
			require.Equal(t, 1, tmpl.shellBlocks())
			got := tmpl.expand(values{args: "A1", given: true, shell: []string{"out"}})
			assert.Equal(t, !tt.taken, strings.HasSuffix(got, "\n\nARGUMENTS: A1"), "expanded: %q", got)
		})
	}
}

// Blocks that do not run are ordinary text, placeholders included.
func TestShellBlocksAsText(t *testing.T) {
	const body = "A: !`x $ARGUMENTS \\$5`\n```!\ny $0\n```"
	tmpl := compileTemplate(body, nil)
	require.Equal(t, 2, tmpl.shellBlocks())
	assert.Equal(t, "A: !`x A1 $5`\n```!\ny A1\n```", tmpl.expand(values{args: "A1", given: true}))
	assert.Equal(t, strings.Replace(body, `\$5`, "$5", 1), tmpl.expand(values{}))
	assert.Equal(t, "A: one\ntwo", tmpl.expand(values{args: "A1", given: true, shell: []string{"one", "two"}}))
	assert.Equal(t, "A: one\n", tmpl.expand(values{shell: []string{"one"}}), "a missing output is empty")
}

// A user's word must not become a variable that a shell, a loader or an
// interpreter acts on.
func TestShellVariableNames(t *testing.T) {
	t.Setenv("SKILLBAY_TEST_Secret", "s")
	refused := []string{
		"", "order-id", "1st", "größe", "a b", "a=b",
		"PATH", "path", "Env", "ifs", "PS4", "ps1x", "shellopts", "BASH_ENV", "bashful",
		"LD_PRELOAD", "ld_x", "DYLD_INSERT_LIBRARIES", "git_ssh", "PYTHONPATH", "perl5opt", "NODE_OPTIONS", "RUBYOPT",
		"home", "LANG", "lc_all", "TZ", "tmpdir", "SystemRoot", "comspec",
		"arguments", "skill_dir", "SESSION_ID", "skillbay_test_SECRET",
	}
	for _, name := range refused {
		tmpl := compileTemplate("A: !`date`", []string{"order", name})
		assert.Zero(t, tmpl.shellBlocks(), "name %q", name)
		if notes := tmpl.shellNotes(); assert.Len(t, notes, 1, "name %q", name) {
			assert.Equal(t, Warning, notes[0].severity)
			assert.Contains(t, notes[0].message, "shell variable")
		}
		assert.Nil(t, tmpl.runShell(t.Context(), runIn(t.TempDir(), "x")), "name %q", name)
		assert.Equal(t, "A: !`date`", tmpl.expand(values{shell: []string{"out"}}), "name %q", name)
	}
	for _, name := range []string{"order", "_order2", "ORDER", "environment", "gitx", "nodes", "pat"} {
		tmpl := compileTemplate("!`date`", []string{name})
		assert.Equal(t, 1, tmpl.shellBlocks(), "name %q", name)
		assert.Empty(t, tmpl.shellNotes(), "name %q", name)
	}
	assert.Empty(t, compileTemplate("no block", []string{"PATH"}).shellNotes(), "no blocks, no diagnostic")
}

// A command sees of the service's environment nothing that it has no use for.
func TestShellEnvironment(t *testing.T) {
	needBash(t)
	t.Setenv("SKILLBAY_API_KEY", "secret")
	t.Setenv("BASH_ENV", "/nonexistent")
	t.Setenv("TZ", "UTC")
	dir := t.TempDir()
	allowed := append([]string{"ARGUMENTS", "SKILL_DIR", "SESSION_ID", "order"}, inheritedVariables...)
	shellOwn := []string{"PWD", "SHLVL", "_", "OLDPWD"}
	env := compileTemplate("!`env`", []string{"order"}).runShell(t.Context(), runIn(dir, "A1"))[0]
	for line := range strings.SplitSeq(env, "\n") {
		name, _, _ := strings.Cut(line, "=")
		assert.Contains(t, append(allowed, shellOwn...), name)
	}
	for _, want := range []string{"ARGUMENTS=A1", "order=A1", "SKILL_DIR=" + filepath.ToSlash(dir), "SESSION_ID=" + testSession, "TZ=UTC"} {
		assert.Contains(t, strings.Split(env, "\n"), want)
	}
}

func TestShellOutput(t *testing.T) {
	tests := []struct {
		name, code, want string
	}{
		{"trailing line breaks go", `printf ' a\n\nb \n\n'`, " a\n\nb "},
		{"stderr of a success is dropped", `echo a; echo b >&2`, "a"},
		{"a failure without stderr", `echo a; exit 1`, "a"},
		{"stderr alone", `echo b >&2; exit 1`, "[stderr] b"},
		{"stderr of a line break alone", `echo a; echo >&2; exit 1`, "a"},
		{"stderr of several lines", `echo a; printf 'b\nc\n\n' >&2; false`, "a\n[stderr] b\nc"},
		{"stdout without a line break", `printf a; echo b >&2; false`, "a\n[stderr] b"},
		{"a command that does not exist", `no-such-command-here`, "[stderr] : line 1: no-such-command-here: command not found"},
		{"broken UTF-8 is replaced", `printf 'a\xffb'`, "a\uFFFDb"},
		{"line breaks are line feeds", `printf 'a\r\nb\rc\r\n'`, "a\nb\nc"},
		{"other control characters are replaced", `printf 'a\tb\033[1mc\0'`, "a\tb\uFFFD[1mc\uFFFD"},
		{"nothing", `:`, ""},
		{"killed by a signal", `echo a; kill -9 $$`, "a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, shellOutput(t, tt.code, ""), "code %s", tt.code)
		})
	}
}

// Output is cut at 64 KiB a launch, between characters, while it is read.
func TestShellOutputIsCut(t *testing.T) {
	needBash(t)
	const endless = `while :; do printf '%01023d€' 0 || exit; done`
	many := compileTemplate(fencedCommand(`echo first`)+"\n"+fencedCommand(`head -c 3000000 /dev/zero | tr '\0' x; printf é >&2; exit 1`)+"\n"+fencedCommand(`echo last`), nil)
	got := many.runShell(t.Context(), runIn(t.TempDir(), ""))
	assert.Equal(t, []string{"first", strings.Repeat("x", maxShellOutput-len("first")), ""}, got)

	euros := compileTemplate(fencedCommand(`printf 'ab'; for i in $(seq 30000); do printf '€'; done`), nil)
	got = euros.runShell(t.Context(), runIn(t.TempDir(), ""))
	assert.Equal(t, "ab"+strings.Repeat("€", (maxShellOutput-2)/3), got[0])
	assert.True(t, utf8.ValidString(got[0]))

	var kept headWriter
	n, err := kept.Write(make([]byte, 3*maxShellOutput))
	require.NoError(t, err)
	assert.Equal(t, 3*maxShellOutput, n, "a command is never stopped by a full pipe")
	assert.Equal(t, maxShellOutput+utf8.UTFMax, kept.Len())

	run := runIn(t.TempDir(), "")
	run.timeout = 300 * time.Millisecond
	got = compileTemplate(fencedCommand(endless), nil).runShell(t.Context(), run)
	assert.Equal(t, []string{"[shell execution failed: timed out after 300ms]"}, got)
}

func TestShellCannotStart(t *testing.T) {
	body := compileTemplate("!`echo a` !`echo b`", nil)
	tests := []struct {
		name string
		set  func(*shellRun)
		want string
	}{
		{"no such interpreter", func(r *shellRun) { r.interpreter = "no-such-shell" }, "no-such-shell"},
		{"no such directory", func(r *shellRun) { r.dir += "/gone" }, ""},
		{"a NUL byte", func(r *shellRun) { r.args = "a\x00b" }, ""},
		{"no time", func(r *shellRun) { r.timeout = 0 }, "deadline"},
		{"PowerShell joins words to the code", func(r *shellRun) { r.interpreter = "pwsh" }, "would read arguments as code"},
		{"the command processor too", func(r *shellRun) { r.interpreter = `CMD.EXE` }, "would read arguments as code"},
		{"and its scripts", func(r *shellRun) { r.interpreter = "./bash.bat" }, "would read arguments as code"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			needBash(t)
			run := runIn(t.TempDir(), "")
			tt.set(&run)
			got := body.runShell(t.Context(), run)
			require.Len(t, got, 2)
			for _, out := range got {
				assert.True(t, strings.HasPrefix(out, "[shell execution failed: ") && strings.HasSuffix(out, "]"), out)
				assert.Contains(t, out, tt.want)
			}
		})
	}
}

func TestShellInterpreter(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("sh is missing")
	}
	run := runIn(t.TempDir(), `"a b" c`)
	run.interpreter = "sh"
	got := compileTemplate("!`printf '<%s>' \"$0\" \"$ARGUMENTS[1]\" \"$ARGUMENTS[12]\" \"$ARGUMENTS[99999999]\"`", nil).
		runShell(t.Context(), run)
	assert.Equal(t, []string{"<a b><c><><>"}, got)
}

// One command that hangs or fails never spoils the rest.
func TestShellOneFailureSparesTheRest(t *testing.T) {
	needBash(t)
	run := runIn(t.TempDir(), "")
	run.timeout = 2 * time.Second
	got := compileTemplate("!`echo a` !`sleep 600` !`exit 1` !`echo b`", nil).runShell(t.Context(), run)
	assert.Equal(t, []string{"a", "[shell execution failed: timed out after 2s]", "", "b"}, got)
}

// A cancelled context stops the command that runs, and no further one starts.
func TestShellStopsWithItsContext(t *testing.T) {
	needBash(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tmpl := compileTemplate("!`touch started; sleep 600` !`touch second`", nil)
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(dir, "started")); err == nil {
				cancel()
			}
			runtime.Gosched()
		}
	}()
	got := tmpl.runShell(ctx, runIn(dir, ""))
	assert.Equal(t, []string{"[shell execution failed: context canceled]", "[shell execution failed: context canceled]"}, got)
	assert.NoFileExists(t, filepath.Join(dir, "second"))
}

// TestShellKillsTheWholeGroup: no process of a block outlives it. Each process
// holds a pipe open; that the pipe ends shows that all are gone.
func TestShellKillsTheWholeGroup(t *testing.T) {
	if _, err := exec.LookPath("mkfifo"); err != nil {
		t.Skip("mkfifo is missing")
	}
	needBash(t)
	tests := []struct {
		name, code, want string
		timeout          time.Duration
	}{
		{"at the timeout", `exec 3>pipe; sleep 600 & (sleep 600; :) & wait`, "[shell execution failed: timed out after 1s]", time.Second},
		{"after its end", `exec 3>pipe; sleep 600 & echo done`, "done", 20 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			pipe := filepath.Join(dir, "pipe")
			require.NoError(t, exec.Command("mkfifo", pipe).Run())
			ended := make(chan error, 1)
			go func() {
				_, err := os.ReadFile(pipe)
				ended <- err
			}()
			run := runIn(dir, "")
			run.timeout = tt.timeout
			assert.Equal(t, []string{tt.want}, compileTemplate(fencedCommand(tt.code), nil).runShell(t.Context(), run))
			if writer, err := os.OpenFile(pipe, os.O_RDWR, 0); assert.NoError(t, err) { // if the command never came to it
				assert.NoError(t, writer.Close())
			}
			select {
			case err := <-ended:
				assert.NoError(t, err)
			case <-time.After(10 * time.Second):
				t.Error("a process of the block is still alive")
			}
		})
	}
}
