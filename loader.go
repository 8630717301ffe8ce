package skillbay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// limits are what New knows of its Config that decides whether a skill loads.
type limits struct {
	bodyTokens     int              // a longer body refuses the skill; 0: no limit
	reinjectTokens int              // a longer body is reported; 0 or less: never
	count          func(string) int // tokens of a text; safe for concurrent use
	shell          bool             // shell blocks are enabled
}

// load reads the sources, in order, once and whole.
//
// A later skill replaces an earlier one of the same name, and also does so when
// it is itself refused: a broken header must not bring back an earlier skill
// that restricts less. Of those left, a real directory that several names lead
// to is loaded under the first: first source, then name order.
//
// The skills come in name order, and the diagnostics in the order of sources
// and names, whatever order things were read in. An error concerns a source
// that cannot be listed; it is an *Error and matches ErrSource and the cause.
func load(sources []Source, lim limits) (skills []*frozen, diags []Diagnostic, err error) {
	var found []candidate
	for i, source := range sources {
		candidates, loose, err := source.candidates(i)
		if err != nil {
			return nil, nil, err
		}
		if loose {
			diags = append(diags, Diagnostic{Path: source.String(), Message: "a SKILL.md lies in the source itself " +
				"and is not loaded: a skill is a sub-directory of a source"})
		}
		found = append(found, candidates...)
	}

	findings := loadAll(found, lim)
	settleNames(findings)
	settleDirectories(findings)
	for _, got := range findings {
		diags = append(diags, got.diags...)
		if got.skill != nil {
			skills = append(skills, got.skill)
		}
	}
	slices.SortFunc(skills, func(a, b *frozen) int { return strings.Compare(a.Name, b.Name) })
	return skills, diags, nil
}

// finding is what became of a candidate.
type finding struct {
	candidate
	skill  *frozen // nil: nothing was loaded
	claims bool    // it takes its name, loaded or refused: it is a skill, or was meant to be one
	diags  []Diagnostic
}

// loadAll loads the candidates on all processors; finding i is that of
// candidate i.
func loadAll(found []candidate, lim limits) []finding {
	findings := make([]finding, len(found))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(found)) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			r := newReader()
			for i := next.Add(1) - 1; i < int64(len(found)); i = next.Add(1) - 1 {
				findings[i] = r.load(found[i], lim)
			}
		}()
	}
	workers.Wait()
	return findings
}

// settleNames leaves each name to the last finding that claims it.
func settleNames(findings []finding) {
	holder := make(map[string]*finding, len(findings))
	for i := range findings {
		got := &findings[i]
		if !got.claims {
			continue
		}
		if earlier, taken := holder[got.name]; taken {
			earlier.giveWay(fmt.Sprintf("%s of source %d is replaced by %s of source %d",
				earlier.join(skillFile), earlier.source+1, got.join(skillFile), got.source+1))
		}
		holder[got.name] = got
	}
}

// settleDirectories leaves each real directory to the first finding that leads
// to it.
func settleDirectories(findings []finding) {
	holder := make(map[string]*finding, len(findings))
	for i := range findings {
		got := &findings[i]
		if !got.claims || got.real == "" {
			continue
		}
		if first, taken := holder[got.real]; taken {
			got.giveWay(fmt.Sprintf("%s is the same directory as %s and is loaded only under that name",
				got.join("."), first.join(".")))
			continue
		}
		holder[got.real] = got
	}
}

// giveWay drops what was loaded, and what was said of it, for another's sake.
func (got *finding) giveWay(why string) {
	got.skill, got.claims, got.diags = nil, false, nil
	got.report(skillFile, note{message: why})
}

// report adds a diagnostic about the file rel of the candidate.
func (got *finding) report(rel string, notes ...note) {
	for _, n := range notes {
		got.diags = append(got.diags, Diagnostic{
			Skill: got.name, Path: got.join(rel), Line: n.line, Severity: n.severity, Message: n.message,
		})
	}
}

// refuse reports why the candidate does not load.
func (got *finding) refuse(rel, format string, args ...any) {
	got.report(rel, note{severity: Refused, message: fmt.Sprintf(format, args...)})
}

// refused tells whether anything reported so far refuses the skill.
func (got *finding) refused() bool {
	return slices.ContainsFunc(got.diags, func(d Diagnostic) bool { return d.Severity == Refused })
}

// load reads one candidate and makes a frozen skill of it. It never panics: an
// fs.FS and the host's CountTokens are foreign code, and a panic on a goroutine
// of loadAll would end the process.
func (r *reader) load(c candidate, lim limits) (got finding) {
	got.candidate = c
	defer func() {
		if v := recover(); v != nil {
			got.skill, got.claims = nil, true
			got.refuse(".", "loading it panicked: %v", v)
		}
	}()
	if problem := badSkillName(c.name); problem != "" {
		got.refuse(".", "%s", problem)
		return got
	}
	f, err := got.open()
	if errors.Is(err, errNoDirectory) {
		got.report(".", note{message: err.Error()})
		return got
	}
	if err != nil {
		got.claims = true
		got.refuse(".", "the directory cannot be opened: %v", cause(err))
		return got
	}
	defer f.close()
	top, err := f.list(".")
	if err != nil {
		got.claims = true
		got.refuse(".", "the directory cannot be listed: %v", cause(err))
		return got
	}
	exact, other := findSkillFile(top)
	switch {
	case exact:
		got.claims = true
		if other != "" {
			got.report(other, note{message: fmt.Sprintf("%q beside SKILL.md is an ordinary file", other)})
		}
		got.freeze(r.read(f, top), lim)
	case other != "":
		got.claims = true
		got.refuse(other, "rename %s to SKILL.md: the case matters, on every operating system", other)
	default:
		got.explain(f, top)
	}
	return got
}

// errNoDirectory is a link to something else: a loose file, so to speak.
var errNoDirectory = errors.New("the link does not lead to a directory and is not loaded")

// open opens the candidate's directory, and finds where a link leads.
func (got *finding) open() (folder, error) {
	if got.fsys != nil {
		if got.link {
			return nil, errNoLinks
		}
		return fsFolder{got.fsys, got.dir}, nil
	}
	if got.link {
		target, err := filepath.EvalSymlinks(got.dir)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(target)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			return nil, errNoDirectory
		}
		got.real = target
	}
	f, err := openDisk(got.real)
	if err != nil {
		return nil, err // not f: a nil *diskFolder is no nil folder
	}
	return f, nil
}

// findSkillFile tells whether a directory holds SKILL.md, and returns a name
// that differs from it in case. Listed names are compared, and none is opened
// by guess: so every file system answers alike.
func findSkillFile(entries []fs.DirEntry) (exact bool, other string) {
	for _, entry := range entries {
		switch name := entry.Name(); {
		case name == skillFile:
			exact = true
		case strings.EqualFold(name, skillFile):
			other = name
		}
	}
	return exact, other
}

// explain reports a directory without SKILL.md. It is no skill; if skills lie
// deeper, something that was meant to load does not, and it counts as refused.
func (got *finding) explain(f folder, top []fs.DirEntry) {
	deeper, complete := skillsBelow(f, top)
	if len(deeper) == 0 {
		got.report(".", note{message: "the directory has no SKILL.md, and none was found deeper"})
		return
	}
	atLeast := ""
	if !complete {
		atLeast = "at least "
	}
	got.refuse(".", "the directory has no SKILL.md; %s%d lie deeper (say, %s), but only direct sub-directories "+
		"of a source are skills: make it a source of its own", atLeast, len(deeper), deeper[0])
}

// skillsBelow lists the SKILL.md files deeper than entries, the nearest first.
// It does not follow links and looks at no more than 1000 directories; complete
// is false when that, or an error, kept it from seeing all.
func skillsBelow(f folder, entries []fs.DirEntry) (found []string, complete bool) {
	complete = true
	var queue []string
	add := func(dir string, entries []fs.DirEntry) {
		for _, entry := range entries {
			if entry.IsDir() && !hidden(entry.Name()) {
				queue = append(queue, path.Join(dir, entry.Name()))
			}
		}
	}
	add(".", entries)
	for looked := 0; looked < len(queue); looked++ {
		if looked == 1000 {
			return found, false
		}
		dir := queue[looked]
		entries, err := f.list(dir)
		if err != nil {
			complete = false
			continue
		}
		if exact, _ := findSkillFile(entries); exact {
			found = append(found, path.Join(dir, skillFile))
		}
		add(dir, entries)
	}
	return found, complete
}

// freeze makes the skill of what was read, or reports why not.
func (got *finding) freeze(read snapshot, lim limits) {
	for _, fault := range read.faults {
		severity := Warning
		if fault.path == skillFile {
			severity = Refused
		}
		got.report(fault.path, note{severity: severity, message: fault.message})
	}
	got.report(skillFile, read.notes...)
	if got.refused() {
		return
	}
	s, notes := parseSkill(read.text)
	got.report(skillFile, notes...)
	if got.refused() {
		return
	}
	tokens := lim.count(s.Body)
	if lim.bodyTokens > 0 && tokens > lim.bodyTokens {
		got.refuse(skillFile, "the body has %d tokens, over the %d that are half of ContextWindow", tokens, lim.bodyTokens)
		return
	}
	if lim.reinjectTokens > 0 && tokens > lim.reinjectTokens {
		got.report(skillFile, note{message: fmt.Sprintf(
			"the body has %d tokens, over the ReinjectBudget of %d: it is never injected again", tokens, lim.reinjectTokens)})
	}
	if !plainName.MatchString(got.name) || len(got.name) > maxNameLength {
		got.report(".", note{message: fmt.Sprintf("the name %q breaks the Agent Skills rule: "+
			"lower-case letters, digits and single hyphens, at most %d characters", got.name, maxNameLength)})
	}

	s.Name, s.Dir, s.Digest, s.Files = got.name, got.dir, read.digest, read.files
	if got.fsys != nil {
		s.Dir = "skill://" + got.name
	}
	body := compileTemplate(s.Body, s.Arguments)
	if lim.shell {
		got.report(skillFile, body.shellNotes()...)
		if got.fsys != nil && body.shellBlocks() > 0 {
			got.report(skillFile, note{message: "shell blocks of a skill from an fs.FS stay literal text"})
		}
	}
	got.skill = &frozen{
		Skill:  s,
		policy: newPolicy(s.AllowedTools, s.DisallowedTools, s.AllowedTools != nil),
		body:   body,
		files:  read.texts,
		path:   got.join(skillFile),
		onDisk: got.fsys == nil,
	}
}

// The naming rule of the Agent Skills specification (agentskills.io, field
// `name`). A name that breaks it loads all the same.
const maxNameLength = 64

var plainName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// badSkillName says why no skill may bear the name; it is empty when one may.
// The name stands in paths, in lines that the model reads, in tags and in
// answers that are searched for it, so it holds nothing that ends one of those,
// and nothing that cannot be seen.
func badSkillName(name string) string {
	if name == "" || !utf8.ValidString(name) {
		return fmt.Sprintf("the name %q is not valid UTF-8 text", name)
	}
	for _, r := range name {
		tag := r >= 0xE0000 && r <= 0xE007F
		if tag || strings.ContainsRune("/\\:<>&\"'`", r) ||
			unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp) {
			return fmt.Sprintf("the name %q holds the character %q, which no skill name may", name, r)
		}
	}
	return ""
}
