package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// keeper owns a directory and the processes started in it, one at a time, and
// ends both with the test process. It is a shell that reads from a pipe: each
// process writes its process group there, this process an empty line when it has
// ended, and the pipe ends with this process, or by release. A process that is
// killed closes its pipes too.
//
// Linux could kill the server when its parent thread ends, but not remove its
// directory or let PostgreSQL free its shared memory.
type keeper struct {
	dir   string
	as    *account
	shell *exec.Cmd
	pipe  *os.File // its writing end

	running  sync.WaitGroup // the processes not yet reaped
	released func() error
}

// keeperScript stops the group that was named last, unless its end was noted,
// and removes the directory. Ten seconds are for PostgreSQL's shutdown. A leader
// that has ended and waits for its new parent to notice counts as ended: in a
// container that may take for ever. Signals that a terminal or a CI sends to
// everything are not for the keeper.
const keeperScript = `
trap '' HUP INT QUIT TERM
signal=$1 dir=$2 group=
while read -r line; do group=$line; done
runs() {
	kill -s 0 -- "-$group" && ! grep -q '^State:.*zombie' "/proc/$group/status"
} 2>/dev/null
if [ -n "$group" ]; then
	kill -s "$signal" -- "-$group"
	tries=0
	while runs && [ $tries -lt 400 ]; do
		sleep 0.025
		tries=$((tries + 1))
	done
	kill -s KILL -- "-$group" 2>/dev/null
fi
rm -rf -- "$dir"
`

// announce has a process name its group to the keeper before it becomes the
// program it is for, and let go of the pipe: at no time is it unknown.
const announce = `echo $$ >&3 && exec "$@" 3>&-`

// keep makes a directory and starts its keeper, which stops processes by the
// named signal. No directory is left if it fails.
func keep(signal string) (*keeper, error) {
	if !hasGroups {
		return nil, fmt.Errorf("servers need a Unix: %w", ErrAbsent)
	}
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "skillbay-server-")
	if err != nil {
		return nil, err
	}
	k := &keeper{as: as}
	if k.dir, err = filepath.Abs(dir); err == nil {
		err = k.start(signal)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	k.released = sync.OnceValue(k.end)
	return k, nil
}

func (k *keeper) start(signal string) error {
	if err := k.as.own(k.dir); err != nil {
		return err
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	defer reader.Close()
	k.shell = command(k.dir, nil, "/bin/sh", "-c", keeperScript, "keeper", signal, k.dir)
	k.shell.Dir = "/"          // the directory is to be removed
	k.shell.Stderr = os.Stderr // what cannot be stopped or removed is to be seen
	k.shell.Stdin, k.pipe = reader, writer
	if err := k.shell.Start(); err != nil {
		return errors.Join(err, writer.Close())
	}
	return nil
}

// release stops what runs, removes the directory and waits for both.
func (k *keeper) release() error { return k.released() }

func (k *keeper) end() error {
	err := errors.Join(k.pipe.Close(), k.shell.Wait())
	k.running.Wait()
	if _, stat := os.Stat(k.dir); !errors.Is(stat, fs.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("%s is still there", k.dir), stat)
	}
	return err
}

// command is a process in a group of its own, of the account, and without the
// variables of this process, which servers obey too.
func command(dir string, as *account, program string, arguments ...string) *exec.Cmd {
	// No context: the keeper ends it.
	cmd := exec.CommandContext(context.Background(), program, arguments...) //nolint:gosec // servers and their arguments are this package's own
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH") + ":/usr/bin:/bin", "HOME=" + dir, "LC_ALL=C"}
	confine(cmd, as)
	return cmd
}

// process is one program that the keeper ends if it does not end itself.
type process struct {
	program string
	ended   chan struct{} // closed when the other fields are there
	err     error
	words   string // the last of what it wrote
}

// serve starts a program.
func (k *keeper) serve(program string, arguments ...string) (*process, error) {
	output, err := os.CreateTemp(k.dir, "output-")
	if err != nil {
		return nil, err
	}
	cmd := command(k.dir, k.as, "/bin/sh", append([]string{"-c", announce, "announce", program}, arguments...)...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{k.pipe} // 3, for announce
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, output.Close())
	}
	p := &process{program: program, ended: make(chan struct{})}
	k.running.Add(1)
	go func() {
		defer k.running.Done()
		defer close(p.ended)
		p.err = cmd.Wait()
		_, _ = k.pipe.WriteString("\n") // its number may be another process's from now on
		p.words = last(output)
		_ = output.Close()
	}()
	return p, nil
}

// run runs a program to its end. When ctx ends first the program goes on until
// the keeper is released.
func (k *keeper) run(ctx context.Context, program string, arguments ...string) error {
	p, err := k.serve(program, arguments...)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.ended:
	}
	if p.err != nil {
		return p.failure()
	}
	return nil
}

// failure tells how a process ended that should not have, and its last words.
func (p *process) failure() error {
	how := "exit status 0"
	if p.err != nil {
		how = p.err.Error()
	}
	return fmt.Errorf("%s ended (%s): %s", filepath.Base(p.program), how, p.words)
}

// last returns the end of a file, at most 2000 bytes.
func last(file *os.File) string {
	const most = 2000
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	words := make([]byte, min(size, most))
	n, _ := file.ReadAt(words, size-int64(len(words)))
	return strings.TrimSpace(string(words[:n]))
}

// file writes a file that only the keeper's account can read, and returns its
// path.
func (k *keeper) file(name, content string) (string, error) {
	path := filepath.Join(k.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return "", err
	}
	return path, k.as.own(path)
}

// account is who runs servers: nobody in place of root, whom PostgreSQL and
// MariaDB refuse; nil is the user that runs the tests.
type account struct{ uid, gid uint32 }

func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(nobody.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(nobody.Gid, 10, 32)
	return &account{uid: uint32(uid), gid: uint32(gid)}, err
}

// own gives the account a file of root's.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}
