//go:build unix

package skillbay

import (
	"os"
	"syscall"
)

// openFlags open for reading. Without O_NONBLOCK the open of a named pipe, put
// in a file's place after the directory was listed, would wait for a writer.
const openFlags = os.O_RDONLY | syscall.O_NONBLOCK
