package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/skillbay/skillbay"
	_ "modernc.org/sqlite" // the driver, without cgo
)

// applicationID marks a database as this program's ("SBAY"), so that -db on
// some other program's file is refused instead of filled with tables.
const applicationID = 0x53424159

// schemaSQL holds the shop (products, orders, effects: what tools really did)
// and the conversations: their rows, their State, and the tokens they cost.
const schemaSQL = `
CREATE TABLE IF NOT EXISTS products (name TEXT PRIMARY KEY, category TEXT, price INTEGER, colours TEXT, stock INTEGER);
CREATE TABLE IF NOT EXISTS orders (
	id TEXT PRIMARY KEY, customer TEXT, item TEXT, category TEXT, price INTEGER,
	status TEXT, delivered TEXT, address TEXT, carrier TEXT, expected TEXT
);
CREATE TABLE IF NOT EXISTS effects (
	seq INTEGER PRIMARY KEY AUTOINCREMENT, ref TEXT, kind TEXT, order_id TEXT, detail TEXT
);
CREATE TABLE IF NOT EXISTS conversations (id TEXT PRIMARY KEY, state TEXT);
CREATE TABLE IF NOT EXISTS messages (
	seq INTEGER PRIMARY KEY AUTOINCREMENT, conversation TEXT, role TEXT, text TEXT
);
CREATE TABLE IF NOT EXISTS usage (
	conversation TEXT, turn INTEGER, calls INTEGER, tokens INTEGER, PRIMARY KEY (conversation, turn)
);`

// store is the shop's database. It is safe for any number of goroutines.
type store struct{ db *sql.DB }

// order is one row of orders; prices are in cents, dates in ISO form.
type order struct {
	id, customer, item, category        string
	price                               int64
	status, delivered, address, carrier string
	expected                            string
}

// product is one row of products; the price is in cents.
type product struct {
	name, category string
	price          int64
	colours        string
	stock          int64
}

// row is one row of a conversation.
type row struct {
	seq  int64
	Role string `json:"role"` // "human" or "ai"
	Text string `json:"text"`
}

// usage is what one turn sent to the model.
type usage struct{ turn, calls, tokens int }

// openStore opens or creates the database at path. It refuses a database of
// another program.
func openStore(ctx context.Context, path string) (*store, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	slashed := "/" + strings.TrimPrefix(filepath.ToSlash(abs), "/")
	dsn := url.URL{Scheme: "file", Path: slashed, RawQuery: "_pragma=busy_timeout(5000)"}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, err
	}
	s := &store{db: db}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("database %s: %w", path, err), db.Close())
	}
	return s, nil
}

// prepare creates the tables of an empty database and recognises its own.
func (s *store) prepare(ctx context.Context) error {
	var id, tables int64
	if err := s.db.QueryRowContext(ctx, `PRAGMA application_id`).Scan(&id); err != nil {
		return err
	}
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master`).Scan(&tables); err != nil {
		return err
	}
	if id != applicationID && tables > 0 {
		return errors.New("it belongs to another program; name a file of its own with -db")
	}
	_, err := s.db.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d; %s", applicationID, schemaSQL))
	return err
}

// close closes the database.
func (s *store) close() error { return s.db.Close() }

// transact runs do in one transaction.
func (s *store) transact(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// reset forgets a conversation and puts the shop back to its first day.
func (s *store) reset(ctx context.Context, conversation string, products []product, orders []order) error {
	return s.transact(ctx, func(tx *sql.Tx) error {
		if err := execute(ctx, tx, `DELETE FROM products; DELETE FROM orders; DELETE FROM effects; DELETE FROM sqlite_sequence WHERE name='effects'`); err != nil {
			return err
		}
		for _, table := range []string{"conversations WHERE id", "messages WHERE conversation", "usage WHERE conversation"} {
			if err := execute(ctx, tx, `DELETE FROM `+table+`=?`, conversation); err != nil {
				return err
			}
		}
		for _, p := range products {
			if err := execute(ctx, tx, `INSERT INTO products VALUES (?,?,?,?,?)`, p.name, p.category, p.price, p.colours, p.stock); err != nil {
				return err
			}
		}
		for _, o := range orders {
			if err := execute(ctx, tx, `INSERT INTO orders VALUES (?,?,?,?,?,?,?,?,?,?)`, o.id, o.customer, o.item, o.category,
				o.price, o.status, o.delivered, o.address, o.carrier, o.expected); err != nil {
				return err
			}
		}
		return nil
	})
}

// execute runs one statement of a transaction, without its result.
func execute(ctx context.Context, tx *sql.Tx, query string, args ...any) error {
	_, err := tx.ExecContext(ctx, query, args...)
	return err
}

// products returns the catalogue in name order.
func (s *store) products(ctx context.Context) ([]product, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT name, category, price, colours, stock FROM products ORDER BY name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []product
	for rows.Next() {
		var p product
		if err := rows.Scan(&p.name, &p.category, &p.price, &p.colours, &p.stock); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, rows.Err()
}

// order returns the order of this customer; sql.ErrNoRows for anyone else's.
func (s *store) order(ctx context.Context, customerID, id string) (order, error) {
	var o order
	err := s.db.QueryRowContext(ctx, `SELECT id, customer, item, category, price, status, delivered, address, carrier, expected
		FROM orders WHERE id=? AND customer=?`, id, customerID).Scan(&o.id, &o.customer, &o.item, &o.category, &o.price,
		&o.status, &o.delivered, &o.address, &o.carrier, &o.expected)
	return o, err
}

// setAddress changes the delivery address of an order.
func (s *store) setAddress(ctx context.Context, id, address string) error {
	_, err := s.db.ExecContext(ctx, `UPDATE orders SET address=? WHERE id=?`, address, id)
	return err
}

// setStatus moves an order on, as the warehouse does.
func (s *store) setStatus(ctx context.Context, id, status string) error {
	_, err := s.db.ExecContext(ctx, `UPDATE orders SET status=? WHERE id=?`, status, id)
	return err
}

// effect records what a tool did and returns its reference, such as "R-0001".
func (s *store) effect(ctx context.Context, kind, orderID, detail string) (string, error) {
	var ref string
	err := s.transact(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, `INSERT INTO effects (kind, order_id, detail) VALUES (?,?,?)`, kind, orderID, detail)
		if err != nil {
			return err
		}
		seq, err := result.LastInsertId()
		if err != nil {
			return err
		}
		ref = fmt.Sprintf("%s-%04d", kind[:1], seq)
		return execute(ctx, tx, `UPDATE effects SET ref=? WHERE seq=?`, ref, seq)
	})
	return ref, err
}

// effects returns "kind order detail" of everything that tools did, in order.
func (s *store) effects(ctx context.Context) ([]string, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT kind, order_id, detail FROM effects ORDER BY seq`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var kind, orderID, detail string
		if err := rows.Scan(&kind, &orderID, &detail); err != nil {
			return nil, err
		}
		all = append(all, kind+" "+orderID+" "+detail)
	}
	return all, rows.Err()
}

// state returns the State of a conversation: a new one when there is none.
func (s *store) state(ctx context.Context, conversation string) (*skillbay.State, error) {
	st := skillbay.NewState()
	err := s.db.QueryRowContext(ctx, `SELECT state FROM conversations WHERE id=?`, conversation).Scan(st)
	if errors.Is(err, sql.ErrNoRows) {
		return st, nil
	}
	return st, err
}

// saveState writes the State alone: after a launch or a dismissal in the middle
// of a run, and after a run that failed.
func (s *store) saveState(ctx context.Context, conversation string, st *skillbay.State) error {
	return s.transact(ctx, func(tx *sql.Tx) error { return putState(ctx, tx, conversation, st) })
}

// saveTurn writes new rows of a conversation and its State in one transaction,
// so that neither is ever ahead of the other.
func (s *store) saveTurn(ctx context.Context, conversation string, st *skillbay.State, rows ...row) error {
	return s.transact(ctx, func(tx *sql.Tx) error {
		for _, r := range rows {
			if err := execute(ctx, tx, `INSERT INTO messages (conversation, role, text) VALUES (?,?,?)`,
				conversation, r.Role, r.Text); err != nil {
				return err
			}
		}
		return putState(ctx, tx, conversation, st)
	})
}

// replaceRows puts one row in the place of the given ones.
func (s *store) replaceRows(ctx context.Context, conversation string, st *skillbay.State, old []row, by row) error {
	return s.transact(ctx, func(tx *sql.Tx) error {
		first, last := old[0].seq, old[len(old)-1].seq
		if err := execute(ctx, tx, `DELETE FROM messages WHERE conversation=? AND seq BETWEEN ? AND ?`,
			conversation, first, last); err != nil {
			return err
		}
		if err := execute(ctx, tx, `INSERT INTO messages (seq, conversation, role, text) VALUES (?,?,?,?)`,
			first, conversation, by.Role, by.Text); err != nil {
			return err
		}
		return putState(ctx, tx, conversation, st)
	})
}

// putState writes the State of a conversation.
func putState(ctx context.Context, tx *sql.Tx, conversation string, st *skillbay.State) error {
	return execute(ctx, tx, `INSERT INTO conversations (id, state) VALUES (?,?)
		ON CONFLICT (id) DO UPDATE SET state=excluded.state`, conversation, st)
}

// rows returns the rows of a conversation, oldest first.
func (s *store) rows(ctx context.Context, conversation string) ([]row, error) {
	found, err := s.db.QueryContext(ctx, `SELECT seq, role, text FROM messages WHERE conversation=? ORDER BY seq`, conversation)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var all []row
	for found.Next() {
		var r row
		if err := found.Scan(&r.seq, &r.Role, &r.Text); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, found.Err()
}

// addUsage records what a turn sent.
func (s *store) addUsage(ctx context.Context, conversation string, u usage) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO usage VALUES (?,?,?,?)
		ON CONFLICT DO UPDATE SET calls=calls+excluded.calls, tokens=tokens+excluded.tokens`,
		conversation, u.turn, u.calls, u.tokens)
	return err
}

// usages returns what every turn of a conversation sent, in order.
func (s *store) usages(ctx context.Context, conversation string) ([]usage, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT turn, calls, tokens FROM usage WHERE conversation=? ORDER BY turn`, conversation)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []usage
	for rows.Next() {
		var u usage
		if err := rows.Scan(&u.turn, &u.calls, &u.tokens); err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return all, rows.Err()
}
