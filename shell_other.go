//go:build !unix

package skillbay

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
)

// systemVariables are what programs on Windows need to start.
var systemVariables = []string{"SYSTEMROOT", "COMSPEC"}

// ownGroup does nothing: a process tree is found by its root here.
func ownGroup(*exec.Cmd) {}

// killGroup kills a process and, on Windows, its descendants.
func killGroup(leader *os.Process) error {
	if runtime.GOOS == "windows" {
		taskkill := filepath.Join(os.Getenv("SYSTEMROOT"), "System32", "taskkill.exe")
		_ = exec.Command(taskkill, "/T", "/F", "/PID", strconv.Itoa(leader.Pid)).Run()
	}
	return leader.Kill()
}

// killRest does nothing: what a process that has ended left behind is not
// known here.
func killRest(int) {}
