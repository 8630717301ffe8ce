package integration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/chains"

	"github.com/skillbay/skillbay"
)

const (
	faultConversations = 48
	faultTurns         = 60 // of each
	faultWorkers       = 4
	faultStale         = 10                   // how many saves ago a stale State is from, at most
	faultTimeout       = 2 * time.Millisecond // Config.StoreTimeout
	faultDeadline      = time.Minute          // after which a turn hangs
	faultProvider      = 0.05                 // how often the model's provider is down
)

// faultRates are how many of a Store's answers in a turn are wrong: a Store has
// good hours and bad ones.
var faultRates = []float64{0, 0.05, 0.1, 0.5}

const badHour = 0.5

// fault is something that a Store does wrong, once.
type fault string

// The faults. Those of a save come before or after it is carried out.
const (
	loadFails       fault = "load fails"
	loadHangs       fault = "load hangs"
	loadPanics      fault = "load panics"
	loadTruncated   fault = "truncated"
	loadGarbled     fault = "garbled"
	loadNoRevision  fault = "revision of none"
	loadWrong       fault = "wrong revision"
	loadEmpty       fault = "empty record"
	loadStale       fault = "stale"
	loadLie         fault = "stale, of the current revision"
	saveFails       fault = "save fails"
	saveFailsLate   fault = "save fails after it"
	saveHangs       fault = "save hangs"
	saveHangsLate   fault = "save hangs after it"
	savePanics      fault = "save panics"
	savePanicsLate  fault = "save panics after it"
	saveConflict    fault = "false conflict"
	saveConflictOwn fault = "conflict after it"
)

var (
	loadFaults = []fault{
		loadFails, loadHangs, loadPanics, loadTruncated, loadGarbled, loadNoRevision, loadWrong, loadEmpty, loadStale, loadLie,
	}
	saveFaults = []fault{
		saveFails, saveFailsLate, saveHangs, saveHangsLate, savePanics, savePanicsLate, saveConflict, saveConflictOwn,
	}
	// causes says as what error a fault may come out of a turn. The others may
	// pass unnoticed.
	causes = map[fault]string{
		loadFails: "injected", saveFails: "injected", saveFailsLate: "injected",
		loadHangs: "deadline", saveHangs: "deadline", saveHangsLate: "deadline",
		loadPanics: "panic", savePanics: "panic", savePanicsLate: "panic",
		loadTruncated: "ErrState", loadGarbled: "ErrState", loadNoRevision: "ErrState",
	}
)

var errInjected = errors.New("injected")

// causesOf are the errors in err that a caller can tell.
func causesOf(err error) (found []string) {
	for name, cause := range map[string]error{
		"injected": errInjected, "deadline": context.DeadlineExceeded, "ErrState": skillbay.ErrState,
		"ErrConflict": skillbay.ErrConflict, "provider": errProviderDown,
	} {
		if errors.Is(err, cause) {
			found = append(found, name)
		}
	}
	if err != nil && strings.Contains(err.Error(), "the Store panicked: boom") {
		found = append(found, "panic")
	}
	slices.Sort(found)
	return found
}

// faultyStore is the Store of one conversation, which goes wrong at random. It
// never lies about a save that it says it did.
type faultyStore struct {
	inner  skillbay.Store
	talk   *faultyTalk
	dice   *rand.Rand
	rate   float64           // of wrong answers; 0: it is healthy
	kept   []skillbay.Record // all that the inner Store kept
	faults []fault           // since they were last read
}

// next is the fault of this answer; "": none.
func (s *faultyStore) next(from []fault) fault {
	if s.dice.Float64() >= s.rate {
		return ""
	}
	f := from[s.dice.IntN(len(from))]
	if len(s.kept) == 0 && slices.Contains([]fault{loadTruncated, loadGarbled, loadNoRevision, loadWrong, loadEmpty, loadStale, loadLie}, f) {
		return "" // of nothing
	}
	s.faults = append(s.faults, f)
	return f
}

// Load implements skillbay.Store.
func (s *faultyStore) Load(ctx context.Context, id string) (skillbay.Record, error) {
	f := s.next(loadFaults)
	switch f {
	case loadFails:
		return skillbay.Record{}, fmt.Errorf("load: %w", errInjected)
	case loadHangs:
		<-ctx.Done()
		return skillbay.Record{}, ctx.Err()
	case loadPanics:
		panic("boom")
	}
	r, err := s.inner.Load(context.WithoutCancel(ctx), id) // a slow machine is no fault
	if err != nil {
		return r, err
	}
	switch f {
	case loadTruncated:
		r.State = r.State[:s.dice.IntN(len(r.State))]
	case loadGarbled:
		r.State = s.garble(r.State)
	case loadNoRevision:
		r.Revision = -int64(s.dice.IntN(3))
	case loadWrong:
		r.Revision += []int64{1, 7, 1 << 40, -r.Revision/2 - r.Revision%2}[s.dice.IntN(4)]
		r.Revision = max(1, r.Revision)
	case loadEmpty:
		r = skillbay.Record{}
	case loadStale, loadLie:
		old := s.kept[len(s.kept)-1-s.dice.IntN(min(len(s.kept), faultStale))]
		r.State = bytes.Clone(old.State)
		if f == loadStale {
			r.Revision = old.Revision
		}
	}
	if causes[f] != "" { // it is to be refused
		return r, nil
	}
	var l *ledgers
	if r.Revision > 0 {
		if l, err = ledgersOf(r.State, nil); err != nil {
			return r, err
		}
	}
	s.talk.loads(l, f)
	return r, nil
}

// garble returns what no State looks like.
func (s *faultyStore) garble(state []byte) []byte {
	at := s.dice.IntN(len(state))
	switch s.dice.IntN(6) {
	case 0:
		return slices.Concat(state[:at], []byte{0}, state[at:])
	case 1:
		return slices.Concat(state, state)
	case 2:
		return []byte("null")
	case 3:
		return []byte("{}")
	case 4:
		return bytes.Replace(state, []byte(`"format":1`), []byte(`"format":1000`), 1)
	}
	return slices.Concat(state[at:], []byte(`{`), state[:at])
}

// Save implements skillbay.Store.
func (s *faultyStore) Save(ctx context.Context, id string, r skillbay.Record) error {
	f := s.next(saveFaults)
	switch f {
	case saveFails:
		return fmt.Errorf("save: %w", errInjected)
	case saveHangs:
		<-ctx.Done()
		return ctx.Err()
	case savePanics:
		panic("boom")
	case saveConflict:
		return skillbay.ErrConflict
	}
	if err := s.inner.Save(context.WithoutCancel(ctx), id, r); err != nil {
		if f != "" {
			s.faults = s.faults[:len(s.faults)-1] // there was nothing to come after
		}
		return err
	}
	s.kept = append(s.kept, skillbay.Record{Revision: r.Revision, State: bytes.Clone(r.State)})
	l, err := ledgersOf(r.State, nil)
	if err != nil {
		return err
	}
	s.talk.check("a save", l)
	switch f {
	case saveFailsLate:
		return fmt.Errorf("save: %w", errInjected)
	case saveHangsLate:
		<-ctx.Done()
		return ctx.Err()
	case savePanicsLate:
		panic("boom")
	case saveConflictOwn:
		return fmt.Errorf("save: %w", skillbay.ErrConflict)
	}
	return nil
}

// faultyTalk is a conversation over a faultyStore, and what is known of it.
type faultyTalk struct {
	t     *testing.T
	id    string
	store *faultyStore
	exec  *skillbay.Executor
	dice  *rand.Rand
	words int // the user's messages

	reference
	loaded *ledgers          // what the run began with; nil: nothing
	began  bool              // the run has loaded
	asked  bool              // … and asked its model
	byCall map[string][]deed // of the run
	saves  *runSaves         // of the run, or of the one that is saved again

	pending  []*runSaves
	promised []deed        // what is to be found in the Store
	settled  map[deed]bool // … or was, until the Store lied

	sums faultSums
}

// deed is a launch or dismissal of a turn, with its number.
type deed struct {
	skill     string
	dismissed bool
	turn      int
	number    int64
	run       int
}

func (d deed) in(l *ledgers) bool {
	switch {
	case l == nil:
		return false
	case d.dismissed:
		return l.released(d.skill, d.turn, d.number)
	}
	return l.keeps(d.skill, d.turn, d.number)
}

// runSaves is what a run knows and has to save, for as long as it may.
type runSaves struct {
	run   int
	deeds []deed
	known []*ledgers          // all that the Store told it
	lied  bool                // … and once a revision that was, or became, another State's
	err   *skillbay.SaveError // when the Store does not hold its State
}

// overwrites reports whether a save of the run may take the place of a State
// with the deed: the Store kept it back.
func (s *runSaves) overwrites(d deed) bool {
	return s.lied && s.run != d.run && !slices.ContainsFunc(s.known, d.in)
}

// faultSums count.
type faultSums struct {
	turns, answered, resumed                 int
	launches, told, ran, refused             int
	unsaved, retried, retriedLater, excused  int
	causes                                   map[string]int
	outcomes                                 map[fault]map[string]int // of the turns with that fault
	retryFaults                              map[fault]int
	contestedRuns, contestedRan, guardedRuns int
}

func (s *faultSums) add(o *faultSums) {
	for _, pair := range [][2]*int{
		{&s.turns, &o.turns},
		{&s.answered, &o.answered},
		{&s.resumed, &o.resumed},
		{&s.launches, &o.launches},
		{&s.told, &o.told},
		{&s.ran, &o.ran},
		{&s.refused, &o.refused},
		{&s.unsaved, &o.unsaved},
		{&s.retried, &o.retried},
		{&s.retriedLater, &o.retriedLater},
		{&s.excused, &o.excused},
		{&s.contestedRuns, &o.contestedRuns},
		{&s.contestedRan, &o.contestedRan},
		{&s.guardedRuns, &o.guardedRuns},
	} {
		*pair[0] += *pair[1]
	}
	for name, n := range o.causes {
		s.causes[name] += n
	}
	for f, n := range o.retryFaults {
		s.retryFaults[f] += n
	}
	for f, outcomes := range o.outcomes {
		for name, n := range outcomes {
			s.count(f, name, n)
		}
	}
}

func (s *faultSums) count(f fault, outcome string, n int) {
	if s.outcomes[f] == nil {
		s.outcomes[f] = map[string]int{}
	}
	s.outcomes[f][outcome] += n
}

func newFaultSums() faultSums {
	return faultSums{causes: map[string]int{}, outcomes: map[fault]map[string]int{}, retryFaults: map[fault]int{}}
}

// TestFaults lets conversations go on over a Store that does everything wrong
// that a Store can. Every turn ends with an answer or a clear error, no tool runs
// that the run's launches forbid, and what the model was told of is kept, or can
// be saved once the Store is well again: SPEC 8.3, 9 and 13.
func TestFaults(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	sums := newFaultSums()
	var mu sync.Mutex
	var workers sync.WaitGroup
	numbers := make(chan int)
	for n := range faultWorkers {
		// A file for each: SQLite takes one writer at a time.
		db, inner, err := openSQLite(t.Context(), filepath.Join(t.TempDir(), fmt.Sprintf("states-%d.db", n)), "&_pragma=synchronous(OFF)")
		require.NoError(t, err)
		defer db.Close()
		workers.Add(1)
		go func() {
			defer workers.Done()
			for n := range numbers {
				talk, err := newFaultyTalk(t, inner, seed, n)
				if !assert.NoError(t, err) {
					continue
				}
				for range faultTurns {
					if t.Failed() {
						break
					}
					talk.turn()
				}
				talk.end()
				mu.Lock()
				sums.add(&talk.sums)
				mu.Unlock()
			}
		}()
	}
	for n := range faultConversations {
		numbers <- n
	}
	close(numbers)
	workers.Wait()
	if t.Failed() {
		return
	}
	sums.report(t)
}

func newFaultyTalk(t *testing.T, inner skillbay.Store, seed uint64, n int) (*faultyTalk, error) {
	dice := rand.New(rand.NewPCG(seed, uint64(n)))
	c := &faultyTalk{t: t, id: fmt.Sprintf("faulty-%d", n), dice: dice, settled: map[deed]bool{}, saves: &runSaves{}, sums: newFaultSums()}
	c.store = &faultyStore{inner: inner, talk: c, dice: dice}
	j := &journal{to: c}
	var err error
	c.exec, err = deskExecutor(skillbay.Config{Store: c.store, StoreTimeout: faultTimeout},
		&podModel{journal: j, pod: n, fails: faultProvider, dice: dice}, j)
	return c, err
}

// failf fails the test, and says in which conversation.
func (c *faultyTalk) failf(format string, args ...any) {
	c.t.Helper()
	c.t.Errorf("%s, turn %d, run %d, faults %v: %s", c.id, c.reference.turn, c.sums.turns, c.store.faults, fmt.Sprintf(format, args...))
}

// loads notes what the Store was about to answer.
func (c *faultyTalk) loads(l *ledgers, f fault) {
	if !c.began {
		c.began, c.loaded = true, l
		c.reference.begin(l)
	}
	c.saves.known = append(c.saves.known, l)
	c.saves.lied = c.saves.lied || f == loadLie || f == loadWrong
}

// Write takes the journal's entries, while what they tell of happens.
func (c *faultyTalk) Write(line []byte) (int, error) {
	var e entry
	if err := json.Unmarshal(line, &e); err != nil {
		return 0, err
	}
	c.reference.note(e)
	switch e.At {
	case atModel:
		c.asked = true
		c.hears(e)
	case atTool:
		c.sums.ran++
		if e.Tool == guardedTool {
			c.sums.guardedRuns++
		}
		if why := c.reference.forbids(e.Tool); why != "" {
			c.failf("%s ran, though %s", e.Tool, why)
		}
		if c.contested() {
			c.sums.contestedRan++
			if e.Tool == guardedTool {
				c.failf("%s ran in a contested turn", e.Tool)
			}
			for _, name := range c.reference.before {
				if !within([]string{name}, e.Tool) {
					c.failf("%s ran in a contested turn, though %s forbids it", e.Tool, name)
				}
			}
		}
	case atEvent:
		c.happens(e)
	}
	return len(line), nil
}

// contested reports whether the run goes on with a turn that was contested.
func (c *faultyTalk) contested() bool {
	return c.loaded != nil && c.loaded.Turn.Contested && c.loaded.Turn.N == c.reference.turn
}

// happens notes launches and dismissals.
func (c *faultyTalk) happens(e entry) {
	d := deed{skill: e.Event.Skill, turn: e.Event.Turn, number: e.Number, run: c.sums.turns}
	switch e.Event.Type {
	case skillbay.EventInvoked:
		c.sums.launches++
	case skillbay.EventDismissed:
		d.dismissed = true
	case skillbay.EventBlocked:
		c.sums.refused++
		return
	default:
		return
	}
	if d.number == 0 {
		c.failf("%+v is not recorded", *e.Event)
	}
	c.saves.deeds = append(c.saves.deeds, d)
	c.byCall[e.Event.ToolCallID] = append(c.byCall[e.Event.ToolCallID], d)
}

// hears checks that what the model reads is in the Store by now.
func (c *faultyTalk) hears(e entry) {
	now := c.now()
	for _, told := range e.Told {
		for _, d := range c.byCall[told.CallID] {
			c.sums.told++
			if !d.in(now) {
				c.failf("the model learns of %+v before it is kept", d)
			}
			c.promise(d)
		}
	}
}

func (c *faultyTalk) promise(deeds ...deed) {
	for _, d := range deeds {
		if !c.settled[d] {
			c.settled[d] = true
			c.promised = append(c.promised, d)
		}
	}
}

// now is what the Store really keeps; nil: nothing.
func (c *faultyTalk) now() *ledgers {
	r, err := c.store.inner.Load(context.Background(), c.id)
	if err != nil {
		c.failf("%v", err)
		return nil
	}
	if r.Revision == 0 {
		return nil
	}
	l, err := ledgersOf(r.State, nil)
	if err != nil {
		c.failf("%v", err)
	}
	return l
}

// check looks for everything that was promised in what is kept now.
func (c *faultyTalk) check(when string, now *ledgers) {
	for _, d := range c.saves.deeds {
		if d.in(now) { // also by a save that seemed to fail
			c.promise(d)
		}
	}
	c.promised = slices.DeleteFunc(c.promised, func(d deed) bool {
		switch {
		case d.in(now):
			return false
		case c.saves.overwrites(d):
			c.sums.excused++
		default:
			c.failf("%s: %+v is lost; kept: %+v", when, d, now)
		}
		return true
	})
}

// turn is one message of the user's, and what becomes of it.
func (c *faultyTalk) turn() {
	c.sums.turns++
	c.loaded, c.began, c.asked, c.byCall = nil, false, false, map[string][]deed{}
	c.saves = &runSaves{run: c.sums.turns}
	c.store.faults = nil
	if c.words == 0 || c.dice.IntN(3) == 0 {
		c.words++
	}
	c.store.rate = faultRates[c.dice.IntN(len(faultRates))]
	out, err := c.call(fmt.Sprintf("Message %d", c.words))
	causes := c.outcome(out, err)
	if c.asked && c.loaded != nil && !c.loaded.Turn.Answered && c.loaded.Turn.N == c.reference.turn {
		c.sums.resumed++
		if c.contested() {
			c.sums.contestedRuns++
		}
	}
	if errors.As(err, &c.saves.err) {
		c.sums.unsaved++
		c.holds(c.saves.err)
		c.pending = append(c.pending, c.saves)
	} else {
		c.promise(c.saves.deeds...)
	}
	c.check("after the run", c.now())
	if len(causes) == 0 { // answered
		c.words++
	}
	// The host saves what is left now, or later, or when later ones are saved.
	for len(c.pending) > 0 && c.dice.IntN(2) == 0 {
		c.retry(c.dice.IntN(len(c.pending)))
	}
}

// call runs the executor. A panic and a hang are failures.
func (c *faultyTalk) call(message string) (out string, err error) {
	hangs := time.AfterFunc(faultDeadline, func() { panic(fmt.Sprintf("%s hangs: %v", c.id, c.store.faults)) })
	defer hangs.Stop()
	defer func() {
		if r := recover(); r != nil {
			c.failf("Call panicked: %v", r)
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return chains.Run(skillbay.WithConversation(context.Background(), c.id), c.exec, message)
}

// outcome holds the end of a turn to the faults in it, and counts it.
func (c *faultyTalk) outcome(out string, err error) []string {
	causes := causesOf(err)
	if err == nil {
		c.sums.answered++
		if out != "That was it." {
			c.failf("the answer is %q", out)
		}
	} else if len(causes) == 0 {
		c.failf("an error that tells nothing: %v", err)
	}
	c.justified("the turn", causes, err)
	if !c.began && c.asked {
		c.failf("the model was asked, and nothing was loaded")
	}
	for _, name := range causes {
		c.sums.causes[name]++
	}
	for _, f := range slices.Compact(slices.Sorted(slices.Values(c.store.faults))) {
		if err == nil {
			c.sums.count(f, "answered", 1)
		} else {
			c.sums.count(f, strings.Join(causes, "+"), 1)
		}
	}
	return causes
}

// justified checks that errors have their faults, and faults their errors.
func (c *faultyTalk) justified(what string, found []string, err error) {
	possible := map[string]bool{"provider": true}
	for _, f := range c.store.faults {
		if cause := causes[f]; cause != "" {
			possible[cause] = true
			if !slices.Contains(found, cause) {
				c.failf("%s hides that %s: %v", what, f, err)
			}
		} else {
			possible["ErrConflict"] = true
		}
	}
	for _, cause := range found {
		if !possible[cause] {
			c.failf("%s fails without a fault: %v", what, err)
		}
	}
}

// holds checks that a SaveError's State has all that the run did.
func (c *faultyTalk) holds(unsaved *skillbay.SaveError) {
	if unsaved.Conversation != c.id || unsaved.State == nil {
		c.failf("%+v", *unsaved)
		return
	}
	l, err := ledgersOf(unsaved.State.MarshalJSON())
	if err != nil {
		c.failf("%v", err)
	}
	for _, d := range c.saves.deeds {
		if !d.in(l) {
			c.failf("the SaveError's State has lost %+v", d)
		}
	}
}

// retry saves what a run could not, first over a Store that still goes wrong.
func (c *faultyTalk) retry(n int) {
	c.saves = c.pending[n]
	if n < len(c.pending)-1 {
		c.sums.retriedLater++
	}
	c.pending = slices.Delete(c.pending, n, n+1)
	ctx := context.Background()
	c.store.rate = badHour
	for c.dice.IntN(2) == 0 {
		c.store.faults = nil
		err := c.saves.err.Retry(ctx)
		c.justified("Retry", causesOf(err), err)
		var unsaved *skillbay.SaveError
		if err != nil && (!errors.As(err, &unsaved) || len(causesOf(err)) == 0) {
			c.failf("Retry: %v", err)
		}
		c.check("after a Retry that may fail", c.now())
		for _, f := range c.store.faults {
			c.sums.retryFaults[f]++
		}
	}
	c.store.rate, c.store.faults = 0, nil
	if err := c.saves.err.Retry(ctx); err != nil {
		c.failf("Retry over a healthy Store: %v", err)
	}
	c.sums.retried++
	c.promise(c.saves.deeds...)
	c.check("after Retry", c.now())
}

// end saves everything that is left.
func (c *faultyTalk) end() {
	for len(c.pending) > 0 && !c.t.Failed() {
		c.retry(c.dice.IntN(len(c.pending)))
	}
	c.check("at the end", c.now())
}

// report says what happened, and fails if it was too little to prove anything.
func (s *faultSums) report(t *testing.T) {
	for _, f := range slices.Concat(loadFaults, saveFaults) {
		require.NotEmpty(t, s.outcomes[f], "no turn with the fault %q", f)
		var outcomes []string
		for _, name := range slices.Sorted(maps.Keys(s.outcomes[f])) {
			outcomes = append(outcomes, fmt.Sprintf("%s %d", name, s.outcomes[f][name]))
		}
		t.Logf("figure: faults: %s: %s; in retries: %d", f, strings.Join(outcomes, ", "), s.retryFaults[f])
	}
	require.Equal(t, faultConversations*faultTurns, s.turns)
	require.Greater(t, s.answered, s.turns/10)
	require.Greater(t, s.resumed, s.turns/20)
	require.Greater(t, s.refused, s.turns/10)
	require.Greater(t, s.told, s.turns/10)
	require.Greater(t, s.retried, s.turns/20)
	require.Equal(t, s.unsaved, s.retried)
	for _, n := range []int{s.retriedLater, s.guardedRuns, s.contestedRuns, s.excused} {
		require.NotZero(t, n, "%+v", s)
	}
	t.Logf("figure: faults: %d turns of %d conversations: %d answered, errors %v; %d went on with a turn, %d of them contested",
		s.turns, faultConversations, s.answered, s.causes, s.resumed, s.contestedRuns)
	t.Logf("figure: faults: %d launches, %d tools ran (%d guarded), %d calls refused, none wrong; %d runs unsaved, all saved by Retry (%d after a later run's)",
		s.launches, s.ran, s.guardedRuns, s.refused, s.unsaved, s.retriedLater)
	t.Logf("figure: faults: %d launches and dismissals lost to a Store that gave States the revision of others, none otherwise", s.excused)
}
