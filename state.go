package skillbay

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of a State (SPEC 9). Sizes are bytes of UTF-8, lengths characters.
const (
	stateFormat = 1

	maxStateBytes   = 1 << 20   // the whole JSON
	maxWindowBytes  = 384 << 10 // estimated JSON of the window's launches; a launch beyond is denied
	maxArgsLaunch   = 16 << 10
	maxArgsWindow   = 64 << 10
	maxArgsKept     = 1 << 10 // a launch's arguments after its window
	maxShellState   = 256 << 10
	maxReason       = 500
	maxLaunchesTurn = 64
	maxSecrets      = 4
	maxOpeners      = 8       // of a merged turn
	maxIdentifier   = 128     // a tool call's id, a tool's name
	maxKeptRecords  = 256     // launches outside the window; dismissals likewise
	maxBatchCalls   = 256     // saved
	maxNumber       = 1 << 53 // of turns, sequences and revisions: far from any overflow
)

// rawField is a top-level field of a newer release: kept and written back.
type rawField = json.RawMessage

// State is skillbay's book of one conversation: what was announced, launched
// and dismissed, the current turn, and where re-injected texts stand. Save it
// beside the conversation, after every run and also when a run failed.
//
// A State is JSON (Marshal, Unmarshal) and a database value (Scan, Value). The
// zero State is a new conversation; do not copy a State after first use. All
// methods are safe for concurrent use, and no lock is held while a model, tool
// or host function runs. One State belongs to one Config, and is trusted data:
// never hand it to a client.
type State struct {
	mu    sync.Mutex
	book  book
	batch *batch
	busy  *run // not saved; cleared on every way out of a run
	child bool // of a nested run: never saved, so OnChange is not called

	shown  shown    // what Visible said in this turn; not saved
	told   *listing // the last listing whose names the ledger holds; not saved
	seen   []string // skills whose bodies the last model call showed; not saved
	extras map[string]rawField
}

// book is what a State saves: its JSON form, but for unknown fields.
type book struct {
	Format     int         `json:"format"`
	Session    string      `json:"session"`
	Secrets    []string    `json:"secrets"`
	Revision   int64       `json:"revision"`
	Seq        int64       `json:"seq"` // the last sequence number given
	Turn       turn        `json:"turn"`
	Batch      *savedBatch `json:"batch,omitempty"`
	Announced  []string    `json:"announced,omitempty"`
	Launches   []launch    `json:"invoked,omitempty"`
	Pending    []launch    `json:"pending,omitempty"`
	Dismissals []dismissal `json:"dismissed,omitempty"`
	Anchors    []anchor    `json:"anchors,omitempty"`
}

// launch is one successful launch. Lists are those of the skill's first launch
// in the window: a later release may tighten them, never widen.
type launch struct {
	Seq       int64    `json:"seq"`
	CallID    string   `json:"id,omitempty"`
	Skill     string   `json:"skill"`
	Args      string   `json:"args,omitempty"`
	Given     bool     `json:"given,omitempty"` // arguments were given, even if empty
	Turn      int      `json:"turn"`
	Time      int64    `json:"time"`             // Unix milliseconds
	Digest    string   `json:"digest"`           // base64, the skill's as launched
	Allowed   []string `json:"allowed,omitzero"` // nil: it limits nothing; empty: no tool at all
	Banned    []string `json:"banned,omitempty"`
	Len       int      `json:"len"`  // bytes of the full observation
	Hash      string   `json:"hash"` // of the full observation
	Tokens    int      `json:"tokens"`
	Host      bool     `json:"host,omitempty"`
	Short     bool     `json:"short,omitempty"`     // answered with "stands above"
	Window    bool     `json:"window,omitempty"`    // restricts tool calls now
	Shell     []string `json:"shell,omitempty"`     // outputs of the shell blocks
	Renewed   bool     `json:"renewed,omitempty"`   // earlier launches were of another release
	Lost      bool     `json:"lost,omitempty"`      // arguments or output were dropped: the body counts as absent
	Unaudited bool     `json:"unaudited,omitempty"` // of a pending launch: audited when it joins
	Inert     bool     `json:"inert,omitempty"`     // of a fork's pending launch: it grants nothing

	policy  *policy // compiled lists; see lists
	unsaved bool    // OnChange failed for it
}

// restricts reports whether the launch holds tool calls to anything.
func (l *launch) restricts() bool { return l.Allowed != nil || len(l.Banned) > 0 }

// restricts reports whether the lists hold tool calls to anything; none do not.
func (p *policy) restricts() bool { return p != nil && (p.limits || len(p.ban) > 0) }

// lists are the recorded lists for the gate: the skill's current ones, where
// they are the same, else compiled when they are first asked for, so that a
// State that lies idle is small. The State's mu is held.
func (l *launch) lists(current *policy) *policy {
	if l.policy == nil {
		l.policy = current
		if current == nil || !current.is(l.Allowed, l.Banned) {
			p := newPolicy(l.Allowed, l.Banned, l.Allowed != nil)
			l.policy = &p
		}
	}
	return l.policy
}

// dismissal covers every launch of a skill up to a point.
type dismissal struct {
	Skill  string `json:"skill"`
	Reason string `json:"reason,omitempty"`
	Turn   int    `json:"turn"`
	Time   int64  `json:"time"`           // Unix milliseconds
	Covers int64  `json:"covers"`         // the last sequence number it covers
	Host   bool   `json:"host,omitempty"` // by Dismiss
}

// anchorKind tells how the text at an anchor reads.
type anchorKind string

const (
	anchorBody   anchorKind = "body"   // loaded earlier
	anchorHost   anchorKind = "host"   // invoked by the host, to be followed now
	anchorAbsent anchorKind = "absent" // the body has no room here
)

// anchor is the place of a re-injected body: a human message known like an
// opener. Anchors stand in the order in which their texts appear.
type anchor struct {
	Skill string     `json:"skill"`
	Turn  int        `json:"turn"` // with Seq, the launch whose body stands here
	Seq   int64      `json:"seq"`
	Kind  anchorKind `json:"kind"`
	At    opener     `json:"at"`
}

// of reports whether the body of l stands at the anchor.
func (a *anchor) of(l *launch) bool { return a.Skill == l.Skill && a.Seq == l.Seq && a.Turn == l.Turn }

// Launch is one entry of the ledger of launches, as State.Invoked returns it.
type Launch struct {
	Skill, Args string    // its name, and its arguments as recorded
	ToolCallID  string    // empty when the provider gave none, or for the host's own
	Turn        int       // 0: the host's, waiting for the next turn
	Time        time.Time // of the launch, UTC
	Digest      string    // SHA-256 in hex of the skill as launched
	Tokens      int       // of the whole observation, as Config.CountTokens counts
	Host        bool      // launched by Invoke
}

// Dismissal is one entry of the ledger of dismissals.
type Dismissal struct {
	Skill, Reason string    // its name, and why it was released
	Turn          int       // in which it was
	Time          time.Time // of the dismissal, UTC
}

// NewState returns the State of a new conversation, with a random session id
// and a secret of its own.
func NewState() *State {
	s := new(State)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready()
	return s
}

// ready makes a zero State a new conversation. s.mu is held.
func (s *State) ready() {
	if s.book.Format != 0 {
		return
	}
	var secret [16]byte
	rand.Read(secret[:]) // never fails: crypto/rand
	s.book = book{
		Format:  stateFormat,
		Session: newSessionID(),
		Secrets: []string{base64.RawStdEncoding.EncodeToString(secret[:])},
	}
}

// newSessionID is a random UUID (RFC 9562, version 4).
func newSessionID() string {
	var id [16]byte
	rand.Read(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	text := hex.EncodeToString(id[:])
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}

// do runs f under the lock, on a State that is ready.
func (s *State) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready()
	f()
}

// changed counts a change. s.mu is held.
func (s *State) changed() { s.book.Revision++ }

// SessionID is the conversation's random id.
func (s *State) SessionID() (id string) {
	s.do(func() { id = s.book.Session })
	return id
}

// Turn is the number of the current turn; 0 before any.
func (s *State) Turn() (n int) {
	s.do(func() { n = s.book.Turn.N })
	return n
}

// Revision rises with every change of the State.
func (s *State) Revision() (n int64) {
	s.do(func() { n = s.book.Revision })
	return n
}

// Active names the skills that were launched in this conversation and not
// dismissed since, in the order of their last launch. A skill that the current
// release lacks is listed while it is recorded.
func (s *State) Active() (names []string) {
	s.do(func() {
		for i := range s.book.Launches {
			if l := &s.book.Launches[i]; s.active(l) {
				names = append(names, l.Skill)
			}
		}
		for _, l := range s.book.Pending {
			names = append(slices.DeleteFunc(names, func(n string) bool { return n == l.Skill }), l.Skill)
		}
	})
	return names
}

// Announced names the skills that the model was told of, sorted.
func (s *State) Announced() (names []string) {
	s.do(func() { names = slices.Clone(s.book.Announced) })
	return names
}

// Invoked returns the recorded launches in order: the last of every active
// skill, those of the current window, and those of the host that wait for the
// next turn.
func (s *State) Invoked() (launches []Launch) {
	s.do(func() {
		for i, l := range slices.Concat(s.book.Launches, s.book.Pending) {
			if i >= len(s.book.Launches) {
				l.Turn = 0
			}
			digest, _ := base64.RawStdEncoding.DecodeString(l.Digest)
			launches = append(launches, Launch{
				Skill: l.Skill, Args: l.Args, ToolCallID: l.CallID, Turn: l.Turn, Time: instant(l.Time),
				Digest: hex.EncodeToString(digest), Tokens: l.Tokens, Host: l.Host,
			})
		}
	})
	return launches
}

// Dismissed returns the last dismissal of every skill that has one.
func (s *State) Dismissed() (dismissals []Dismissal) {
	s.do(func() {
		for _, d := range s.book.Dismissals {
			dismissals = append(dismissals, Dismissal{Skill: d.Skill, Reason: d.Reason, Turn: d.Turn, Time: instant(d.Time)})
		}
	})
	return dismissals
}

// instant is the time of a ledger's entry.
func instant(millis int64) time.Time { return time.UnixMilli(millis).UTC() }

// last returns the skill's last launch, or nil. s.mu is held.
func (s *State) last(skill string) *launch {
	for i := len(s.book.Launches) - 1; i >= 0; i-- {
		if s.book.Launches[i].Skill == skill {
			return &s.book.Launches[i]
		}
	}
	return nil
}

// first returns the skill's first launch in the window, or nil. s.mu is held.
func (s *State) first(skill string) *launch {
	for i := range s.book.Launches {
		if l := &s.book.Launches[i]; l.Window && l.Skill == skill {
			return l
		}
	}
	return nil
}

// dismissal returns the skill's last dismissal, or nil. s.mu is held.
func (s *State) dismissal(skill string) *dismissal {
	for i := range s.book.Dismissals {
		if s.book.Dismissals[i].Skill == skill {
			return &s.book.Dismissals[i]
		}
	}
	return nil
}

// dismissed reports whether a dismissal covers the launch. s.mu is held.
func (s *State) dismissed(l *launch) bool {
	d := s.dismissal(l.Skill)
	return d != nil && d.covers(l)
}

// covers compares turns first: in merged copies, numbers may overlap.
func (d *dismissal) covers(l *launch) bool {
	return l.Turn < d.Turn || l.Turn == d.Turn && l.Seq <= d.Covers
}

// active reports whether l is its skill's last launch and not dismissed.
// s.mu is held.
func (s *State) active(l *launch) bool {
	last := s.last(l.Skill)
	return last != nil && last.Seq == l.Seq && last.Turn == l.Turn && !s.dismissed(l)
}

// number gives a launch of the host's the next number. s.mu is held.
func (s *State) number(l *launch) {
	s.book.Seq++
	l.Seq, l.Turn = s.book.Seq, s.book.Turn.N
}

// enter records a launch in the window, under the lists of the skill's first
// launch there. s.mu is held.
func (s *State) enter(l launch) {
	if f := s.first(l.Skill); f != nil {
		l.Allowed, l.Banned = f.Allowed, f.Banned
	}
	l.Window, l.policy = true, nil
	at, _ := slices.BinarySearchFunc(s.book.Launches, l, func(a, b launch) int {
		return cmp.Or(cmp.Compare(a.Turn, b.Turn), cmp.Compare(a.Seq, b.Seq))
	})
	s.book.Launches = slices.Insert(s.book.Launches, at, l) // a batch may run out of order
	s.prune(nil)
}

// room reports whether one more launch of that size fits the bounds of the
// current window. s.mu is held.
func (s *State) room(l *launch) bool {
	if len(l.Args) > maxArgsLaunch {
		return false
	}
	launches, args, size := len(s.book.Pending), len(l.Args), l.size()
	for _, p := range s.book.Pending {
		args += len(p.Args)
		size += p.size()
	}
	for i := range s.book.Launches {
		if w := &s.book.Launches[i]; w.Window {
			if w.Turn == s.book.Turn.N {
				launches++
			}
			args += len(w.Args)
			size += w.size()
		}
	}
	return launches < maxLaunchesTurn && args <= maxArgsWindow && size <= maxWindowBytes
}

// retire drops what a launch needs in a window only.
func (l *launch) retire() {
	l.Window, l.Allowed, l.Banned, l.policy = false, nil, nil, nil
	if len(l.Args) > maxArgsKept {
		l.Args, l.Lost = "", true
	}
}

// size estimates the launch's JSON without shell output: escapes double at
// most, since control characters do not enter a State.
func (l *launch) size() int {
	n := 400 + len(l.Skill) + len(l.CallID) + 2*len(l.Args)
	for _, list := range [][]string{l.Allowed, l.Banned} {
		for _, e := range list {
			n += 2*len(e) + 3
		}
	}
	return n
}

// shellSize is the length of the launch's shell output.
func (l *launch) shellSize() (n int) {
	for _, out := range l.Shell {
		n += len(out)
	}
	return n
}

// size estimates the book's JSON likewise. The window comes first in the
// bounds: what is dropped to make room is only ever what a body needs.
func (b *book) size() int {
	n := 4 << 10
	for _, name := range b.Announced {
		n += len(name) + 3
	}
	for _, list := range [][]launch{b.Launches, b.Pending} {
		for i := range list {
			n += list[i].size() + 2*list[i].shellSize()
		}
	}
	for _, d := range b.Dismissals {
		n += 200 + len(d.Skill) + 2*len(d.Reason)
	}
	return n + 400*len(b.Anchors) + maxBatchCalls*(2*maxIdentifier+100)
}

// bound keeps shell output, and the whole JSON, within their bounds: the oldest
// output goes first, then arguments kept after the window, then reasons, then
// the window's arguments. A record of the window itself never goes; a body that
// lost something counts as absent. s.mu is held.
func (s *State) bound() {
	b := &s.book
	shell := 0
	for i := len(b.Launches) - 1; i >= 0; i-- {
		l := &b.Launches[i]
		if shell += l.shellSize(); shell > maxShellState && l.Shell != nil {
			l.Shell, l.Lost = nil, true
		}
	}
	over := b.size() - maxStateBytes
	for i := 0; i < len(b.Launches) && over > 0; i++ {
		if l := &b.Launches[i]; l.Shell != nil {
			over -= 2 * l.shellSize()
			l.Shell, l.Lost = nil, true
		}
	}
	dropArgs := func(window bool) {
		for i := 0; i < len(b.Launches) && over > 0; i++ {
			if l := &b.Launches[i]; l.Window == window && l.Args != "" {
				over -= 2 * len(l.Args)
				l.Args, l.Lost = "", true
			}
		}
	}
	dropArgs(false)
	for i := 0; i < len(b.Dismissals) && over > 0; i++ {
		over -= 2 * len(b.Dismissals[i].Reason)
		b.Dismissals[i].Reason = ""
	}
	dropArgs(true) // of a window only what merging united can come to this
}

// prune keeps a State small (SPEC 9): outside the window it keeps the last
// launch of a skill that is neither dismissed nor gone, and what an anchor
// needs. current gives the lists of skills that still exist; nil: all do. s.mu is
// held.
func (s *State) prune(current func(string) *policy) {
	b := &s.book
	kept := 0
	for i := len(b.Launches) - 1; i >= 0; i-- {
		l := &b.Launches[i]
		if l.Window {
			continue
		}
		l.retire()
		anchored := slices.ContainsFunc(b.Anchors, func(a anchor) bool { return a.of(l) })
		if s.active(l) && (current == nil || current(l.Skill) != nil) || anchored && !s.dismissed(l) {
			if kept++; kept <= maxKeptRecords {
				continue
			}
		}
		b.Launches = slices.Delete(b.Launches, i, i+1)
	}
	if over := len(b.Dismissals) - maxKeptRecords; over > 0 {
		b.Dismissals = slices.Delete(b.Dismissals, 0, over)
	}
	b.Anchors = slices.DeleteFunc(b.Anchors, func(a anchor) bool {
		return !slices.ContainsFunc(b.Launches, func(l launch) bool { return a.of(&l) })
	})
	s.bound()
}

// dismiss records a dismissal and takes the skill's body out. s.mu is held.
func (s *State) dismiss(d dismissal) {
	b := &s.book
	b.Dismissals = append(slices.DeleteFunc(b.Dismissals, func(o dismissal) bool { return o.Skill == d.Skill }), d)
	slices.SortFunc(b.Dismissals, compareDismissals)
	b.Anchors = slices.DeleteFunc(b.Anchors, func(a anchor) bool { return a.Skill == d.Skill })
	if d.Host {
		b.Pending = slices.DeleteFunc(b.Pending, func(l launch) bool { return l.Skill == d.Skill })
	}
	for i := range b.Pending { // what waits is no concern of the model's: it comes after
		if l := &b.Pending[i]; l.Skill == d.Skill {
			s.number(l)
		}
	}
	s.prune(nil)
	s.changed()
}

// announce returns those names that the ledger does not hold, and enters them.
// s.mu is held.
func (s *State) announce(names []string) []string {
	var news []string
	for _, name := range names {
		if _, known := slices.BinarySearch(s.book.Announced, name); !known {
			news = append(news, name)
		}
	}
	if news != nil {
		s.book.Announced = slices.Compact(slices.Sorted(slices.Values(slices.Concat(s.book.Announced, news))))
		s.changed()
	}
	return news
}

// unannounce takes names out again that no model was told. s.mu is held.
func (s *State) unannounce(names []string) {
	s.book.Announced = slices.DeleteFunc(s.book.Announced, func(name string) bool { return slices.Contains(names, name) })
	s.told = nil
	s.changed()
}

// acquire marks the State as used by r, or returns ErrBusy.
func (s *State) acquire(r *run) (err error) {
	s.do(func() {
		if s.busy != nil {
			err = ErrBusy
			return
		}
		s.busy = r
	})
	return err
}

func (s *State) release() { s.do(func() { s.busy = nil }) }

func (s *State) running() (r *run) {
	s.do(func() { r = s.busy })
	return r
}

// Fork returns a State for an edited or branched copy of the conversation: a
// new session id and the same secret. Launches so far stay as limits there and
// grant nothing.
func (s *State) Fork() *State {
	fork := new(State)
	s.do(func() {
		fork.book = s.book.clone()
		fork.extras = maps.Clone(s.extras)
	})
	fork.book.Session = newSessionID()
	fork.book.Turn.Grants = fork.book.Seq
	for i := range fork.book.Pending {
		fork.book.Pending[i].Inert = true
	}
	fork.book.Batch = nil
	return fork
}

// inner returns the State of a run nested in a tool call of s.
func (s *State) inner() *State {
	child := NewState()
	child.book.Session = s.SessionID()
	child.child = true
	return child
}

// clone copies the book so that no slice is shared.
func (b *book) clone() book {
	c := *b
	c.Secrets = slices.Clone(b.Secrets)
	c.Turn.Refused = slices.Clone(b.Turn.Refused)
	c.Turn.Also = slices.Clone(b.Turn.Also)
	c.Announced = slices.Clone(b.Announced)
	c.Launches = slices.Clone(b.Launches)
	c.Pending = slices.Clone(b.Pending)
	c.Dismissals = slices.Clone(b.Dismissals)
	c.Anchors = slices.Clone(b.Anchors)
	return c
}

// sign returns the key that marks text as this State's own reminder.
func (s *State) sign(text string) (key string) {
	s.do(func() { key = s.book.sign(0, text) })
	return key
}

// verify reports whether key marks text as this State's own reminder.
// s.mu is held.
func (s *State) verify(key, text string) bool {
	for i := range s.book.Secrets {
		if hmac.Equal([]byte(key), []byte(s.book.sign(i, text))) {
			return true
		}
	}
	return false
}

func (b *book) sign(secret int, text string) string {
	key, _ := base64.RawStdEncoding.DecodeString(b.Secrets[secret])
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))[:32]
}

// clean makes text fit for a State: valid UTF-8, and no control characters but
// tab and line breaks.
func clean(text string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, unfit) < 0 {
		return text
	}
	return strings.Map(func(r rune) rune {
		if unfit(r) {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
}

func unfit(r rune) bool {
	return unicode.IsControl(r) && r != '\t' && r != '\n' && r != '\r'
}

// cut shortens text to at most n characters.
func cut(text string, n int) string {
	for i := range text {
		if n--; n < 0 {
			return text[:i]
		}
	}
	return text
}

// identifier bounds an id or a name that comes from outside: one that is too
// long becomes its hash.
func identifier(text string) string {
	if text = clean(text); len(text) > maxIdentifier {
		return "sha256:" + hashOf(text)
	}
	return text
}

// MarshalJSON encodes the State, as Value does; json.Marshal additionally
// escapes `<`, `>` and `&`. Unknown top-level fields of a newer release
// are written back as they came.
func (s *State) MarshalJSON() (data []byte, err error) {
	s.do(func() {
		s.book.Batch = s.batch.saved()
		data, err = encode(s.book)
		if err != nil || len(s.extras) == 0 {
			return
		}
		var fields map[string]rawField
		if err = json.Unmarshal(data, &fields); err != nil {
			return
		}
		maps.Copy(fields, s.extras)
		data, err = encode(fields)
	})
	return data, err
}

// encode is json.Marshal without HTML escaping.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

// UnmarshalJSON decodes a State. On any error the State is unchanged: it is
// never silently reset.
func (s *State) UnmarshalJSON(data []byte) error {
	decoded, extras, err := decode(data)
	if err != nil {
		return &Error{Op: "decode state", Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy != nil {
		return &Error{Op: "decode state", Err: ErrBusy}
	}
	s.book, s.extras = decoded, extras
	s.batch, s.book.Batch = decoded.Batch.restored(), nil
	s.shown, s.told, s.seen = shown{}, nil, nil
	return nil
}

func decode(data []byte) (b book, extras map[string]rawField, err error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return b, nil, fmt.Errorf("%w: empty", ErrState)
	}
	if err := json.Unmarshal(data, &extras); err != nil {
		return b, nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	var format int
	if err := json.Unmarshal(extras["format"], &format); err != nil || format < 1 {
		return b, nil, fmt.Errorf("%w: no format number", ErrState)
	}
	if format > stateFormat {
		return b, nil, fmt.Errorf("%w: format %d is newer than %d", ErrState, format, stateFormat)
	}
	known := map[string]rawField{} // exact names: encoding/json would also take other cases
	for name := range knownFields {
		if value, ok := extras[name]; ok {
			known[name] = value
			delete(extras, name)
		}
	}
	exact, err := json.Marshal(known)
	if err == nil {
		err = json.Unmarshal(exact, &b)
	}
	if err == nil {
		err = b.check()
	}
	if err != nil {
		return b, nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	if len(extras) == 0 {
		extras = nil
	}
	slices.Sort(b.Announced)
	b.Announced = packed(slices.Compact(b.Announced))
	b.Launches = slices.Clone(b.Launches) // without the room that decoding left
	return b, extras, nil
}

// packed returns names that share the memory of one text: short ones take less
// than half as much so.
func packed(names []string) []string {
	all := strings.Join(names, "")
	out := make([]string, len(names))
	for i, name := range names {
		out[i], all = all[:len(name)], all[len(name):]
	}
	return out
}

// knownFields are the JSON names of book's fields.
var knownFields = func() map[string]bool {
	data, _ := json.Marshal(book{
		Batch: &savedBatch{}, Announced: []string{""}, Launches: make([]launch, 1),
		Pending: make([]launch, 1), Dismissals: make([]dismissal, 1), Anchors: make([]anchor, 1),
	})
	var fields map[string]rawField
	_ = json.Unmarshal(data, &fields)
	known := make(map[string]bool, len(fields))
	for name := range fields {
		known[name] = true
	}
	return known
}()

// check refuses a book that no State could have written.
func (b *book) check() error {
	if b.Session == "" || len(b.Secrets) == 0 || len(b.Secrets) > maxSecrets {
		return fmt.Errorf("no session or secret")
	}
	for _, secret := range b.Secrets {
		if raw, err := base64.RawStdEncoding.DecodeString(secret); err != nil || len(raw) < 16 {
			return fmt.Errorf("malformed secret")
		}
	}
	for _, n := range []int64{b.Seq, int64(b.Turn.N), b.Turn.Grants, b.Revision} {
		if n < 0 || n > maxNumber {
			return fmt.Errorf("a number that cannot be: %d", n)
		}
	}
	for _, l := range slices.Concat(b.Launches, b.Pending) {
		if l.Skill == "" || l.Seq < 0 || l.Seq > b.Seq || l.Turn > b.Turn.N {
			return fmt.Errorf("a launch that cannot be: skill %q, sequence %d", l.Skill, l.Seq)
		}
	}
	if b.Batch != nil && (b.Batch.Base < 0 || b.Batch.Size < 0 || b.Batch.Base > b.Seq) {
		return fmt.Errorf("a batch that cannot be")
	}
	return nil
}

// Scan implements sql.Scanner. NULL is a new conversation.
func (s *State) Scan(src any) error {
	switch src := src.(type) {
	case nil:
		fresh := NewState()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.busy != nil {
			return &Error{Op: "decode state", Err: ErrBusy}
		}
		s.book, s.batch, s.extras = fresh.book, nil, nil
		s.shown, s.told, s.seen = shown{}, nil, nil
		return nil
	case []byte:
		return s.UnmarshalJSON(src)
	case string:
		return s.UnmarshalJSON([]byte(src))
	}
	return &Error{Op: "decode state", Err: fmt.Errorf("%w: cannot scan a %T", ErrState, src)}
}

// Value implements driver.Valuer: the State's JSON as a string. A nil State is
// NULL.
func (s *State) Value() (driver.Value, error) {
	if s == nil {
		return nil, nil
	}
	data, err := s.MarshalJSON()
	return string(data), err
}

var (
	_ sql.Scanner   = (*State)(nil)
	_ driver.Valuer = (*State)(nil)
)
