package skillbay

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// folder is one opened skill directory. Paths in it are slash-separated and
// relative to it; "." is the directory itself.
type folder interface {
	// list returns a directory's entries in name order. A link is not followed.
	list(dir string) ([]fs.DirEntry, error)
	// open opens a file for reading, without waiting if it is a named pipe.
	open(file string) (fs.File, error)
	// follow says where a link leads, as a path in the folder, and what is
	// there. It fails when that is nothing or lies outside.
	follow(link string) (target string, mode fs.FileMode, err error)
	// close releases the folder.
	close()
}

var (
	errOutside = errors.New("the link leads out of the skill's directory")
	errNoLinks = errors.New("links are not followed in an fs.FS: use Dir")
)

// diskFolder is a directory on disk. os.Root keeps every access inside, even
// when something is replaced by a link between being listed and being opened.
type diskFolder struct {
	root *os.Root
	real string // the directory, absolute, links resolved
}

// openDisk opens the directory realDir, an absolute path without links.
func openDisk(realDir string) (*diskFolder, error) {
	// With "/." only a directory can be opened: a named pipe fails at once.
	root, err := os.OpenRoot(realDir + string(filepath.Separator) + ".")
	if err != nil {
		return nil, err
	}
	return &diskFolder{root: root, real: realDir}, nil
}

func (d *diskFolder) list(dir string) ([]fs.DirEntry, error) {
	var f *os.File
	var err error
	if dir == "." { // by its path, as the root was: os.Root would ask once more what each entry is
		f, err = os.OpenFile(d.real+string(filepath.Separator)+".", openFlags, 0)
	} else {
		f, err = d.root.OpenFile(filepath.FromSlash(dir), openFlags, 0)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from: nothing to lose
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

func (d *diskFolder) open(file string) (fs.File, error) {
	f, err := d.root.OpenFile(filepath.FromSlash(file), openFlags, 0)
	if err != nil {
		return nil, err // not f: a nil *os.File is no nil fs.File
	}
	return f, nil
}

// follow resolves the link by its real path. os.Root would follow it as well,
// but refuses every absolute target, even one inside.
func (d *diskFolder) follow(link string) (string, fs.FileMode, error) {
	target, err := filepath.EvalSymlinks(filepath.Join(d.real, filepath.FromSlash(link)))
	if err != nil {
		return "", 0, err
	}
	inside, err := filepath.Rel(d.real, target)
	if err != nil || !filepath.IsLocal(inside) {
		return "", 0, errOutside
	}
	info, err := d.root.Lstat(inside)
	if err != nil {
		return "", 0, err
	}
	return filepath.ToSlash(inside), info.Mode(), nil
}

func (d *diskFolder) close() { _ = d.root.Close() }

// fsFolder is the directory dir of an fs.FS.
type fsFolder struct {
	fsys fs.FS
	dir  string
}

func (d fsFolder) list(dir string) ([]fs.DirEntry, error) {
	return fs.ReadDir(d.fsys, path.Join(d.dir, dir))
}

func (d fsFolder) open(file string) (fs.File, error) {
	return d.fsys.Open(path.Join(d.dir, file))
}

func (fsFolder) follow(string) (string, fs.FileMode, error) { return "", 0, errNoLinks }

func (fsFolder) close() {}
