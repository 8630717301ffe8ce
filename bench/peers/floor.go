package peers

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/tmc/langchaingo/llms"
)

// ReadAndHash is the floor of Load: every file of the tree is read and hashed,
// one after the other, and nothing is parsed, checked or kept.
func ReadAndHash(tree Tree) Op {
	return func() error {
		h := sha256.New()
		return filepath.WalkDir(tree.Dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			h.Write(data)
			return err
		})
	}
}

// CopyMessages is the floor of Call: the slice of messages is copied, as whoever
// adds to it without changing the caller's must do.
func CopyMessages(history []llms.MessageContent) Op {
	return func() error {
		copied := slices.Clone(history)
		runtime.KeepAlive(copied) // else there would be no copy
		return nil
	}
}
