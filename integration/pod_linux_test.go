package integration_test

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill a pod when its parent ends, also one that
// is stuck and does not see its standard input end.
func dieWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
