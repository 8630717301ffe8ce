package skillbay

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// skillFile is the file that makes a directory a skill, in exactly this case.
const skillFile = "SKILL.md"

// Limits of one skill. A SKILL.md over its limit refuses the skill; another
// file over one is listed, and cannot be read.
const (
	maxSkillFileBytes = 1 << 20 // SKILL.md
	maxFileBytes      = 1 << 20 // every other file
	maxFilesBytes     = 8 << 20 // the other files that can be read, together
	maxFiles          = 256     // the other files that can be read
	maxDepth          = 32      // directories inside one another; deeper ones are not entered
)

// snapshot is all that one reading of a skill's directory gives.
type snapshot struct {
	text   string            // SKILL.md, normalised
	notes  []note            // what normalise says of it
	files  []string          // the other files, sorted
	texts  map[string]string // the contents of those that can be read
	digest string            // see reader.read
	faults []fault           // what could not be read as it should
}

// fault is a finding about a file or directory of a skill. One about SKILL.md
// refuses the skill.
type fault struct {
	path    string // relative to the skill's directory
	message string
}

// member is a regular file of a skill.
type member struct {
	path string // as it is listed
	at   string // where it really lies; another path for what is reached by a link
}

// reader reads skill directories, one after the other, and keeps its buffers.
type reader struct {
	buf  []byte    // a file's contents, and at least one byte more
	sum  hash.Hash // of the current skill
	head []byte    // what the digest holds in front of a file's contents
}

func newReader() *reader {
	return &reader{buf: make([]byte, 16<<10), sum: sha256.New()}
}

// read reads the whole skill, each file once; top is what f.list(".") returned.
//
// The digest is the SHA-256, in hex, over the skill's files, SKILL.md included,
// in the order of their paths. For each file it takes the length of the path in
// 8 bytes (big endian), the path, one byte, the length of the contents in 8
// bytes, and the bytes as they are on disk. The one byte is 0; it is 1 for a
// file over a limit, whose contents are left out. Hidden files and files that
// are refused do not enter, nor do modes and times: a digest is the same on
// every machine.
func (r *reader) read(f folder, top []fs.DirEntry) snapshot {
	var w walk
	w.folder = f
	w.enter(top, ".", ".", 1, false)
	slices.SortFunc(w.members, func(a, b member) int { return strings.Compare(a.path, b.path) })

	s := snapshot{faults: w.faults}
	var (
		total     int64  // bytes of the other files that can be read
		crowd     int    // files over the limits of the whole skill
		crowdFrom string // the first of them
	)
	r.sum.Reset()
	for _, m := range w.members {
		own := m.path == skillFile
		limit := int64(maxFileBytes)
		switch {
		case own:
			limit = maxSkillFileBytes
		case len(s.texts) == maxFiles:
			limit = -1
		default:
			limit = min(limit, maxFilesBytes-total)
		}
		data, size, err := r.contents(f, m.at, limit)
		if err != nil {
			s.faults = append(s.faults, fault{m.path, "the file cannot be read: " + cause(err).Error()})
			continue
		}
		over := size > limit
		r.enter(m.path, data, size, over)
		if own {
			if over {
				s.faults = append(s.faults, fault{m.path, fmt.Sprintf("the file is over %d bytes", maxSkillFileBytes)})
				continue
			}
			s.text, s.notes = normalise(data)
			continue
		}
		s.files = append(s.files, m.path)
		switch {
		case size > maxFileBytes:
			s.faults = append(s.faults, fault{m.path, fmt.Sprintf(
				"the file is over %d bytes: listed, but not readable", maxFileBytes)})
		case over:
			if crowd == 0 {
				crowdFrom = m.path
			}
			crowd++
		default:
			if s.texts == nil {
				s.texts = make(map[string]string)
			}
			s.texts[m.path] = string(data)
			total += size
		}
	}
	if crowd > 0 {
		s.faults = append(s.faults, fault{crowdFrom, fmt.Sprintf(
			"%d files, from this one on, are over the %d files and %d bytes of a skill: listed, but not readable",
			crowd, maxFiles, maxFilesBytes)})
	}
	s.digest = hex.EncodeToString(r.sum.Sum(r.head[:0]))
	return s
}

// contents returns a regular file's contents, valid until the next call, and
// its size. Over the limit there are no contents; at most limit+1 bytes are
// read, and none when the file system tells the size beforehand.
func (r *reader) contents(f folder, at string, limit int64) (data []byte, size int64, err error) {
	file, err := f.open(at)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = file.Close() }() // only read from: nothing to lose
	// Asked again now that it is open: the listing may be outdated.
	info, err := file.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errors.New(kind(info.Mode()))
	}
	if size = info.Size(); size > limit {
		return nil, size, nil
	}
	// The size was a hint; the end of the file is what counts.
	r.grow(size + 1)
	for n := int64(0); ; {
		more, err := io.ReadFull(file, r.buf[n:min(int64(len(r.buf)), limit+1)])
		n += int64(more)
		switch {
		case err == nil && n > limit:
			return nil, n, nil
		case err == nil:
			r.grow(2 * n)
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return r.buf[:n], n, nil
		default:
			return nil, 0, err
		}
	}
}

// grow makes room for that many bytes, and keeps what is there.
func (r *reader) grow(size int64) {
	if missing := int(size) - len(r.buf); missing > 0 {
		r.buf = append(r.buf, make([]byte, missing)...)
	}
}

// enter adds a file to the digest.
func (r *reader) enter(path string, data []byte, size int64, over bool) {
	r.head = binary.BigEndian.AppendUint64(r.head[:0], uint64(len(path)))
	r.head = append(r.head, path...)
	if over {
		r.head = append(r.head, 1)
	} else {
		r.head = append(r.head, 0)
	}
	r.head = binary.BigEndian.AppendUint64(r.head, uint64(size))
	r.sum.Write(r.head)
	r.sum.Write(data)
}

// walk finds the regular files of a skill.
type walk struct {
	folder  folder
	members []member
	faults  []fault
}

// enter walks a directory that lies at `at` and is listed as `as`; the two
// differ below a link. Links to directories are followed, but not below another
// link: what such a link leads to has a path without it, so nothing is lost, and
// links to one another cannot multiply.
func (w *walk) enter(entries []fs.DirEntry, at, as string, depth int, linked bool) {
	for _, entry := range entries {
		name := entry.Name()
		if hidden(name) {
			continue
		}
		m := member{path: path.Join(as, name), at: path.Join(at, name)}
		if problem := badFileName(name); problem != "" {
			w.fault(as, fmt.Sprintf("the file %q is refused: %s", name, problem))
			continue
		}
		mode, below := entry.Type(), linked
		if mode&fs.ModeSymlink != 0 {
			target, targetMode, err := w.folder.follow(m.at)
			if err != nil {
				w.fault(m.path, "the link is refused: "+cause(err).Error())
				continue
			}
			if targetMode.IsDir() && (linked || contains(target, m.at)) {
				w.fault(m.path, "the link to a directory is not followed: it loops, or lies below another link")
				continue
			}
			m.at, mode, below = target, targetMode, true
		}
		switch {
		case mode.IsRegular():
			w.members = append(w.members, m)
		case !mode.IsDir():
			w.fault(m.path, "the file is refused: "+kind(mode))
		case m.path == skillFile:
			w.fault(m.path, "it is a directory, not a file")
		case depth == maxDepth:
			w.fault(m.path, fmt.Sprintf("the directory is not entered: more than %d lie inside one another", maxDepth))
		default:
			inner, err := w.folder.list(m.at)
			if err != nil {
				w.fault(m.path, "the directory cannot be listed: "+cause(err).Error())
				continue
			}
			w.enter(inner, m.at, m.path, depth+1, below)
		}
	}
}

func (w *walk) fault(path, message string) { w.faults = append(w.faults, fault{path, message}) }

// contains tells whether path is dir or lies in it; both are clean.
func contains(dir, path string) bool {
	return dir == "." || path == dir || strings.HasPrefix(path, dir+"/")
}

// kind says why a file of that mode is not read.
func kind(mode fs.FileMode) string {
	what := "it is not a regular file"
	switch {
	case mode.IsDir():
		what = "it is a directory"
	case mode&fs.ModeNamedPipe != 0:
		what = "it is a named pipe"
	case mode&fs.ModeSocket != 0:
		what = "it is a socket"
	case mode&fs.ModeDevice != 0:
		what = "it is a device"
	}
	return what + "; only regular files are opened"
}

// badFileName says why a name cannot stand in the text that tells the model a
// skill's files, one line of valid UTF-8; it is empty when it can.
func badFileName(name string) string {
	switch {
	case name == "" || strings.Contains(name, "/"):
		return "it is no name"
	case !utf8.ValidString(name):
		return "its name is not valid UTF-8"
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) }):
		return "its name holds a control character or a line break"
	}
	return ""
}

// changedOnDisk tells whether the skill's directory no longer has the digest of
// New. A directory that can no longer be read has changed. A skill that is not
// on disk never changes.
func (f *frozen) changedOnDisk() bool {
	if !f.onDisk {
		return false
	}
	realDir, err := filepath.EvalSymlinks(f.Dir)
	if err != nil {
		return true
	}
	folder, err := openDisk(realDir)
	if err != nil {
		return true
	}
	defer folder.close()
	top, err := folder.list(".")
	return err != nil || newReader().read(folder, top).digest != f.Digest
}
