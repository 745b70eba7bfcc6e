package lockpipetest

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/lockpipe/lockpipe/internal/resp"
)

// helperMain starts nodes, prints their process ids on one line, and runs until it is killed, or
// until its standard input ends if the test dies first. It leaves its nodes in the worst state: one
// is frozen, one was restarted.
func helperMain() {
	nodes, err := startHelperNodes()
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	fmt.Println(strings.Join(nodes, " "))
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func startHelperNodes() (pids []string, err error) {
	nodes, err := Start(4)
	if err != nil {
		return nil, err
	}
	if err := nodes.Restart(1); err != nil {
		return nil, err
	}
	for i := range nodes.Len() {
		info, err := nodes.Do(i, "INFO", "server")
		if err != nil {
			return nil, err
		}
		pids = append(pids, resp.ParseInfo(info.(string))["process_id"])
	}
	return pids, nodes.Freeze(2)
}
