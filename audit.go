package skillbay

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// The types of an Event.
const (
	// EventInvoked: a skill was launched, by the model or with Invoke.
	EventInvoked = "skill_invoked"
	// EventDenied: a launch, or a body's return to the conversation, was refused.
	EventDenied = "skill_denied"
	// EventReinjected: the body of an active skill was put back into what the
	// model is sent.
	EventReinjected = "skill_reinjected"
	// EventAnnounced: skills were named to the model that it had not been told of.
	EventAnnounced = "skills_announced"
	// EventBlocked: a tool call was not run.
	EventBlocked = "tool_call_blocked"
	// EventDismissed: a skill was released, by the model or with Dismiss.
	EventDismissed = "skill_dismissed"
)

// Event is one fact for the audit trail. It is emitted after the fact, exactly
// once, before the model or the caller learns of it; calls that are allowed
// give none. Config.Audit receives all events, from any number of goroutines.
//
// Type, Time, SessionID and Turn are always filled. Of the other fields each
// type fills these, as far as they are known:
//
//	                   Skill  Skills  Version, Digest  Args  ToolCallID     Tool      Detail
//	skill_invoked        x              x               x    by the model  likewise  "host" if by Invoke
//	skill_denied         x              x               x    by the model  likewise  the reason
//	skill_reinjected     x              x               x    of the launch           both digests, if they differ
//	skills_announced            x
//	tool_call_blocked           x                            x             x         "not listed", "banned", "guarded" or "parent"
//	skill_dismissed      x              x                    by the model  likewise  the reason
//
// Skills are the announced skills, or those that restrict or guard the call.
// Args and Detail hold text of users and models as it came: it may be personal,
// and nothing in it is to be trusted.
//
// The tags are the keys that JSONAudit and LogAudit write; they do not change.
type Event struct {
	Type       string    `json:"type"`                   // one of the Event constants
	Time       time.Time `json:"time"`                   // by Config.Now
	SessionID  string    `json:"session_id"`             // State.SessionID
	Turn       int       `json:"turn"`                   // State.Turn; 0 before the first
	Skill      string    `json:"skill,omitempty"`        // a skill's name
	Skills     []string  `json:"skills,omitempty"`       // names of skills, not to be changed
	Version    string    `json:"version,omitempty"`      // the header's `version`
	Digest     string    `json:"digest,omitempty"`       // Skill.Digest
	Args       string    `json:"args,omitempty"`         // a launch's arguments
	ToolCallID string    `json:"tool_call_id,omitempty"` // the provider's id, where it gives one
	Tool       string    `json:"tool,omitempty"`         // the called tool: the host's, or one of skillbay's
	Detail     string    `json:"detail,omitempty"`       // see the table
}

// LogAudit returns a Config.Audit that logs every event: the type is the
// message, the event's time the record's, and the filled fields are attributes
// under the keys of their tags. Denied launches and blocked calls are warnings,
// all else is information.
//
// A nil logger is slog.Default() at the time of the event. The function is safe
// for concurrent use.
func LogAudit(logger *slog.Logger) func(context.Context, Event) {
	return func(ctx context.Context, e Event) {
		to := logger
		if to == nil {
			to = slog.Default()
		}
		level := slog.LevelInfo
		if e.Type == EventDenied || e.Type == EventBlocked {
			level = slog.LevelWarn
		}
		if !to.Enabled(ctx, level) {
			return
		}
		// A record of its own, since a Logger would stamp it with the clock
		// instead of the event's time. A handler's error has nowhere to go:
		// slog.Logger drops it as well.
		record := slog.NewRecord(e.Time, level, e.Type, 0)
		record.AddAttrs(e.attrs()...)
		_ = to.Handler().Handle(ctx, record)
	}
}

// attrs returns the fields that JSON would have, but for type and time.
func (e Event) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("session_id", e.SessionID), slog.Int("turn", e.Turn)}
	text := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	text("skill", e.Skill)
	if len(e.Skills) > 0 {
		attrs = append(attrs, slog.Any("skills", e.Skills))
	}
	text("version", e.Version)
	text("digest", e.Digest)
	text("args", e.Args)
	text("tool_call_id", e.ToolCallID)
	text("tool", e.Tool)
	text("detail", e.Detail)
	return attrs
}

// JSONAudit returns a Config.Audit that writes every event to w as one JSON
// object a line, under the keys of Event's tags. Type, time, session_id and
// turn are always there, other fields when they are filled. Times are in UTC,
// RFC 3339 with up to nine digits of a second. Text is not escaped for HTML.
//
// The function is safe for concurrent use and calls Write once an event, never
// twice at a time. An event that cannot be written goes to slog.Default()
// with the error, and after a line that was written in part the next event
// begins a new one. A nil w is os.Stderr.
func JSONAudit(w io.Writer) func(context.Context, Event) {
	if w == nil {
		w = os.Stderr
	}
	lines := &lineWriter{w: w}
	return func(ctx context.Context, e Event) {
		e.Time = e.Time.UTC()
		var line bytes.Buffer
		encoder := json.NewEncoder(&line)
		encoder.SetEscapeHTML(false)
		err := encoder.Encode(e)
		if err == nil {
			err = lines.write(line.Bytes())
		}
		if err != nil {
			attrs := append(e.attrs(), slog.String("type", e.Type), slog.Any("error", err))
			slog.Default().LogAttrs(ctx, slog.LevelError, "skillbay: audit event not written", attrs...)
		}
	}
}

// lineWriter writes whole lines, one at a time.
type lineWriter struct {
	mu   sync.Mutex
	w    io.Writer
	torn bool // the last bytes written are not the end of a line
}

// write writes one line, its line break included.
func (l *lineWriter) write(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.torn {
		line = append([]byte("\n"), line...)
	}
	n, err := l.w.Write(line)
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	if n > 0 {
		l.torn = err != nil
	}
	return err
}
