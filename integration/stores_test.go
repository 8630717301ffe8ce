package integration_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/chains"

	"github.com/skillbay/skillbay"
	"github.com/skillbay/skillbay/integration/redisstore"
	"github.com/skillbay/skillbay/integration/servers"
	"github.com/skillbay/skillbay/skillbaytest"
)

// keeping is a way to keep conversations in a database.
type keeping struct {
	name    string
	absent  error                                // why it cannot be tested here; nil: it can
	empty   func(t *testing.T) skillbay.Store    // a Store of its own, empty
	dialect skillbay.Dialect                     // 0: not SQL
	db      *sql.DB                              // nil: not SQL
	schema  func(t *testing.T) (*sql.DB, string) // a new schema, and who reaches it
	columns string                               // a query for the columns of a table: name, type, collation
	indexes string                               // a query for the indexes of a table: their columns
	types   map[string][]string                  // the types that a column may have, with the collation
}

// TestStores holds the Stores to the contract on real databases, and SQLStore to
// what its documentation says of its table.
func TestStores(t *testing.T) {
	var ran, absent []string
	all := keepings(t)
	for _, k := range all {
		t.Run(k.name, func(t *testing.T) {
			if k.absent != nil {
				absent = append(absent, k.absent.Error())
				t.Skip(k.absent)
			}
			t.Run("contract", func(t *testing.T) { skillbaytest.TestStore(t, k.empty) })
			if k.schema != nil { // the plain way to this dialect
				t.Run("create", func(t *testing.T) { testCreate(t, k) })
				t.Run("columns", func(t *testing.T) { testColumns(t, k) })
				t.Run("schema", func(t *testing.T) { testSchema(t, k) })
				t.Run("purge", func(t *testing.T) { testPurge(t, k) })
			}
			ran = append(ran, k.name)
		})
	}
	t.Run("exchange", func(t *testing.T) { testExchange(t, all) })
	t.Logf("figure: stores run: %s (not here: %s)", list(ran), list(absent))
}

func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, "; ")
}

// keepings starts the servers, all at once.
func keepings(t *testing.T) []keeping {
	t.Helper()
	starts := []func(context.Context) (*servers.Server, error){servers.PostgreSQL, servers.MariaDB, servers.Redis}
	started, failed := make([]*servers.Server, len(starts)), make([]error, len(starts))
	var group sync.WaitGroup
	for i, start := range starts {
		group.Add(1)
		go func() {
			defer group.Done()
			started[i], failed[i] = start(t.Context())
		}()
	}
	group.Wait()
	for i, server := range started {
		if failed[i] == nil {
			t.Cleanup(func() { assert.NoError(t, server.Close()) })
		}
	}
	for _, err := range failed {
		if err != nil && !errors.Is(err, servers.ErrAbsent) {
			t.Fatal(err)
		}
	}
	all := []keeping{keepSQLite(t)}
	all = append(all, keepPostgreSQL(t, started[0], failed[0])...)
	all = append(all, keepMariaDB(t, started[1], failed[1])...)
	return append(all, keepRedis(t, started[2], failed[2]))
}

// keepSQL is a way to a SQL database that is there.
func keepSQL(t *testing.T, name string, dialect skillbay.Dialect, driver, dsn string) keeping {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	db.SetMaxOpenConns(20)
	db.SetMaxIdleConns(20)
	return keeping{name: name, dialect: dialect, db: db, empty: func(t *testing.T) skillbay.Store {
		return newTable(t, db, dialect, newName())
	}}
}

// newName is a table's or schema's name that nobody has.
func newName() string { return "test_" + strings.ToLower(rand.Text()[:16]) }

// newTable is a Store in a new table, which goes with the test.
func newTable(t *testing.T, db *sql.DB, dialect skillbay.Dialect, table string) *skillbay.SQLStore {
	t.Helper()
	store, err := skillbay.NewSQLStore(db, dialect, table)
	require.NoError(t, err)
	require.NoError(t, store.Create(t.Context()))
	t.Cleanup(func() {
		_, err := db.ExecContext(context.Background(), "DROP TABLE "+table)
		assert.NoError(t, err)
	})
	return store
}

func keepSQLite(t *testing.T) keeping {
	const pragmas = "?_pragma=busy_timeout(20000)&_pragma=synchronous(OFF)"
	k := keepSQL(t, "SQLite", skillbay.SQLite, "sqlite", "file:"+filepath.Join(t.TempDir(), "states.db")+pragmas)
	k.schema = func(t *testing.T) (*sql.DB, string) {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "states.db")+pragmas)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, db.Close()) })
		db.SetMaxOpenConns(1) // a connection has its own schemas
		name := newName()
		execute(t, db, "ATTACH ? AS "+name, filepath.Join(t.TempDir(), "other.db"))
		return db, name
	}
	k.columns = `SELECT name, type, '' FROM pragma_table_info(?2, ?1)`
	k.indexes = `SELECT i.name FROM pragma_index_list(?2, ?1) AS l JOIN pragma_index_info(l.name, ?1) AS i ON i.seqno = 0`
	k.types = map[string][]string{
		"conversation": {"TEXT "}, "revision": {"INTEGER "}, "state": {"TEXT "}, "saved": {"INTEGER "},
	}
	return k
}

func keepPostgreSQL(t *testing.T, server *servers.Server, absent error) []keeping {
	const name, simple, serial = "PostgreSQL", "PostgreSQL, simple protocol", "PostgreSQL, serializable"
	if absent != nil {
		return []keeping{{name: name, absent: absent}, {name: simple, absent: absent}, {name: serial, absent: absent}}
	}
	k := keepSQL(t, name, skillbay.PostgreSQL, server.Driver, server.DSN)
	k.schema = func(t *testing.T) (*sql.DB, string) {
		name := newName()
		execute(t, k.db, "CREATE SCHEMA "+name)
		t.Cleanup(func() { execute(t, k.db, "DROP SCHEMA "+name) })
		return k.db, name
	}
	k.columns = `SELECT column_name, concat(data_type, '(' || character_maximum_length || ')'), coalesce(collation_name, '')
		FROM information_schema.columns WHERE table_schema = coalesce(nullif($1, ''), current_schema()) AND table_name = $2`
	k.indexes = `SELECT a.attname FROM pg_index AS i
		JOIN pg_class AS c ON c.oid = i.indrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace
		JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
		WHERE i.indisvalid AND n.nspname = coalesce(nullif($1, ''), current_schema()) AND c.relname = $2`
	k.types = map[string][]string{
		"conversation": {"character varying(255) C"}, "revision": {"bigint "}, "state": {"json "}, "saved": {"bigint "},
	}
	with := func(name, parameter string) keeping {
		return keepSQL(t, name, skillbay.PostgreSQL, server.Driver, addParameter(server.DSN, parameter))
	}
	return []keeping{
		k,
		with(simple, "default_query_exec_mode=simple_protocol"), // as through PgBouncer
		with(serial, "default_transaction_isolation=serializable"),
	}
}

func addParameter(dsn, parameter string) string {
	if strings.Contains(dsn, "?") {
		return dsn + "&" + parameter
	}
	return dsn + "?" + parameter
}

func keepMariaDB(t *testing.T, server *servers.Server, absent error) []keeping {
	const name, found = "MariaDB", "MariaDB, clientFoundRows and interpolateParams"
	if absent != nil {
		return []keeping{{name: name, absent: absent}, {name: found, absent: absent}}
	}
	k := keepSQL(t, name, skillbay.MySQL, server.Driver, server.DSN)
	k.schema = func(t *testing.T) (*sql.DB, string) {
		name := newName()
		execute(t, k.db, "CREATE DATABASE "+name+" CHARACTER SET latin1") // the tables' default, which must not matter
		t.Cleanup(func() { execute(t, k.db, "DROP DATABASE "+name) })
		return k.db, name
	}
	k.columns = `SELECT column_name, column_type, coalesce(collation_name, '') FROM information_schema.columns
		WHERE table_schema = coalesce(nullif(?, ''), database()) AND table_name = ?`
	k.indexes = `SELECT column_name FROM information_schema.statistics
		WHERE table_schema = coalesce(nullif(?, ''), database()) AND table_name = ? AND seq_in_index = 1`
	k.types = map[string][]string{
		"conversation": {"varbinary(255) "}, "revision": {"bigint(20) ", "bigint "}, "saved": {"bigint(20) ", "bigint "},
		"state": {"longtext utf8mb4_bin", "json "}, // what MariaDB calls JSON, and MySQL
	}
	config, err := mysql.ParseDSN(server.DSN)
	require.NoError(t, err)
	config.ClientFoundRows, config.InterpolateParams = true, true
	return []keeping{k, keepSQL(t, found, skillbay.MySQL, server.Driver, config.FormatDSN())}
}

func keepRedis(t *testing.T, server *servers.Server, absent error) keeping {
	k := keeping{name: "Redis", absent: absent}
	if absent != nil {
		return k
	}
	options, err := redis.ParseURL(server.DSN)
	require.NoError(t, err)
	options.ContextTimeoutEnabled = true
	client := redis.NewClient(options)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	k.empty = func(*testing.T) skillbay.Store { return redisstore.New(client, newName()+":", time.Hour) }
	return k
}

func execute(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(context.Background(), statement, args...)
	require.NoError(t, err, statement)
}

// rows are the rows of a query, each with its values joined by "|".
func rows(t *testing.T, db *sql.DB, query string, args ...any) (all []string) {
	t.Helper()
	found, err := db.QueryContext(t.Context(), query, args...)
	require.NoError(t, err)
	defer found.Close()
	names, err := found.Columns()
	require.NoError(t, err)
	for found.Next() {
		values, to := make([]string, len(names)), make([]any, len(names))
		for i := range values {
			to[i] = &values[i]
		}
		require.NoError(t, found.Scan(to...))
		all = append(all, strings.Join(values, "|"))
	}
	require.NoError(t, found.Err())
	return all
}

// testRecord is a Record with a State that says which.
func testRecord(t *testing.T, revision int64, note string) skillbay.Record {
	t.Helper()
	data, err := json.Marshal(map[string]any{"format": 1, "note": note})
	require.NoError(t, err)
	return skillbay.Record{Revision: revision, State: data}
}

// holdsRecord checks what a Store keeps.
func holdsRecord(t *testing.T, store skillbay.Store, id string, want skillbay.Record) {
	t.Helper()
	r, err := store.Load(t.Context(), id)
	require.NoError(t, err, id)
	require.Equal(t, want.Revision, r.Revision, id)
	require.JSONEq(t, string(want.State), string(r.State), id)
}

func missing(t *testing.T, store skillbay.Store, id string) {
	t.Helper()
	r, err := store.Load(t.Context(), id)
	require.NoError(t, err, id)
	require.Zero(t, r, id)
}

// testCreate: Create may be called again, and by every pod of a deployment.
func testCreate(t *testing.T, k keeping) {
	t.Run("twice", func(t *testing.T) {
		store := newTable(t, k.db, k.dialect, newName())
		kept := testRecord(t, 1, "kept")
		require.NoError(t, store.Save(t.Context(), "4711", kept))
		require.NoError(t, store.Create(t.Context()))
		holdsRecord(t, store, "4711", kept)
	})
	t.Run("at once", func(t *testing.T) {
		const machines, rounds = 8, 5
		for range rounds {
			table := newName()
			var ready, group sync.WaitGroup
			failed := make([]error, machines)
			ready.Add(machines)
			for i := range machines {
				group.Add(1)
				go func() {
					defer group.Done()
					failed[i] = func() error {
						connection, err := k.db.Conn(t.Context()) // so that each has one
						ready.Done()
						if err != nil {
							return err
						}
						ready.Wait()
						_ = connection.Close()
						store, err := skillbay.NewSQLStore(k.db, k.dialect, table)
						if err != nil {
							return err
						}
						return store.Create(t.Context())
					}()
				}()
			}
			group.Wait()
			require.NoError(t, errors.Join(failed...))
			store := newTable(t, k.db, k.dialect, table)
			require.NoError(t, store.Save(t.Context(), "4711", testRecord(t, 1, "kept")))
			require.Len(t, indexed(t, k, k.db, "", table), 2)
		}
	})
	t.Run("no table", func(t *testing.T) {
		store, err := skillbay.NewSQLStore(k.db, k.dialect, newName())
		require.NoError(t, err)
		_, err = store.Load(t.Context(), "4711")
		require.Error(t, err, "a missing table is no new conversation")
		err = store.Save(t.Context(), "4711", testRecord(t, 1, "lost"))
		require.Error(t, err)
		require.NotErrorIs(t, err, skillbay.ErrConflict)
	})
}

// indexed are the columns that a table has an index of.
func indexed(t *testing.T, k keeping, db *sql.DB, schema, table string) []string {
	t.Helper()
	if k.dialect == skillbay.SQLite && schema == "" {
		schema = "main"
	}
	return rows(t, db, k.indexes, schema, table)
}

// testColumns: the table is what SQLStore's documentation says.
func testColumns(t *testing.T, k keeping) {
	table := newName()
	store := newTable(t, k.db, k.dialect, table)
	schema := ""
	if k.dialect == skillbay.SQLite {
		schema = "main"
	}
	columns := rows(t, k.db, k.columns, schema, table)
	require.Len(t, columns, len(k.types), "%q", columns)
	for _, column := range columns {
		is := strings.SplitN(column, "|", 3)
		require.Contains(t, k.types[is[0]], is[1]+" "+is[2], is[0])
	}
	require.ElementsMatch(t, []string{"conversation", "saved"}, indexed(t, k, k.db, schema, table))

	// The column is JSON whatever its type is called.
	for _, text := range []string{"", "{", "no JSON", `{"a":1} x`} {
		err := store.Save(t.Context(), "4711", skillbay.Record{Revision: 1, State: []byte(text)})
		require.Error(t, err, text)
		require.NotErrorIs(t, err, skillbay.ErrConflict, text)
		missing(t, store, "4711")
	}
	kept := testRecord(t, 1, "kept")
	require.NoError(t, store.Save(t.Context(), "4711", kept))
	err := store.Save(t.Context(), "4711", skillbay.Record{Revision: 2, State: []byte("no JSON")})
	require.Error(t, err)
	require.NotErrorIs(t, err, skillbay.ErrConflict)
	holdsRecord(t, store, "4711", kept)

	// saved is the machine's time in Unix milliseconds.
	before := time.Now().UnixMilli()
	require.NoError(t, store.Save(t.Context(), "4711", testRecord(t, 2, "again")))
	var saved int64
	require.NoError(t, k.db.QueryRowContext(t.Context(), "SELECT saved FROM "+table).Scan(&saved))
	require.GreaterOrEqual(t, saved, before)
	require.LessOrEqual(t, saved, time.Now().UnixMilli())
}

// testSchema: a table with its schema's name is another than the one without,
// and fulfils the contract.
func testSchema(t *testing.T, k keeping) {
	db, schema := k.schema(t)
	table := newName()
	plain := newTable(t, db, k.dialect, table)
	inside := newTable(t, db, k.dialect, schema+"."+table)
	require.NoError(t, plain.Save(t.Context(), "4711", testRecord(t, 1, "plain")))
	missing(t, inside, "4711")
	require.NoError(t, inside.Save(t.Context(), "4711", testRecord(t, 1, "inside")))
	holdsRecord(t, plain, "4711", testRecord(t, 1, "plain"))
	require.ElementsMatch(t, []string{"conversation", "saved"}, indexed(t, k, db, schema, table))
	require.ElementsMatch(t, []string{"conversation", "saved"}, indexed(t, k, db, "", table))
	skillbaytest.TestStore(t, func(t *testing.T) skillbay.Store {
		return newTable(t, db, k.dialect, schema+"."+newName())
	})
}

// testPurge: Purge forgets what was saved before a time and nothing else, and
// Delete one conversation.
func testPurge(t *testing.T, k keeping) {
	ctx, table := t.Context(), newName()
	store := newTable(t, k.db, k.dialect, table)
	start := time.Now()
	for _, id := range []string{"old", "older", "renewed", "edge", "new", "deleted"} {
		require.NoError(t, store.Save(ctx, id, testRecord(t, 1, id)))
	}
	end := time.Now()
	purge := func(before time.Time, want int) {
		t.Helper()
		n, err := store.Purge(ctx, before)
		require.NoError(t, err)
		require.EqualValues(t, want, n)
	}
	purge(start, 0)

	// As if they had been saved long ago.
	then := start.Add(-time.Hour)
	for id, at := range map[string]time.Time{
		"old": then.Add(-time.Millisecond), "older": then.Add(-1000 * time.Hour), "renewed": then.Add(-time.Minute), "edge": then,
	} {
		execute(t, k.db, fmt.Sprintf("UPDATE %s SET saved = %d WHERE conversation = '%s'", table, at.UnixMilli(), id))
	}
	require.NoError(t, store.Save(ctx, "renewed", testRecord(t, 2, "renewed")))
	require.ErrorIs(t, store.Save(ctx, "old", testRecord(t, 3, "old")), skillbay.ErrConflict, "what is refused renews nothing")
	purge(then, 2)
	missing(t, store, "old")
	missing(t, store, "older")
	holdsRecord(t, store, "renewed", testRecord(t, 2, "renewed"))
	for _, id := range []string{"edge", "new", "deleted"} {
		holdsRecord(t, store, id, testRecord(t, 1, id))
	}

	require.NoError(t, store.Delete(ctx, "deleted"))
	require.NoError(t, store.Delete(ctx, "deleted"), "once more is no error")
	require.NoError(t, store.Delete(ctx, "NEW"), "another conversation")
	missing(t, store, "deleted")
	holdsRecord(t, store, "new", testRecord(t, 1, "new"))
	require.NoError(t, store.Save(ctx, "deleted", testRecord(t, 1, "anew")), "it is a new conversation")

	purge(end.Add(-30*time.Minute), 1) // edge
	purge(time.Now().Add(time.Second), 3)
	missing(t, store, "new")
}

// testExchange: what one database was given, another one takes, and the
// conversation goes on there.
func testExchange(t *testing.T, all []keeping) {
	converse := func(t *testing.T, store skillbay.Store, seed uint64, messages ...string) {
		t.Helper()
		j := &journal{to: io.Discard}
		exec, err := deskExecutor(skillbay.Config{Store: store}, &podModel{journal: j, dice: mathrand.New(mathrand.NewPCG(seed, 0))}, j)
		require.NoError(t, err)
		for _, message := range messages {
			_, err = chains.Run(skillbay.WithConversation(t.Context(), "4711"), exec, message)
			require.NoError(t, err)
		}
	}
	pairs := 0
	for n, from := range all {
		for m, to := range all {
			if from.absent != nil || to.absent != nil {
				continue
			}
			source, target := from.empty(t), to.empty(t)
			converse(t, source, uint64(100*n+m), "Grüße, 客户 🙂", "And B2?", `"C3" \ 'D4'`)
			kept, err := source.Load(t.Context(), "4711")
			require.NoError(t, err)
			require.NotZero(t, kept.Revision)
			require.NoError(t, target.Save(t.Context(), "4711", skillbay.Record{Revision: 1, State: kept.State}))
			moved, err := target.Load(t.Context(), "4711")
			require.NoError(t, err)
			require.Equal(t, stateOf(t, kept), stateOf(t, moved), "from %s to %s", from.name, to.name)
			before, err := ledgersOf(kept.State, nil)
			require.NoError(t, err)

			converse(t, target, uint64(100*n+m), "And E5?")
			kept, err = target.Load(t.Context(), "4711")
			require.NoError(t, err)
			after, err := ledgersOf(kept.State, nil)
			require.NoError(t, err)
			require.Equal(t, before.Turn.N+1, after.Turn.N)
			for _, l := range before.Invoked {
				require.True(t, after.keeps(l.Skill, l.Turn, l.Seq), "from %s to %s: %+v", from.name, to.name, l)
			}
			pairs++
		}
	}
	t.Logf("figure: stores exchange: %d pairs", pairs)
}

// stateOf is a Record's State in skillbay's own form.
func stateOf(t *testing.T, r skillbay.Record) string {
	t.Helper()
	st := new(skillbay.State)
	require.NoError(t, st.UnmarshalJSON(r.State))
	data, err := st.MarshalJSON()
	require.NoError(t, err)
	return string(bytes.TrimSpace(data))
}
