package skillbay

import (
	"maps"
	"slices"
	"sync"
)

// Skill is one loaded skill as the host sees it: a value, whose slices and
// maps are copies that the caller may keep or change.
//
// The zero Skill names nothing and restricts nothing.
type Skill struct {
	// Name is the directory's name: the only identity of a skill.
	Name string
	// DisplayName is the header's `name`, for people.
	DisplayName string
	// Description says what the skill is for; one text, as the author wrote it.
	Description string
	// WhenToUse is the header's `when_to_use`; the listing appends it.
	WhenToUse string

	// AllowedTools are the entries of `allowed-tools` in source order. Nil: the
	// key is absent. Empty: present, and allows no tool at all.
	AllowedTools []string
	// DisallowedTools are the entries of `disallowed-tools`. Nil: absent.
	DisallowedTools []string
	// Restricted is true when either list is present, even if empty.
	Restricted bool

	// Arguments are the declared argument names.
	Arguments []string
	// ArgumentHint is text for people.
	ArgumentHint string
	// DisableModelInvocation keeps the skill from the model: only the host
	// launches it, with Invoke.
	DisableModelInvocation bool
	// UserInvocable is true unless the header says false.
	UserInvocable bool

	// Model, Version and Shell are carried as the header has them.
	Model, Version, Shell string
	// License and Compatibility are carried as the header has them.
	License, Compatibility string
	// Paths are the header's path patterns, a trailing `/**` dropped.
	Paths []string
	// Metadata holds `metadata:` and every unknown key, as source text.
	Metadata map[string]string

	// Dir is the skill's absolute directory, or "skill://<name>" for a skill
	// from an fs.FS.
	Dir string
	// Body is the text after the header.
	Body string
	// Digest is the SHA-256, in hex, over the paths and contents of all files.
	Digest string
	// Files are the skill's other files, slash-separated and sorted.
	Files []string
}

// clone copies s so that the receiver of a Skill cannot reach the frozen one.
func (s Skill) clone() Skill {
	s.AllowedTools = slices.Clone(s.AllowedTools)
	s.DisallowedTools = slices.Clone(s.DisallowedTools)
	s.Arguments = slices.Clone(s.Arguments)
	s.Paths = slices.Clone(s.Paths)
	s.Metadata = maps.Clone(s.Metadata)
	s.Files = slices.Clone(s.Files)
	return s
}

// frozen is a skill as New read it: the public value and what is derived from
// it once. Nothing in it changes after New, save that texts are made when they
// are first needed.
type frozen struct {
	Skill
	policy policy            // compiled allowed-tools and disallowed-tools
	body   *template         // compiled body
	files  map[string]string // contents of the readable other files, by path
	sum    string            // Digest as ledgers store it: base64
	path   string            // the SKILL.md's path, for messages
	onDisk bool              // Dir is a real directory
	made   sync.Once         // for texts, by Middleware.ready
	texts  texts
}

// texts are what a launch without arguments says of a skill whose body is then
// the same in every conversation. The zero texts mean: it is not.
type texts struct {
	observation string
	hash        string // of observation, as ledgers store it
	tokens      int    // of observation
	again       string // when it is re-injected, defused
}

// Severity grades a Diagnostic.
type Severity int

const (
	// Warning: the skill loaded, and something in it deserves a look.
	Warning Severity = iota
	// Refused: the skill did not load.
	Refused
)

// String returns "warning" or "refused".
func (s Severity) String() string {
	if s == Refused {
		return "refused"
	}
	return "warning"
}

// Diagnostic is one finding of New about a skill or its files.
type Diagnostic struct {
	Skill    string   // the skill's name; empty when it concerns a source or the listing
	Path     string   // the file or directory
	Line     int      // 1-based; 0 when no line is meant
	Severity Severity // Warning or Refused
	Message  string   // one sentence
}

// note is a diagnostic before it is known which skill and path it concerns.
type note struct {
	line     int
	severity Severity
	message  string
}
