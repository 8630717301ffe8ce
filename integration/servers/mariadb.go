package servers

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// MariaDB starts a MariaDB server, or returns the one that SKILLBAY_MYSQL names,
// which may be MySQL. ctx bounds the start, not the server's life. The error is
// ErrAbsent if mariadb-install-db, my_print_defaults and mariadbd are neither in
// PATH nor where Debian has them.
func MariaDB(ctx context.Context) (*Server, error) { return mariaDB.start(ctx) }

var mariaDB = kind{
	name:     "MariaDB",
	driver:   "mysql",
	variable: "SKILLBAY_MYSQL",
	programs: []string{"mariadb-install-db", "my_print_defaults", "mariadbd"}, // the first calls the second
	folders:  []string{"/usr/bin", "/usr/sbin"},
	signal:   "KILL", // an orderly end takes longer, and saves what is not kept
	prepare: func(ctx context.Context, s *site) error {
		// The server's administrator has no password and answers on the socket
		// only, in a directory that nobody else may enter.
		_, err := s.file("init.sql", strings.Join([]string{
			"CREATE DATABASE IF NOT EXISTS skillbay CHARACTER SET utf8mb4;",
			"CREATE USER IF NOT EXISTS skillbay@'127.0.0.1' IDENTIFIED BY '" + s.password + "';",
			"GRANT ALL ON *.* TO skillbay@'127.0.0.1';",
		}, "\n"))
		if err != nil {
			return err
		}
		return s.run(ctx, s.programs[0], append(mariaDBOptions(s), "--skip-test-db")...)
	},
	arguments: func(s *site) ([]string, error) {
		return append(
			mariaDBOptions(s),
			"--bind-address=127.0.0.1", fmt.Sprint("--port=", s.port),
			"--socket="+filepath.Join(s.dir, "socket"), "--pid-file="+filepath.Join(s.dir, "pid"),
			"--init-file="+filepath.Join(s.dir, "init.sql"),
			"--max-connections=100", "--innodb-flush-log-at-trx-commit=0", "--skip-log-bin",
		), nil
	},
	dsn: func(s *site) string {
		config := mysql.NewConfig()
		config.User, config.Passwd, config.DBName = "skillbay", s.password, "skillbay"
		config.Net, config.Addr = "tcp", fmt.Sprint("127.0.0.1:", s.port)
		config.ParseTime = true
		return config.FormatDSN()
	},
	ping: func(ctx context.Context, dsn string) error { return pingSQL(ctx, "mysql", dsn) },
}

// mariaDBOptions are for making the tables and for the server: its log has the
// same size in both, and neither reads the system's configuration.
func mariaDBOptions(s *site) []string {
	return []string{
		"--no-defaults", "--datadir=" + filepath.Join(s.dir, "data"), "--tmpdir=" + s.dir,
		"--skip-name-resolve",
		"--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M", "--key-buffer-size=1M",
		"--aria-pagecache-buffer-size=8M", "--performance-schema=OFF",
		"--innodb-doublewrite=OFF", "--innodb-use-native-aio=OFF", "--debug-no-sync",
	}
}
