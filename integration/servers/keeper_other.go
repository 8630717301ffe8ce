//go:build !unix

package servers

import "os/exec"

// hasGroups tells whether a keeper can work here: without a shell and process
// groups it cannot.
const hasGroups = false

// confine does nothing: no command is run.
func confine(*exec.Cmd, *account) {}
