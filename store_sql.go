package skillbay

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Dialect is the SQL that a database speaks.
type Dialect int

// The dialects of SQLStore. The zero Dialect is none.
const (
	SQLite     Dialect = iota + 1 // 3.38 or later
	PostgreSQL                    // 12 or later
	MySQL                         // 8.0 or later, and MariaDB 10.5 or later
)

// DefaultTable is the name of SQLStore's table.
const DefaultTable = "skillbay_states"

// SQLStore is a Store in one table of an SQL database. It brings no driver: the
// program imports its own. All methods are safe for concurrent use.
//
// The table has four columns: conversation (the primary key, compared byte by
// byte), revision, state (JSON; a JSON column in PostgreSQL and MySQL), and saved
// (Unix milliseconds by the saving machine's clock; indexed, for Purge). MySQL's
// JSON column writes unknown numbers of more than 64 bits as floating point.
//
// SQLite takes one writer at a time: give its driver a busy timeout, or what
// waits fails.
type SQLStore struct {
	db      *sql.DB
	dialect Dialect
	table   string

	load, insert, update, remove, purge string
}

var _ Store = (*SQLStore)(nil)

// tableName is what may stand in SQL without quoting, with a schema or without.
var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,47}\.)?[A-Za-z_][A-Za-z0-9_]{0,47}$`)

// NewSQLStore returns a Store in that table; an empty name is DefaultTable. The
// table must exist: see Create. The caller keeps db and closes it. Errors:
// ErrConfig.
func NewSQLStore(db *sql.DB, dialect Dialect, table string) (*SQLStore, error) {
	if table == "" {
		table = DefaultTable
	}
	fail := func(format string, args ...any) (*SQLStore, error) {
		return nil, &Error{Op: "new SQL store", Err: fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)}
	}
	switch {
	case db == nil:
		return fail("the database is nil")
	case dialect < SQLite || dialect > MySQL:
		return fail("unknown dialect %d", dialect)
	case !tableName.MatchString(table):
		return fail("%q is no table name of letters, digits and underscores", table)
	}
	s := &SQLStore{db: db, dialect: dialect, table: table}
	s.load = s.sql(`SELECT revision, state FROM {table} WHERE conversation = ?`)
	s.insert = s.sql(`INSERT INTO {table} (conversation, revision, state, saved) VALUES (?, ?, ?, ?)`)
	s.update = s.sql(`UPDATE {table} SET revision = ?, state = ?, saved = ? WHERE conversation = ? AND revision = ?`)
	s.remove = s.sql(`DELETE FROM {table} WHERE conversation = ?`)
	s.purge = s.sql(`DELETE FROM {table} WHERE saved < ?`)
	return s, nil
}

// sql words a statement in the Store's dialect.
func (s *SQLStore) sql(statement string) string {
	statement = strings.ReplaceAll(statement, "{table}", s.table)
	if s.dialect != PostgreSQL {
		return statement
	}
	var b strings.Builder
	for n, part := range strings.Split(statement, "?") {
		if n > 0 {
			fmt.Fprintf(&b, "$%d", n)
		}
		b.WriteString(part)
	}
	return b.String()
}

// schema are the statements that make the table. An id is bytes: a text column
// would take "A" for "a", or "a " for "a", under many a collation.
func (s *SQLStore) schema() []string {
	name := s.table[strings.LastIndexByte(s.table, '.')+1:]
	switch s.dialect {
	case PostgreSQL:
		return []string{
			s.sql(`CREATE TABLE IF NOT EXISTS {table} (conversation varchar(255) COLLATE "C" PRIMARY KEY,
				revision bigint NOT NULL, state json NOT NULL, saved bigint NOT NULL)`),
			s.sql(`CREATE INDEX IF NOT EXISTS ` + name + `_saved ON {table} (saved)`),
		}
	case MySQL:
		return []string{s.sql(`CREATE TABLE IF NOT EXISTS {table} (conversation varbinary(255) NOT NULL PRIMARY KEY,
			revision bigint NOT NULL, state json NOT NULL, saved bigint NOT NULL, INDEX ` + name + `_saved (saved))`)}
	}
	schema := s.table[:len(s.table)-len(name)]
	return []string{
		s.sql(`CREATE TABLE IF NOT EXISTS {table} (conversation TEXT NOT NULL PRIMARY KEY,
			revision INTEGER NOT NULL, state TEXT NOT NULL CHECK (json_valid(state)), saved INTEGER NOT NULL) WITHOUT ROWID`),
		`CREATE INDEX IF NOT EXISTS ` + schema + name + `_saved ON ` + name + ` (saved)`,
	}
}

// Create makes the table and its index where they do not exist yet. Any number
// of machines may call it at once.
func (s *SQLStore) Create(ctx context.Context) error {
	var err error
	for range 3 { // PostgreSQL fails one of two that create the same at once
		for _, statement := range s.schema() {
			if _, err = s.db.ExecContext(ctx, statement); err != nil {
				break
			}
		}
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return s.failed("create table", err)
}

// Load implements Store.
func (s *SQLStore) Load(ctx context.Context, id string) (r Record, err error) {
	err = s.db.QueryRowContext(ctx, s.load, s.key(id)).Scan(&r.Revision, &r.State)
	if errors.Is(err, sql.ErrNoRows) {
		return Record{}, nil
	}
	if err != nil {
		return Record{}, s.failed("load state", err)
	}
	return r, nil
}

// Save implements Store.
func (s *SQLStore) Save(ctx context.Context, id string, r Record) error {
	now := time.Now().UnixMilli()
	statement, args := s.update, []any{r.Revision, string(r.State), now, s.key(id), r.Revision - 1}
	if r.Revision == 1 {
		statement, args = s.insert, []any{s.key(id), r.Revision, string(r.State), now}
	}
	result, err := s.db.ExecContext(ctx, statement, args...)
	if err != nil {
		// PostgreSQL says so when it cannot put transactions in an order.
		var state interface{ SQLState() string }
		if errors.As(err, &state) && state.SQLState() == "40001" {
			return ErrConflict
		}
		// No two drivers agree on how they say that the key exists: look.
		if there, lookErr := s.Load(ctx, id); lookErr == nil && there.Revision != r.Revision-1 {
			return ErrConflict
		}
		return s.failed("save state", err)
	}
	switch n, err := result.RowsAffected(); {
	case err != nil:
		return s.failed("save state", err)
	case n == 0:
		return ErrConflict
	}
	return nil
}

// key is an id as the primary key's column takes it.
func (s *SQLStore) key(id string) any {
	if s.dialect == MySQL {
		return []byte(id)
	}
	return id
}

// Delete forgets a conversation; one that is not kept is no error.
func (s *SQLStore) Delete(ctx context.Context, id string) error {
	_, err := s.db.ExecContext(ctx, s.remove, s.key(id))
	return s.failed("delete state", err)
}

// Purge forgets the conversations that were last saved before that time, and
// returns how many.
func (s *SQLStore) Purge(ctx context.Context, before time.Time) (int64, error) {
	result, err := s.db.ExecContext(ctx, s.purge, before.UnixMilli())
	if err != nil {
		return 0, s.failed("purge states", err)
	}
	n, err := result.RowsAffected()
	return n, s.failed("purge states", err)
}

// failed names the operation and the table; nil for no error.
func (s *SQLStore) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Path: s.table, Err: err}
}
