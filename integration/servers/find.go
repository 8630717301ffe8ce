package servers

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
)

// find returns the paths of the kind's programs. The first one is looked for in
// PATH and then in the kind's folders, the others beside it and then likewise:
// programs of different versions do not fit together.
func (k kind) find() ([]string, error) {
	places := []string{""} // PATH
	for _, pattern := range k.folders {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		slices.Reverse(found) // the newest version first
		places = append(places, found...)
	}
	var paths []string
	for _, program := range k.programs {
		path := look(program, places)
		if path == "" {
			return nil, fmt.Errorf("%s: no program %s: %w", k.name, program, ErrAbsent)
		}
		if len(paths) == 0 {
			places = append([]string{filepath.Dir(path)}, places...)
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// look returns the path of a program in the first place that has it, or "".
func look(program string, places []string) string {
	for _, place := range places {
		if path, err := exec.LookPath(filepath.Join(place, program)); err == nil {
			return path
		}
	}
	return ""
}

// freePort returns a port of 127.0.0.1 that nothing listens on now.
func freePort(ctx context.Context) (int, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// newPassword returns 26 random letters and digits: 127.0.0.1 is everybody's on
// this machine, and a database's administrator can run commands as its user.
func newPassword() string { return rand.Text() }
