package skillbaytest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/skillbay/skillbay"
)

// TestStore holds a Store against the contract of skillbay.Store, one sub-test a
// rule. open returns an empty Store, and is called once for each sub-test; what
// it needs to clean up it gives to t.Cleanup.
func TestStore(t *testing.T, open func(t *testing.T) skillbay.Store) {
	t.Helper()
	rules := []struct {
		name string
		test func(t *testing.T, store skillbay.Store)
	}{
		{"nothing is kept at first", testNothing},
		{"a record comes back", testComesBack},
		{"a save replaces the revision before it alone", testRevisions},
		{"ids differ in every byte", testIDs},
		{"texts of every kind", testTexts},
		{"a State of one megabyte", testLarge},
		{"unknown fields stay", testUnknownFields},
		{"the caller owns the bytes", testOwnership},
		{"an ended context saves nothing", testEnded},
		{"one of many writers wins", testWriters},
		{"the Middleware joins two machines", testJoin},
	}
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) { rule.test(t, open(t)) })
	}
}

// state is the JSON of a State with a field that the contract does not know.
func state(t *testing.T, note string) []byte {
	t.Helper()
	data, err := skillbay.NewState().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(note)
	if err != nil {
		t.Fatal(err)
	}
	return append(data[:len(data)-1], `,"note":`+string(text)+`}`...)
}

func save(t *testing.T, store skillbay.Store, id string, revision int64, data []byte) {
	t.Helper()
	if err := store.Save(t.Context(), id, skillbay.Record{Revision: revision, State: data}); err != nil {
		t.Fatalf("Save(%q, revision %d): %v", id, revision, err)
	}
}

// holds checks what the Store keeps: the same JSON, however it is formatted.
func holds(t *testing.T, store skillbay.Store, id string, revision int64, data []byte) {
	t.Helper()
	r, err := store.Load(t.Context(), id)
	if err != nil {
		t.Fatalf("Load(%q): %v", id, err)
	}
	if r.Revision != revision {
		t.Fatalf("Load(%q): revision %d, want %d", id, r.Revision, revision)
	}
	if !sameJSON(r.State, data) {
		t.Fatalf("Load(%q): %s\nwant %s", id, clip(r.State), clip(data))
	}
}

func sameJSON(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	return reflect.DeepEqual(decoded(a), decoded(b))
}

func decoded(data []byte) (v any) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return err.Error()
	}
	return v
}

func clip(data []byte) string {
	if len(data) > 400 {
		return string(data[:400]) + "…"
	}
	return string(data)
}

func conflicts(t *testing.T, store skillbay.Store, id string, revision int64) {
	t.Helper()
	err := store.Save(t.Context(), id, skillbay.Record{Revision: revision, State: state(t, "must not be kept")})
	if !errors.Is(err, skillbay.ErrConflict) {
		t.Fatalf("Save(%q, revision %d): %v, want ErrConflict", id, revision, err)
	}
}

func testNothing(t *testing.T, store skillbay.Store) {
	holds(t, store, "nobody", 0, nil)
}

func testComesBack(t *testing.T, store skillbay.Store) {
	first, second := state(t, "first"), state(t, "second")
	save(t, store, "4711", 1, first)
	holds(t, store, "4711", 1, first)
	save(t, store, "4711", 2, second)
	holds(t, store, "4711", 2, second)
	holds(t, store, "4712", 0, nil)
}

func testRevisions(t *testing.T, store skillbay.Store) {
	data := state(t, "kept")
	for _, revision := range []int64{0, 2, -1, 7} {
		conflicts(t, store, "4711", revision)
	}
	holds(t, store, "4711", 0, nil)
	save(t, store, "4711", 1, data)
	for _, revision := range []int64{0, 1, 3, -1, 1 << 40} {
		conflicts(t, store, "4711", revision)
		holds(t, store, "4711", 1, data)
	}
	// The same bytes once more are another save.
	save(t, store, "4711", 2, data)
	holds(t, store, "4711", 2, data)
	conflicts(t, store, "4711", 2)
}

func testIDs(t *testing.T, store skillbay.Store) {
	ids := []string{
		"a", "A", "a ", " a", "ä", "a\u0308", "Ä", "ß", "ss", "a/b", "a/B", "a%", "a_", "a*", `a"`, `a'`, `a\`, "a:b",
		"a/", "\u00e9", "e\u0301", "ﬀ", "ff", "客户-1", "🙂", "0", "00", "null", strings.Repeat("x", 255), strings.Repeat("x", 254),
		strings.Repeat("é", 127),
	}
	want := map[string][]byte{}
	for _, id := range ids {
		want[id] = state(t, id)
		save(t, store, id, 1, want[id])
	}
	for _, id := range ids {
		holds(t, store, id, 1, want[id])
	}
}

func testTexts(t *testing.T, store skillbay.Store) {
	for i, text := range []string{
		"", " ", "a\tb\nc\r", `"quoted" \ 'single'`, "?, $1, :name, %s, {{.}}", "é e\u0301 客户 🙂 \u200b\u202e", "<script>&amp;", `\u0000 \x00`,
		"\u2028\u2029", "\ufeff", strings.Repeat("long ", 4000),
	} {
		id, data := fmt.Sprintf("text-%d", i), state(t, text)
		save(t, store, id, 1, data)
		holds(t, store, id, 1, data)
	}
}

func testLarge(t *testing.T, store skillbay.Store) {
	data := state(t, strings.Repeat("x", 1<<20-1024))
	save(t, store, "large", 1, data)
	holds(t, store, "large", 1, data)
}

// testUnknownFields: a newer release may write more, and an older one keeps it.
func testUnknownFields(t *testing.T, store skillbay.Store) {
	data := state(t, "")
	data = append(data[:len(data)-1], `,"newer":{"list":[1,-2.5,true,null,"x"],"nested":{"a":{}},"big":9007199254740991}}`...)
	save(t, store, "4711", 1, data)
	r, err := store.Load(t.Context(), "4711")
	if err != nil {
		t.Fatal(err)
	}
	st := new(skillbay.State)
	if err := st.UnmarshalJSON(r.State); err != nil {
		t.Fatal(err)
	}
	again, err := st.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if !sameJSON(again, data) {
		t.Fatalf("after a load and a save: %s\nwant %s", again, data)
	}
}

func testOwnership(t *testing.T, store skillbay.Store) {
	data := state(t, "mine")
	given := bytes.Clone(data)
	save(t, store, "4711", 1, given)
	clear(given)
	holds(t, store, "4711", 1, data)
	r, err := store.Load(t.Context(), "4711")
	if err != nil {
		t.Fatal(err)
	}
	clear(r.State)
	holds(t, store, "4711", 1, data)
}

func testEnded(t *testing.T, store skillbay.Store) {
	data := state(t, "before")
	save(t, store, "4711", 1, data)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := store.Save(ended, "4711", skillbay.Record{Revision: 2, State: state(t, "after")}); err == nil {
		t.Error("Save under an ended context returned nil")
	}
	if _, err := store.Load(ended, "4711"); err == nil {
		t.Error("Load under an ended context returned nil")
	}
	holds(t, store, "4711", 1, data)
}

// testWriters lets machines count in one conversation, each by its own pace.
func testWriters(t *testing.T, store skillbay.Store) {
	const writers, each = 8, 10
	count := func(ctx context.Context) error {
		for range 1000 { // far more than the others' saves
			r, err := store.Load(ctx, "4711")
			if err != nil {
				return err
			}
			n := 0
			if r.Revision > 0 {
				var kept struct{ Note string }
				if err := json.Unmarshal(r.State, &kept); err != nil {
					return err
				}
				if _, err := fmt.Sscan(kept.Note, &n); err != nil {
					return err
				}
			}
			err = store.Save(ctx, "4711", skillbay.Record{Revision: r.Revision + 1, State: state(t, fmt.Sprint(n+1))})
			if !errors.Is(err, skillbay.ErrConflict) {
				return err
			}
		}
		return errors.New("conflict after conflict: does anyone win?")
	}
	var wg sync.WaitGroup
	errs := make(chan error, writers)
	for range writers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range each {
				if err := count(t.Context()); err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	var kept struct{ Note string }
	r, err := store.Load(t.Context(), "4711")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(r.State, &kept); err != nil {
		t.Fatal(err)
	}
	if want := writers * each; kept.Note != fmt.Sprint(want) || r.Revision != int64(want) {
		t.Errorf("%d saves: the count is %s at revision %d", want, kept.Note, r.Revision)
	}
}
