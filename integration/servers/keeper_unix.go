//go:build unix

package servers

import (
	"os/exec"
	"syscall"
)

// hasGroups tells whether a keeper can work here.
const hasGroups = true

// confine gives a command a process group of its own, and the account.
func confine(cmd *exec.Cmd, as *account) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if as != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: as.uid, Gid: as.gid}
	}
}
