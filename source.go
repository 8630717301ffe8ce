package skillbay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Source is a directory whose direct sub-directories are skills: see Dir and
// FS. New refuses the zero Source. A Source is a value; it holds nothing open.
type Source struct {
	dir  string // Dir: the path as given
	fsys fs.FS  // FS: the file system
	root string // FS: the directory in fsys; never empty
}

// Dir is the directory path on disk. A relative path means, as everywhere, the
// working directory at the time of New.
func Dir(path string) Source { return Source{dir: path} }

// FS is the directory root of fsys, say an embed.FS. An empty root and "." mean
// the whole of fsys; any other must satisfy fs.ValidPath.
//
// New reads from several goroutines at once: fsys must be safe for that, as
// those of the standard library are. Symbolic links in fsys are refused, since
// an fs.FS cannot tell where they lead; use Dir for trees that have them.
func FS(fsys fs.FS, root string) Source {
	if root == "" {
		root = "."
	}
	return Source{fsys: fsys, root: root}
}

// String names the source in messages: its path, with "fs:" in front for an
// fs.FS.
func (s Source) String() string {
	if s.root != "" {
		return "fs:" + s.root
	}
	return s.dir
}

// candidate is a direct sub-directory of a source, or a link that may lead to
// one: what may turn out to be a skill.
type candidate struct {
	source int    // position in Config.Skills
	name   string // the directory's name
	fsys   fs.FS  // nil: on disk
	dir    string // the absolute directory; with fsys, the path in it
	real   string // dir with all links resolved; empty for a link and with fsys
	link   bool   // a symbolic link
}

// join is the path of the slash-separated rel in the candidate's directory, for
// messages.
func (c candidate) join(rel string) string {
	if c.fsys != nil {
		return "fs:" + path.Join(c.dir, rel)
	}
	return filepath.Join(c.dir, filepath.FromSlash(rel))
}

// candidates lists the source, in name order. Loose files and hidden names are
// no candidates; loose reports a SKILL.md among them, which is a frequent
// mistake. An error means a broken deployment: it matches ErrSource and its
// cause.
func (s Source) candidates(position int) (found []candidate, loose bool, err error) {
	dir, realDir, entries, err := s.list()
	if err != nil {
		return nil, false, &Error{Op: "new", Path: s.String(), Err: fmt.Errorf("%w: %w", ErrSource, cause(err))}
	}
	for _, entry := range entries {
		name, link := entry.Name(), entry.Type()&fs.ModeSymlink != 0
		if hidden(name) || !entry.IsDir() && !link {
			loose = loose || name == skillFile
			continue
		}
		c := candidate{source: position, name: name, fsys: s.fsys, link: link}
		if s.fsys != nil {
			c.dir = path.Join(dir, name)
		} else {
			c.dir = filepath.Join(dir, name)
			if !link {
				c.real = filepath.Join(realDir, name)
			}
		}
		found = append(found, c)
	}
	return found, loose, nil
}

// list reads the source's directory: its absolute path (with an fs.FS, the path
// in it), that path with links resolved, and its entries in name order.
func (s Source) list() (dir, realDir string, entries []fs.DirEntry, err error) {
	// An fs.FS is foreign code: its panic must not cross New.
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the file system panicked: %v", v)
		}
	}()
	if s.root != "" {
		if s.fsys == nil {
			return "", "", nil, errors.New("the fs.FS is nil")
		}
		if !fs.ValidPath(s.root) {
			return "", "", nil, fmt.Errorf("%q is no path of an fs.FS: %w", s.root, fs.ErrInvalid)
		}
		entries, err = fs.ReadDir(s.fsys, s.root)
		return s.root, "", entries, err
	}
	if s.dir == "" {
		return "", "", nil, errors.New("a Source is made by Dir or FS, with a path")
	}
	if dir, err = filepath.Abs(s.dir); err != nil {
		return "", "", nil, err
	}
	if realDir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", "", nil, err
	}
	entries, err = os.ReadDir(realDir) // it opens directories only, so a named pipe fails at once
	return dir, realDir, entries, err
}

// hidden tells whether a name is left out of sources and skills: version
// control, editors and operating systems keep their own files under such names.
func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// cause is err without the operation and path of an *fs.PathError, which
// diagnostics and *Error tell already.
func cause(err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}
