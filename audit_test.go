package skillbay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fullEvent has every field filled, with text that needs care in a log.
func fullEvent() Event {
	return Event{
		Type:       EventBlocked,
		Time:       time.Date(2026, 3, 4, 5, 6, 7, 89, time.FixedZone("CET", 3600)),
		SessionID:  "s-1",
		Turn:       3,
		Skill:      "refund",
		Skills:     []string{"refund", "faq"},
		Version:    "1.10",
		Digest:     "ab12",
		Args:       "a <b> & \"c\"\nd",
		ToolCallID: "call_1",
		Tool:       "Write",
		Detail:     "not listed",
	}
}

func TestEventTypes(t *testing.T) {
	assert.Equal(t,
		[]string{"skill_invoked", "skill_denied", "skill_reinjected", "skills_announced", "tool_call_blocked", "skill_dismissed"},
		[]string{EventInvoked, EventDenied, EventReinjected, EventAnnounced, EventBlocked, EventDismissed})
}

func TestJSONAudit(t *testing.T) {
	tests := []struct {
		name  string
		event Event
		want  string
	}{
		{
			"every field, in UTC, without HTML escapes", fullEvent(),
			`{"type":"tool_call_blocked","time":"2026-03-04T04:06:07.000000089Z","session_id":"s-1","turn":3,` +
				`"skill":"refund","skills":["refund","faq"],"version":"1.10","digest":"ab12",` +
				`"args":"a <b> & \"c\"\nd","tool_call_id":"call_1","tool":"Write","detail":"not listed"}`,
		},
		{
			"empty fields are left out, the first four are not",
			Event{Type: EventAnnounced},
			`{"type":"skills_announced","time":"0001-01-01T00:00:00Z","session_id":"","turn":0}`,
		},
		{
			"bytes that are no UTF-8",
			Event{Type: EventInvoked, Args: "\xff"},
			`{"type":"skill_invoked","time":"0001-01-01T00:00:00Z","session_id":"","turn":0,"args":"\ufffd"}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			JSONAudit(&out)(context.Background(), tt.event)
			assert.Equal(t, tt.want+"\n", out.String())
			var back Event
			require.NoError(t, json.Unmarshal(out.Bytes(), &back))
			assert.True(t, back.Time.Equal(tt.event.Time))
		})
	}
}

// writerFunc is an io.Writer in one function.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestJSONAuditConcurrently(t *testing.T) {
	const goroutines, events = 8, 200
	var out bytes.Buffer // the race detector sees whether Write is called twice at a time
	writes := 0
	audit := JSONAudit(writerFunc(func(p []byte) (int, error) {
		writes++
		return out.Write(p)
	}))
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range events {
				audit(context.Background(), Event{Type: EventInvoked, SessionID: fmt.Sprint(g), Turn: i, Args: strings.Repeat("x", i)})
			}
		}()
	}
	wg.Wait()

	assert.Equal(t, goroutines*events, writes, "one Write an event")
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	require.Len(t, lines, goroutines*events)
	next := map[string]int{}
	for _, line := range lines {
		var e Event
		require.NoError(t, json.Unmarshal([]byte(line), &e), "line %q", line)
		require.Equal(t, next[e.SessionID], e.Turn, "events of one goroutine keep their order")
		next[e.SessionID]++
	}
}

// captureDefault points slog.Default at a buffer for the length of the test.
func captureDefault(t *testing.T) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return &out
}

func TestJSONAuditWriteFails(t *testing.T) {
	full := errors.New("disk full")
	tests := []struct {
		name string
		n    int // bytes of the first event that are written
		err  error
		want string // what stands before the second event
		log  string
	}{
		{"nothing written", 0, full, "", `error="disk full"`},
		{"a part written", 10, full, `{"type":"s` + "\n", `error="disk full"`},
		{"a part written without an error", 10, nil, `{"type":"s` + "\n", `error="short write"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			logged := captureDefault(t)
			var out bytes.Buffer
			writes := 0
			audit := JSONAudit(writerFunc(func(p []byte) (int, error) {
				if writes++; writes == 1 {
					out.Write(p[:tt.n])
					return tt.n, tt.err
				}
				return out.Write(p)
			}))
			audit(context.Background(), Event{Type: EventInvoked, Skill: "lost"})
			assert.Contains(t, logged.String(), tt.log)
			assert.Contains(t, logged.String(), "type=skill_invoked")
			assert.Contains(t, logged.String(), "skill=lost", "the event is not lost without a trace")

			logged.Reset()
			audit(context.Background(), Event{Type: EventDenied, Skill: "a"})
			audit(context.Background(), Event{Type: EventDenied, Skill: "b"})
			assert.Empty(t, logged.String())
			line := `{"type":"skill_denied","time":"0001-01-01T00:00:00Z","session_id":"","turn":0,"skill":"%s"}` + "\n"
			assert.Equal(t, tt.want+fmt.Sprintf(line, "a")+fmt.Sprintf(line, "b"), out.String())
		})
	}
}

func TestJSONAuditTimeThatJSONRefuses(t *testing.T) {
	logged := captureDefault(t)
	var out bytes.Buffer
	JSONAudit(&out)(context.Background(), Event{Type: EventInvoked, Time: time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)})
	assert.Empty(t, out.String())
	assert.Contains(t, logged.String(), "audit event not written")
}

func TestJSONAuditWriterPanics(t *testing.T) {
	audit := JSONAudit(writerFunc(func([]byte) (int, error) { panic("broken") }))
	for range 2 { // the second would wait for ever, were the lock still held
		assert.PanicsWithValue(t, "broken", func() { audit(context.Background(), Event{}) })
	}
}

func TestJSONAuditNilWriterIsStderr(t *testing.T) {
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	before := os.Stderr
	os.Stderr = writer
	t.Cleanup(func() { os.Stderr = before })
	JSONAudit(nil)(context.Background(), Event{Type: EventInvoked})
	require.NoError(t, writer.Close())
	out, err := io.ReadAll(reader)
	require.NoError(t, err)
	assert.Contains(t, string(out), `"type":"skill_invoked"`)
}

func TestLogAudit(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&out, nil)).With("service", "support")
	LogAudit(logger)(context.Background(), fullEvent())
	assert.JSONEq(t, `{
		"time": "2026-03-04T05:06:07.000000089+01:00", "level": "WARN", "msg": "tool_call_blocked", "service": "support",
		"session_id": "s-1", "turn": 3, "skill": "refund", "skills": ["refund", "faq"], "version": "1.10",
		"digest": "ab12", "args": "a <b> & \"c\"\nd", "tool_call_id": "call_1", "tool": "Write", "detail": "not listed"
	}`, out.String())

	out.Reset()
	LogAudit(logger)(context.Background(), Event{Type: EventAnnounced, Time: fullEvent().Time})
	assert.JSONEq(t, `{
		"time": "2026-03-04T05:06:07.000000089+01:00", "level": "INFO", "msg": "skills_announced", "service": "support",
		"session_id": "", "turn": 0
	}`, out.String(), "empty fields are left out")
}

// TestLogAuditHasEveryField holds when a field is added to Event.
func TestLogAuditHasEveryField(t *testing.T) {
	var keys []string
	for i := range reflect.TypeFor[Event]().NumField() {
		field := reflect.TypeFor[Event]().Field(i)
		require.False(t, reflect.ValueOf(fullEvent()).Field(i).IsZero(), "fullEvent lacks %s", field.Name)
		key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if key != "type" && key != "time" {
			keys = append(keys, key)
		}
	}
	var attrs []string
	for _, a := range fullEvent().attrs() {
		attrs = append(attrs, a.Key)
	}
	assert.Equal(t, keys, attrs)
}

func TestLogAuditLevels(t *testing.T) {
	want := map[string]slog.Level{
		EventInvoked: slog.LevelInfo, EventReinjected: slog.LevelInfo, EventAnnounced: slog.LevelInfo,
		EventDismissed: slog.LevelInfo, EventDenied: slog.LevelWarn, EventBlocked: slog.LevelWarn,
	}
	for typ, level := range want {
		t.Run(typ, func(t *testing.T) {
			var out bytes.Buffer
			LogAudit(slog.New(slog.NewTextHandler(&out, nil)))(context.Background(), Event{Type: typ})
			assert.Contains(t, out.String(), "level="+level.String()+" msg="+typ)

			out.Reset()
			quiet := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level + 1}))
			LogAudit(quiet)(context.Background(), Event{Type: typ})
			assert.Empty(t, out.String(), "the logger's level is respected")
		})
	}
}

func TestLogAuditNilLoggerIsTheDefault(t *testing.T) {
	audit := LogAudit(nil)
	logged := captureDefault(t) // set after LogAudit, as in a main function that sets up its log late
	audit(context.Background(), Event{Type: EventInvoked, Skill: "refund"})
	assert.Contains(t, logged.String(), "msg=skill_invoked")
	assert.Contains(t, logged.String(), "skill=refund")
}

func TestLogAuditConcurrently(t *testing.T) {
	var out bytes.Buffer
	audit := LogAudit(slog.New(slog.NewTextHandler(&out, nil)))
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 100 {
				audit(context.Background(), fullEvent())
			}
		}()
	}
	wg.Wait()
	assert.Equal(t, 800, strings.Count(out.String(), "\n"))
}
