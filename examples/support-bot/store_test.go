package main

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/skillbay/skillbay"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/tools"
)

// newTestStore returns a stocked store that the test closes.
func newTestStore(t *testing.T) *store {
	t.Helper()
	db, err := openStore(t.Context(), filepath.Join(t.TempDir(), "a b?c.db"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.close()) })
	require.NoError(t, db.reset(t.Context(), "c", english.products, english.orders))
	return db
}

func TestStoreRefusesAnotherProgramsDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.db")
	other, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = other.Exec(`CREATE TABLE orders (precious TEXT)`)
	require.NoError(t, err)
	require.NoError(t, other.Close())
	status, _, errs := command(t, "", "-db", path)
	assert.Equal(t, 1, status)
	assert.Contains(t, errs, "another program")
}

// The rows of a turn and the State belong together: both are written or none.
func TestConversationAndStateAreOneTransaction(t *testing.T) {
	db := newTestStore(t)
	c := &conversation{store: db, id: "c", render: rowsAsJSON}
	st := skillbay.NewState()
	ctx := skillbay.WithState(t.Context(), st)
	save := func(ctx context.Context) error {
		return c.SaveContext(ctx, map[string]any{"input": "hi"}, map[string]any{"output": "hello"})
	}
	require.Error(t, save(t.Context()), "a run without a State")
	_, err := db.db.Exec(`CREATE TRIGGER full BEFORE INSERT ON conversations BEGIN SELECT RAISE(ABORT, 'full'); END`)
	require.NoError(t, err)
	require.Error(t, save(ctx), "the State cannot be written")
	rows, err := db.rows(t.Context(), "c")
	require.NoError(t, err)
	assert.Empty(t, rows, "then the rows are not either")

	_, err = db.db.Exec(`DROP TRIGGER full`)
	require.NoError(t, err)
	require.NoError(t, save(ctx))
	rows, err = db.rows(t.Context(), "c")
	require.NoError(t, err)
	require.Len(t, rows, 2)
	assert.Equal(t, "hello", rows[1].Text)
	again, err := db.state(t.Context(), "c")
	require.NoError(t, err)
	assert.Equal(t, st.SessionID(), again.SessionID(), "the State came back")
}

func TestBusinessTools(t *testing.T) {
	db := newTestStore(t)
	s := &shop{store: db, now: newStoryClock().now, words: english, ran: func(string) {}}
	byName := map[string]tools.Tool{}
	for _, tool := range s.tools() {
		byName[tool.Name()] = tool
	}
	for name, tc := range map[string]struct{ tool, input, want string }{
		"own order":              {"OrderLookup", `{"order":"A1023"}`, `"status":"delivered"`},
		"another customer's":     {"OrderLookup", `{"order":"B2000"}`, "no such order of this customer"},
		"no JSON":                {"OrderLookup", `A1023`, "not a JSON object"},
		"a value is missing":     {"RefundQuote", `{"order":"A1023"}`, `lacks "days"`},
		"inside the window":      {"RefundQuote", `{"order":"A1023","days":"30"}`, `"amount":"49.90"`},
		"outside the window":     {"RefundQuote", `{"order":"A1023","days":"5"}`, `"amount":"0.00"`},
		"more than the price":    {"RefundSubmit", `{"order":"A1023","amount":"49.91"}`, "error"},
		"not a sum":              {"RefundSubmit", `{"order":"A1023","amount":"all"}`, "error"},
		"a refund":               {"RefundSubmit", `{"order":"A1023","amount":"49.90"}`, `"ref":"R-`},
		"catalogue":              {"CatalogSearch", `{"query":"the Birch tent, please"}`, `"price":"189.00"`},
		"catalogue has no match": {"CatalogSearch", `{"query":"a boat"}`, "no product"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := byName[tc.tool].Call(withCustomer(t.Context(), shopper), tc.input)
			require.NoError(t, err)
			assert.Contains(t, got, tc.want)
		})
	}
}
