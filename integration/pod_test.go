package integration_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/skillbay/skillbay"
)

// A pod is this test binary, started once more: a machine of the service that a
// test can kill. It writes its journal to its standard output, a line at a time
// and in one write each: what it wrote before it was killed is in the pipe. Its
// standard input ends with its parent, and it with that.

// podVariable holds a pod's task, in JSON; only pods have it.
const podVariable = "SKILLBAY_TEST_POD"

// task is what a pod is to do.
type task struct {
	Kind     string // "crash" or "two pods"
	Database string // the SQLite file
	Seed     int64
	Pod      int // its number: call ids begin with it

	// Of a pod that is to be killed.
	Conversation, Message int    // where it begins
	Until                 int    // the conversation before which it ends by itself; 0: none
	ParkAt                string // what it stops in, to be killed there; "": nowhere
	ParkAfter             int    // … the how many-th time
}

func TestMain(m *testing.M) {
	if given := os.Getenv(podVariable); given != "" {
		os.Exit(work(given))
	}
	os.Exit(m.Run())
}

// work is a pod's life.
func work(given string) int {
	var order task
	if err := json.Unmarshal([]byte(given), &order); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	words := make(chan string)
	go func() {
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			words <- in.Text()
		}
		os.Exit(3) // the parent is gone
	}()
	j := &journal{to: os.Stdout, parkAt: order.ParkAt, parkAfter: order.ParkAfter}
	var err error
	switch order.Kind {
	case "crash":
		err = converseUntilKilled(order, j)
	case "two pods":
		err = converseBesideAnother(order, j, words)
	default:
		err = fmt.Errorf("no kind of pod: %q", order.Kind)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// What an entry of a journal tells of.
const (
	atLoad     = "loaded"   // the Store was read, and found Loaded
	atModel    = "asked"    // the model got a request, in which it was Told
	atAnswer   = "answers"  // the model's Calls
	atTool     = "tool"     // a tool runs
	atSaving   = "saving"   // the Store is about to keep a State
	atSaved    = "saved"    // it has
	atConflict = "conflict" // another pod's State was there first
	atEvent    = "event"    // an audit event
	atEnd      = "answered" // a run ended, with an answer or a Failure
	atMeeting  = "meeting"  // a State was loaded, and waits for the other pod's load
)

// entry is one line of a journal. Conversation and Message say in which run.
type entry struct {
	At           string
	Conversation string
	Message      int
	Turn         int             `json:",omitempty"` // of the run's State
	Tool         string          `json:",omitempty"`
	Revision     int64           `json:",omitempty"` // of a Record
	Loaded       *ledgers        `json:",omitempty"`
	Told         []told          `json:",omitempty"`
	Calls        []wish          `json:",omitempty"`
	Event        *skillbay.Event `json:",omitempty"`
	Number       int64           `json:",omitempty"` // of an event's launch or dismissal: its sequence number in the State
	Failure      string          `json:",omitempty"`
}

// told is what a model read in the answer to one of its calls.
type told struct {
	CallID, Skill string
	Dismissed     bool // that the skill was released; else that it was launched
}

// wish is a call that a model makes.
type wish struct{ Tool, Skill string }

// errand is the run that a context belongs to.
type errand struct {
	conversation string
	message      int
	meets        *atomic.Bool // its first load waits for the other pod's
}

type errandKey struct{}

func errandOf(ctx context.Context) errand {
	e, _ := ctx.Value(errandKey{}).(errand)
	return e
}

// journal writes entries. It is safe for concurrent use.
type journal struct {
	mu        sync.Mutex
	to        io.Writer
	parkAt    string
	parkAfter int
}

// write writes an entry of ctx's run, and never returns from the one at which
// the pod is to be killed.
func (j *journal) write(ctx context.Context, e entry) {
	run := errandOf(ctx)
	e.Conversation, e.Message = run.conversation, run.message
	if st, ok := skillbay.StateFrom(ctx); ok {
		e.Turn = st.Turn()
	}
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	j.mu.Lock()
	_, err = j.to.Write(append(line, '\n'))
	park := false
	if e.At == j.parkAt {
		j.parkAfter--
		park = j.parkAfter == 0
	}
	j.mu.Unlock()
	if err != nil {
		panic(err)
	}
	if park {
		<-make(chan struct{})
	}
}

// audit journals events, with the number of the launch or dismissal.
func (j *journal) audit(ctx context.Context, e skillbay.Event) {
	line := entry{At: atEvent, Event: &e}
	if st, ok := skillbay.StateFrom(ctx); ok && (e.Type == skillbay.EventInvoked || e.Type == skillbay.EventDismissed) {
		if l, err := ledgersOf(st.MarshalJSON()); err == nil {
			line.Number = l.number(e)
		}
	}
	j.write(ctx, line)
}

// ledgers is the part of a State's JSON that the tests read by themselves.
type ledgers struct {
	Turn struct {
		N                   int
		Answered, Contested bool
	}
	Announced []string
	Invoked   []launched
	Dismissed []released
}

type launched struct {
	Seq   int64
	ID    string
	Skill string
	Turn  int
}

type released struct {
	Skill  string
	Turn   int
	Covers int64
}

func ledgersOf(state []byte, err error) (*ledgers, error) {
	if err != nil {
		return nil, err
	}
	l := new(ledgers)
	return l, json.Unmarshal(state, l)
}

// number finds the launch or dismissal that an event is about.
func (l *ledgers) number(e skillbay.Event) int64 {
	if e.Type == skillbay.EventDismissed {
		for _, d := range l.Dismissed {
			if d.Skill == e.Skill {
				return d.Covers
			}
		}
	}
	for _, i := range l.Invoked {
		if i.Skill == e.Skill && i.ID == e.ToolCallID && i.Turn == e.Turn {
			return i.Seq
		}
	}
	return 0
}

// keeps reports whether the ledgers hold a launch of the skill that is at least
// as new, or a dismissal of it.
func (l *ledgers) keeps(skill string, turn int, number int64) bool {
	for _, i := range l.Invoked {
		if i.Skill == skill && (i.Turn > turn || i.Turn == turn && i.Seq >= number) {
			return true
		}
	}
	return l.released(skill, turn, number)
}

// released reports whether the ledgers hold a dismissal of the skill that is at
// least as new.
func (l *ledgers) released(skill string, turn int, number int64) bool {
	for _, d := range l.Dismissed {
		if d.Skill == skill && (d.Turn > turn || d.Turn == turn && d.Covers >= number) {
			return true
		}
	}
	return false
}

// journalStore journals what a Store does.
type journalStore struct {
	skillbay.Store
	journal *journal
	words   <-chan string // of the parent; nil: nobody meets
}

// Load implements skillbay.Store.
func (s *journalStore) Load(ctx context.Context, id string) (skillbay.Record, error) {
	r, err := s.Store.Load(ctx, id)
	if err != nil {
		return r, err
	}
	e := entry{At: atLoad, Revision: r.Revision}
	if r.Revision > 0 {
		if e.Loaded, err = ledgersOf(r.State, nil); err != nil {
			return r, err
		}
	}
	s.journal.write(ctx, e)
	if meets := errandOf(ctx).meets; meets != nil && meets.Swap(false) {
		s.journal.write(ctx, entry{At: atMeeting})
		<-s.words
	}
	return r, nil
}

// Save implements skillbay.Store. It yields first, so that another pod's save
// comes in between.
func (s *journalStore) Save(ctx context.Context, id string, r skillbay.Record) error {
	s.journal.write(ctx, entry{At: atSaving, Revision: r.Revision})
	runtime.Gosched()
	err := s.Store.Save(ctx, id, r)
	switch {
	case err == nil:
		s.journal.write(ctx, entry{At: atSaved, Revision: r.Revision})
	case errors.Is(err, skillbay.ErrConflict):
		s.journal.write(ctx, entry{At: atConflict, Revision: r.Revision})
	}
	return err
}

// openSQLite opens a database and its table of States.
func openSQLite(ctx context.Context, file, pragmas string) (*sql.DB, *skillbay.SQLStore, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)"+pragmas)
	if err != nil {
		return nil, nil, err
	}
	store, err := skillbay.NewSQLStore(db, skillbay.SQLite, "")
	if err == nil {
		err = store.Create(ctx)
	}
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return db, store, nil
}

// pod is a child process, as its parent has it.
type pod struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	errors bytes.Buffer
	timer  *time.Timer
	late   atomic.Bool
	ended  bool
}

// start starts a pod that is killed at its deadline, and with the test.
func start(t *testing.T, order task, deadline time.Duration) *pod {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	given, err := json.Marshal(order)
	require.NoError(t, err)
	p := &pod{cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), podVariable+"="+string(given))
	p.cmd.Stderr = &p.errors
	dieWithParent(p.cmd)
	p.in, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewReader(out)
	require.NoError(t, p.cmd.Start())
	p.timer = time.AfterFunc(deadline, func() {
		p.late.Store(true)
		_ = p.cmd.Process.Kill()
	})
	t.Cleanup(func() {
		p.kill()
		_ = p.wait()
	})
	return p
}

// next is the next entry of the pod's journal; false when it has ended. A line
// that was not written to its end was not written.
func (p *pod) next() (e entry, ok bool) {
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return e, false
	}
	if err := json.Unmarshal(line, &e); err != nil {
		e.At, e.Failure = "unreadable", string(line)
	}
	return e, true
}

func (p *pod) kill() { _ = p.cmd.Process.Kill() }

// wait waits for the pod's end once its journal is read, and returns how it
// ended; nil also if it was killed, but not by its deadline.
func (p *pod) wait() error {
	if p.ended {
		return nil
	}
	p.ended = true
	err := p.cmd.Wait()
	p.timer.Stop()
	_ = p.in.Close()
	switch code := p.cmd.ProcessState.ExitCode(); {
	case p.late.Load():
		return fmt.Errorf("the pod missed its deadline: %s", p.errors.String())
	case code > 0:
		return fmt.Errorf("the pod ended with %d: %s", code, p.errors.String())
	case code < 0:
		return nil // by a signal
	}
	return err
}

// sized is a number of turns or kills: the second under the race detector, which
// makes all of it some ten times slower.
func sized(full, raced int) int {
	if raceEnabled {
		return raced
	}
	return full
}
