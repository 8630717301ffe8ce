package skillbay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxShellOutput is how many bytes of output the shell blocks of one launch
// deliver in all. What is over is read and dropped, so that no command blocks
// on a full pipe.
const maxShellOutput = 64 << 10

// shellGrace is how long a command that has ended is waited for while
// processes that it left in the background still hold its output.
const shellGrace = time.Second

// shellRun is what one launch gives to the commands of a skill.
type shellRun struct {
	interpreter string        // the header's `shell`; empty: bash
	dir         string        // working directory and SKILL_DIR, forward slashes
	timeout     time.Duration // for each command
	args        string
	given       bool // false: no arguments at all, which a command sees as empty ones
	session     string
}

// runShell runs the shell blocks one after the other and returns their
// outputs, in order: valid UTF-8 with line feeds and no other control
// character than tab, at most maxShellOutput bytes in all. It never fails: a
// command that does not start, times out or is stopped by ctx leaves a line
// that says so, and the others run.
//
// Arguments reach a command as data: `interpreter -c code words…`, with the
// words as positional parameters from $0. Of the process's environment a
// command sees inheritedVariables only.
func (t *template) runShell(ctx context.Context, r shellRun) []string {
	if len(t.code) == 0 {
		return nil
	}
	var words []string
	if r.given {
		words = splitWords(r.args)
	}
	env := t.environment(r, words)
	if len(words) == 0 {
		words = []string{""} // else $0 were the interpreter's name
	}
	outputs := make([]string, len(t.code))
	left := maxShellOutput
	for i, code := range t.code {
		outputs[i] = cutAtRune(cleanOutput(r.command(ctx, code, words, env)), left)
		left -= len(outputs[i])
	}
	return outputs
}

// command runs one command and returns its output.
func (r *shellRun) command(ctx context.Context, code string, words, env []string) string {
	if err := ctx.Err(); err != nil {
		return shellFailed(err.Error())
	}
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	interpreter := r.interpreter
	if interpreter == "" {
		interpreter = "bash"
	}
	cmd := exec.CommandContext(limited, interpreter, append([]string{"-c", code}, words...)...)
	if joinsWords(cmd.Path) {
		return shellFailed(interpreter + " would read arguments as code")
	}
	var stdout, stderr headWriter
	cmd.Dir, cmd.Env = filepath.FromSlash(r.dir), env
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	stopped := false
	cmd.Cancel = func() error {
		stopped = true
		return killGroup(cmd.Process)
	}
	cmd.WaitDelay = shellGrace
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return shellFailed(err.Error())
	}
	leader := cmd.Process.Pid
	err := cmd.Wait()
	killRest(leader) // what the command left in the background

	var exit *exec.ExitError
	switch {
	case stopped && ctx.Err() != nil:
		return shellFailed(ctx.Err().Error())
	case stopped:
		return shellFailed("timed out after " + r.timeout.String())
	case errors.As(err, &exit):
		return withStderr(stdout.String(), stderr.String())
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return shellFailed(err.Error())
	}
	return stdout.String()
}

// shellFailed is the output of a shell block that could not be run.
func shellFailed(reason string) string {
	return "[shell execution failed: " + reason + "]"
}

// withStderr is the output of a command that ended with a non-zero exit.
func withStderr(stdout, stderr string) string {
	stderr = strings.TrimSpace(stderr)
	if stderr == "" {
		return stdout
	}
	stdout = strings.TrimRight(stdout, "\r\n")
	if stdout != "" {
		stdout += "\n"
	}
	return stdout + "[stderr] " + stderr
}

// cleanOutput makes text of a command's output: line feeds, what a State may
// hold, no trailing line break. What the State keeps is thus what was delivered.
func cleanOutput(s string) string {
	return strings.TrimRight(clean(lineFeeds.Replace(s)), "\n")
}

// lineFeeds turns every line break into a line feed, as in skill files.
var lineFeeds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// cutAtRune returns at most limit bytes of s, and no part of a character.
func cutAtRune(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// headWriter keeps the first maxShellOutput bytes, and a character more, of
// what is written to it.
type headWriter struct{ strings.Builder }

// Write takes p whole and never fails.
func (w *headWriter) Write(p []byte) (int, error) {
	room := maxShellOutput + utf8.UTFMax - w.Len()
	w.Builder.Write(p[:min(len(p), room)])
	return len(p), nil
}

// joinsWords reports whether an interpreter is known to join the words after
// `-c code` to the code, so that arguments would be no data: PowerShell, and
// everything that Windows runs through its command processor.
func joinsWords(path string) bool {
	base := strings.ToLower(filepath.Base(path))
	switch filepath.Ext(base) {
	case ".bat", ".cmd":
		return true
	}
	base = strings.TrimSuffix(base, ".exe")
	return base == "cmd" || strings.HasPrefix(base, "pwsh") || strings.HasPrefix(base, "powershell")
}

// inheritedVariables are what a command sees of the process's environment, with
// the systemVariables of Windows: never a key or a password of the service.
var inheritedVariables = []string{"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"}

// environment returns the environment of the commands: inheritedVariables, the
// raw arguments, the declared names (empty without a value), SKILL_DIR and
// SESSION_ID.
func (t *template) environment(r shellRun, words []string) []string {
	var env []string
	for _, name := range slices.Concat(inheritedVariables, systemVariables) {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	args := ""
	if r.given {
		args = r.args
	}
	env = append(env, argumentsName+"="+args, "SKILL_DIR="+r.dir, "SESSION_ID="+r.session)
	for i, name := range t.declared {
		env = append(env, name+"="+wordAt(words, i))
	}
	return env
}

// variableNotes says which declared names cannot be environment variables of a
// command. A user's words must not become a variable that the shell, the
// loader or a common interpreter acts on.
func variableNotes(declared []string) []note {
	var notes []note
	for _, name := range declared {
		if why := notVariable(name, os.Environ()); why != "" {
			notes = append(notes, note{severity: Warning, message: fmt.Sprintf(
				"argument %q cannot be a shell variable (%s): shell blocks stay literal text", name, why)})
		}
	}
	return notes
}

// notVariable returns why a declared name must not be an environment variable,
// or "". Names are compared in any case, since Windows does.
func notVariable(name string, environ []string) string {
	if !isShellIdentifier(name) {
		return "it is no shell identifier"
	}
	upper := strings.ToUpper(name)
	if slices.Contains(reservedVariables, upper) || slices.Contains(inheritedVariables, upper) ||
		slices.ContainsFunc(reservedPrefixes, func(p string) bool { return strings.HasPrefix(upper, p) }) {
		return "the name is reserved"
	}
	if slices.ContainsFunc(environ, func(pair string) bool {
		set, _, _ := strings.Cut(pair, "=")
		return strings.ToUpper(set) == upper
	}) {
		return "the environment has it"
	}
	return ""
}

// isShellIdentifier reports whether a shell can name a variable so.
func isShellIdentifier(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || !isDigit(c)) {
			return false
		}
	}
	return name != ""
}

// reservedVariables and reservedPrefixes are names of variables that change
// what a shell or an interpreter runs, and those that skillbay sets.
var (
	reservedVariables = []string{
		"ENV", "IFS", "SHELLOPTS", "SYSTEMROOT", "COMSPEC", argumentsName, "SKILL_DIR", "SESSION_ID",
	}
	reservedPrefixes = []string{
		"PS", "BASH", "LD_", "DYLD_", "GIT_", "PYTHON", "PERL", "NODE_", "RUBY",
	}
)

// command returns what the shell is given for a block's code, and whether a
// placeholder in it takes the arguments.
//
// `$ARGUMENTS[N]` becomes the positional parameter, `${CLAUDE_…}` the variable
// without that prefix; everything else stays shell. A placeholder after an odd
// number of apostrophes most likely stands in single quotes, where the shell
// leaves it alone (awk '{print $0}'): it takes nothing.
func (g *grammar) command(code string) (string, bool) {
	var b strings.Builder
	if strings.HasPrefix(code, "-") || strings.HasPrefix(code, "+") {
		b.WriteByte(' ') // else the shell took it for an option, and a word for the code
	}
	takes := false
	end := 0
	for _, m := range g.marks(code) {
		written := code[m.start:m.end]
		b.WriteString(code[end:m.start])
		switch {
		case m.kind == partWord && strings.HasSuffix(written, "]"):
			b.WriteString("${" + strconv.Itoa(m.n) + "-}")
		case m.kind == partDir:
			b.WriteString("${SKILL_DIR}")
		case m.kind == partSession:
			b.WriteString("${SESSION_ID}")
		default:
			b.WriteString(written)
		}
		if m.kind == partArguments || m.kind == partWord {
			takes = takes || strings.Count(code[:m.start], "'")%2 == 0
		}
		end = m.end
	}
	b.WriteString(code[end:])
	return b.String(), takes
}
