//go:build unix

package skillbay

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// systemVariables are none: no program needs any to start.
var systemVariables []string

// ownGroup makes a command the leader of a process group of its own.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// killGroup kills the process group that leader leads.
func killGroup(leader *os.Process) error {
	err := syscall.Kill(-leader.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// killRest kills what is left of the group of a leader that has ended.
func killRest(leader int) {
	_ = syscall.Kill(-leader, syscall.SIGKILL)
}
