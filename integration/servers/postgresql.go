package servers

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// PostgreSQL starts a PostgreSQL server, or returns the one that
// SKILLBAY_POSTGRES names. ctx bounds the start, not the server's life. The
// error is ErrAbsent if initdb and postgres are neither in PATH nor where Debian
// has them.
func PostgreSQL(ctx context.Context) (*Server, error) { return postgreSQL.start(ctx) }

var postgreSQL = kind{
	name:     "PostgreSQL",
	driver:   "pgx",
	variable: "SKILLBAY_POSTGRES",
	programs: []string{"initdb", "postgres"},
	folders:  []string{"/usr/lib/postgresql/*/bin"},
	// PostgreSQL's immediate shutdown. Killed, it would leave a segment of
	// shared memory behind.
	signal: "QUIT",
	prepare: func(ctx context.Context, s *site) error {
		password, err := s.file("password", s.password)
		if err != nil {
			return err
		}
		return s.run(ctx, s.programs[0], "--pgdata="+filepath.Join(s.dir, "data"),
			"--username=postgres", "--pwfile="+password, "--auth=scram-sha-256",
			"--encoding=UTF8", "--no-locale", "--no-sync")
	},
	arguments: func(s *site) ([]string, error) {
		return []string{
			"-D", filepath.Join(s.dir, "data"),
			"-h", "127.0.0.1", "-p", fmt.Sprint(s.port), "-c", "unix_socket_directories=",
			"-c", "shared_buffers=16MB", "-c", "max_connections=100",
			"-c", "dynamic_shared_memory_type=mmap", // files in the directory, which goes
			"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off",
			"-c", "wal_level=minimal", "-c", "max_wal_senders=0", "-c", "jit=off",
		}, nil
	},
	dsn: func(s *site) string {
		return fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%d/postgres?sslmode=disable", s.password, s.port)
	},
	ping: func(ctx context.Context, dsn string) error { return pingSQL(ctx, "pgx", dsn) },
}

// pingSQL asks a database for a number.
func pingSQL(ctx context.Context, driver, dsn string) error {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	var one int
	return db.QueryRowContext(ctx, "SELECT 1").Scan(&one)
}
