//go:build !unix

package skillbay

import "os"

// openFlags open for reading.
const openFlags = os.O_RDONLY
