package skillbay

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
)

// reasonIdle is the reason of a release by Config.IdleTurns.
const reasonIdle = "idle"

// openerKind tells what a turn was opened by, or an anchor hangs on.
type openerKind string

const (
	byMessage openerKind = "message" // a human message of a loop's history
	byRun     openerKind = "run"     // the input of an Executor run
	byHost    openerKind = "host"    // BeginTurn
)

// opener identifies what opened a turn without keeping its text: SPEC 10.1.
// The zero opener matches nothing that stands in a history.
type opener struct {
	Kind openerKind `json:"kind,omitempty"`
	Len  int        `json:"len,omitempty"`  // bytes of its text
	Hash string     `json:"hash,omitempty"` // hashOf its text
	Nth  int        `json:"nth,omitempty"`  // how many equal human texts stand before it
}

// turn is the conversation's current turn. The zero turn is "before any".
type turn struct {
	N      int    `json:"n"`
	Opener opener `json:"opener"`
	// Also are the openers of copies that were merged into this turn.
	Also      []opener `json:"also,omitempty"`
	Answered  bool     `json:"answered,omitempty"`
	ByHost    bool     `json:"by_host,omitempty"`   // begun by BeginTurn: no message opened it
	Explicit  bool     `json:"explicit,omitempty"`  // BeginTurn was used on this State: model calls begin no turns
	Contested bool     `json:"contested,omitempty"` // merged from copies that differ
	// Grants is the sequence number after which launches grant guarded tools.
	// It serves turn starts, going on under another message, and Fork.
	Grants int64 `json:"grants,omitempty"`
	// Refused names skills whose re-injection Permit refused in this turn.
	Refused []string `json:"refused,omitempty"`
}

// openedBy reports whether the turn was opened so, here or in a merged copy.
func (t *turn) openedBy(o opener) bool { return t.Opener == o || slices.Contains(t.Also, o) }

// hashOf is the hash that ledgers store for texts: the first 16 bytes of their
// SHA-256, base64. A text of the same length and hash would take 2^128 tries.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	var code [22]byte
	return string(base64.RawStdEncoding.AppendEncode(code[:0], sum[:16]))
}

// turnRules is what a Config says of turns, and current gives the lists of skills
// that still exist.
type turnRules struct {
	keepWindow bool
	idleTurns  int
	current    func(string) *policy
}

// turnStart is what the start of a turn, or going on with it, brought about that
// is to be audited.
type turnStart struct {
	joined   []launch    // launches of the host that join the turn
	waited   bool        // some waited until now
	released []dismissal // skills that were idle for too long
}

// begin starts the next turn (SPEC 10.1), closing the window: launches leave
// it, and with keepWindow, restricted ones that are not dismissed stay as limits
// (8.8). now is the time of releases. s.mu is held.
func (s *State) begin(o opener, rules turnRules, now int64) (start turnStart) {
	t := &s.book.Turn
	t.N++
	t.Opener, t.Also, t.ByHost = o, nil, o.Kind == byHost
	t.Answered, t.Contested, t.Refused = false, false, nil
	t.Grants = s.book.Seq
	s.batch = nil
	for i := range s.book.Launches {
		l := &s.book.Launches[i]
		l.Window = l.Window && rules.keepWindow && !s.dismissed(l) && (l.restricts() || rules.current(l.Skill).restricts())
	}
	start.released = s.releaseIdle(rules.idleTurns, now)
	start.waited = len(s.book.Pending) > 0
	start.joined = s.join()
	s.book.Anchors = slices.DeleteFunc(s.book.Anchors, func(a anchor) bool {
		last := s.last(a.Skill)
		return a.Kind == anchorAbsent || last == nil || !a.of(last)
	})
	s.prune(rules.current)
	s.changed()
	return start
}

// releaseIdle dismisses every active skill whose last launch is more than idle
// turns old; 0: none. One that still restricts stays: time lifts no limit.
// s.mu is held.
func (s *State) releaseIdle(idle int, now int64) (released []dismissal) {
	if idle == 0 {
		return nil
	}
	for i := range s.book.Launches {
		l := &s.book.Launches[i]
		waits := slices.ContainsFunc(s.book.Pending, func(p launch) bool { return p.Skill == l.Skill })
		if s.book.Turn.N-l.Turn > idle && s.active(l) && s.first(l.Skill) == nil && !waits {
			released = append(released, dismissal{
				Skill: l.Skill, Reason: reasonIdle, Turn: s.book.Turn.N, Time: now, Covers: s.book.Seq,
			})
		}
	}
	for _, d := range released {
		s.dismiss(d)
	}
	return released
}

// goOn continues the turn; under another opener than before, launches so far
// grant nothing more (SPEC 10.1). A turn that the host began was opened by no
// message, so that none can put it in doubt. s.mu is held.
func (s *State) goOn(o opener) turnStart {
	t := &s.book.Turn
	if t.Opener != o {
		if !t.ByHost {
			t.Grants = s.book.Seq
		}
		for i := range s.book.Anchors { // what this turn decided moves with its opener
			if a := &s.book.Anchors[i]; a.At == t.Opener {
				a.At = o
			}
		}
		if i := slices.Index(t.Also, o); i >= 0 {
			t.Also = slices.Clone(t.Also)
			t.Also[i] = t.Opener
		}
		t.Opener = o
		s.changed()
	}
	waited := len(s.book.Pending) > 0
	return turnStart{joined: s.join(), waited: waited}
}

// join takes pending launches of the host into the current turn (SPEC 7) and
// returns those that are still to be audited. s.mu is held.
func (s *State) join() []launch {
	if len(s.book.Pending) == 0 {
		return nil
	}
	var unaudited []launch
	for _, l := range s.book.Pending {
		if s.hostLaunched(l.Skill, l.Args) {
			continue
		}
		if l.Unaudited {
			l.Unaudited = false
			unaudited = append(unaudited, l)
		}
		s.number(&l)
		s.enter(l)
	}
	s.book.Pending = nil
	s.changed()
	return unaudited
}

// hostLaunched reports whether the host launched the skill with these
// arguments in the current turn already. s.mu is held.
func (s *State) hostLaunched(skill, args string) bool {
	return slices.ContainsFunc(s.book.Launches, func(l launch) bool {
		return l.Host && l.Window && l.Turn == s.book.Turn.N && l.Skill == skill && l.Args == args && !s.dismissed(&l)
	})
}
